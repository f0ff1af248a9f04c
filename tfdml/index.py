"""Makes an index of images: `python -m tfdml.index --model=exported/1 --images=photos --out=index`.

An interrupted command goes on where it stopped when it is repeated. Later images are added with --add, and images are
deleted with --delete. Filters of searches ask for the columns of a table of --attributes.

python -m tfdml.index --images=new_photos --out=index --add --attributes=prices.csv
python -m tfdml.index --delete=photos/a.jpg,photos/b.jpg --out=index
"""

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("model", "", "Folder of an exported model, see python -m tfdml.export; --add needs none.")
flags.DEFINE_string(
    "images", "", "What to index: a folder, a pattern, a list or table of paths, or the spec of a dataset."
)
flags.DEFINE_string("embeddings", "", "Instead of --images: folder that tfdml.embed has written with --model.")
flags.DEFINE_string("data_dir", "", "Folder of a dataset.")
flags.DEFINE_enum("split", "test", ["train", "test"], "Split of a dataset.")
flags.DEFINE_string("out", "", "Folder of the index.")
flags.DEFINE_string(
    "kind",
    "flat",
    "flat: compares with all images. For millions of images ivf or hnsw, and pq for little memory, with arguments such "
    "as ivf(probes=32).",
)
flags.DEFINE_bool("add", False, "Add --images to the index.")
flags.DEFINE_bool(
    "update", False, "With --add: images that the index has already are embedded again, and replace the earlier ones."
)
flags.DEFINE_string(
    "attributes",
    "",
    "Table, .csv or .parquet, with a column path and others, for --where of tfdml.search; empty: none.",
)
flags.DEFINE_bool(
    "compact",
    None,
    "Erase deleted images from all files, which builds the index anew. Default: with --delete. With --nocompact it "
    "only marks them, which takes no time, and they are erased when a fifth is deleted.",
)
flags.DEFINE_list("delete", [], "Paths of images to delete from the index.")
flags.DEFINE_integer(
    "batch_size", None, "Images that the model embeds at once. Default: 64 on a GPU, 8 without.", lower_bound=1
)
tfdml_flags.define_debug()


def main():
    from tfdml.serving.index import index_command

    given = flags.FLAGS
    if not given.out:
        raise ValueError("--out is missing: the folder of the index.")
    sources = sum(map(bool, (given.images, given.embeddings, given.delete)))
    if sources != 1 and not (given.compact and not sources):
        raise ValueError("Expected one of --images, the images to index, --embeddings, --delete, and --compact.")
    if given.embeddings and (given.add or not given.model):
        raise ValueError("--embeddings makes a new index, with --model, which computed them, and without --add.")
    if given.update and not given.add:
        raise ValueError("--update goes with --add, which goes on with an index.")
    if given.add:
        command.refuse_unused(["kind"], "--add goes on with the index that is there")
    if given.images or given.embeddings:
        command.refuse_unused(["compact"], "--images and --embeddings add to an index")
        # TensorFlow logs how it reads the model.
        logging.set_verbosity(logging.WARNING)
        index_command.add(given)
    else:
        command.refuse_unused(["attributes"], "--delete and --compact add nothing")
        index_command.delete(given)


if __name__ == "__main__":
    command.run(main)
