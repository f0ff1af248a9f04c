"""Searches an index for images that are similar to others: `python -m tfdml.search --index=index query.jpg`.

python -m tfdml.search --index=index --picture=found.png query.jpg other.jpg
python -m tfdml.search --index=index --where="label in ('mug', 'cup') and price < 20" query.jpg
python -m tfdml.search --index=index --duplicates --threshold=0.98
python -m tfdml.search --index=index --label=new_photos --validation=photos_with_labels --precision=0.95
"""

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("index", "", "Folder or address of the index, see python -m tfdml.index.")
flags.DEFINE_string("model", "", "Folder of the exported model; empty: the index's own copy.")
flags.DEFINE_integer("k", 5, "Number of neighbors that are shown, or that vote for a label.", lower_bound=1)
flags.DEFINE_enum("format", "table", ["table", "json"], "What is printed.")
flags.DEFINE_string("picture", "", "Image file to draw queries and neighbors in, such as found.png; empty: none.")
flags.DEFINE_bool(
    "duplicates", False, "List the pairs of images in the index with at least the similarity --threshold."
)
flags.DEFINE_bool("groups", False, "With --duplicates: list groups of images that such pairs connect.")
flags.DEFINE_string("where", "", "Filter of neighbors by columns of the index, such as price < 20; empty: none.")
flags.DEFINE_string(
    "threshold",
    "",
    "Smallest similarity of neighbors, of --label and of --duplicates, or none; empty: what tfdml.threshold has fitted "
    "for the model, else none. --duplicates has 0.95 if none is given.",
)
flags.DEFINE_bool("adaptive", False, "Cut each list of neighbors where their similarity falls most.")
flags.DEFINE_string("label", "", "Folder of images to label by their nearest neighbors, where these are near enough.")
flags.DEFINE_string(
    "validation",
    "",
    "With --label, in place of --threshold: a folder with a folder of images for each label, some of them not in the "
    "index. They determine the threshold.",
)
flags.DEFINE_float("precision", 0.95, "Fraction of the labels that have to be right on --validation.", 0.0, 1.0)
tfdml_flags.define_debug()


def main(queries):
    given = flags.FLAGS
    if not given.index:
        raise ValueError("--index is missing: the folder of an index, see python -m tfdml.index.")
    if sum([bool(queries), given.duplicates, bool(given.label)]) != 1:
        raise ValueError("Expected one of: images to search for, --duplicates, and --label.")
    if given.threshold and given.validation:
        raise ValueError("Expected --threshold or --validation, which determines one; received both.")
    if not queries:
        command.refuse_unused(["picture", "where", "adaptive"], "--duplicates and --label print a list")
    if not given.duplicates:
        command.refuse_unused(["groups"], "This searches without --duplicates")
    command.check_file("picture")
    command.import_package()
    # TensorFlow logs how it reads the model.
    logging.set_verbosity(logging.WARNING)
    from tfdml.serving.index import printed_search
    from tfdml.serving.index.stores.addresses import searcher_of

    printed_search.check_picture(given.picture)
    searcher = searcher_of(given.index, given.model or None)
    if queries:
        printed_search.print_neighbors(searcher, queries, given)
    elif given.duplicates:
        printed_search.print_duplicates(searcher, given)
    else:
        printed_search.print_labels(searcher, given)


if __name__ == "__main__":
    command.run(main, arguments="QUERY...", reads_images=True)
