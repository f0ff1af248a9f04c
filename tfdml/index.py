"""Makes an index of images: `python -m tfdml.index --model=exported/1 --images=photos --out=index`.

An interrupted command goes on where it stopped when it is repeated. Later images are added with --add, and images are
deleted with --delete. Filters of searches ask for the columns of a table of --attributes.

python -m tfdml.index --images=new_photos --out=index --add --attributes=prices.csv
python -m tfdml.index --delete=photos/a.jpg,photos/b.jpg --out=index
python -m tfdml.index --upgrade --model=exported/2 --out=index
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
flags.DEFINE_string(
    "out", "", "The index: a folder, postgresql://user@host/db?table=photos, or qdrant://host:6333/photos."
)
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
flags.DEFINE_bool("upgrade", False, "Embed all images by --model, beside the index, which uses it at the end.")
flags.DEFINE_integer(
    "batch_size", None, "Images that the model embeds at once. Default: 64 on a GPU, 8 without.", lower_bound=1
)
flags.DEFINE_integer(
    "workers", 1, "Shards of --embeddings that are loaded at once into PostgreSQL or a server of Qdrant.", lower_bound=1
)
tfdml_flags.define_debug()


def main():
    from tfdml.serving.index import index_command
    from tfdml.serving.index.stores.addresses import is_engine

    given = flags.FLAGS
    if not given.out:
        raise ValueError("--out is missing: the folder or address of the index.")
    sources = sum(map(bool, (given.images, given.embeddings, given.delete, given.upgrade)))
    if sources != 1 and not (given.compact and not sources):
        raise ValueError("Expected one of --images, --embeddings, --delete, --compact and --upgrade.")
    index_command.check(given)
    # TensorFlow logs how it reads the model.
    logging.set_verbosity(logging.WARNING)
    # An index in a folder has a copy of its model.
    own = [f"--model={given.model}"] if is_engine(given.out) else []
    if given.images or given.embeddings:
        query = index_command.add(given)
        command.print_next("tfdml.search", f"--index={given.out}", *own, query)
        return
    if given.upgrade:
        index_command.upgrade(given)
    else:
        index_command.delete(given)
    if given.model or not own:
        command.print_next("tfdml.serve", f"--index={given.out}", *own)


if __name__ == "__main__":
    command.run(main, reads_images=True)
