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
    from tfdml.serving.index.stores.store import is_engine

    values = flags.FLAGS
    if not values.out:
        raise ValueError("--out is missing: the folder or address of the index.")
    sources = sum(map(bool, (values.images, values.embeddings, values.delete, values.upgrade)))
    if sources != 1 and not (values.compact and not sources):
        raise ValueError("Expected one of --images, --embeddings, --delete, --compact and --upgrade.")
    in_engine = is_engine(values.out)
    _check(values, in_engine)
    # TensorFlow logs how it reads the model.
    logging.set_verbosity(logging.WARNING)
    # An index in a folder has a copy of its model.
    own = [f"--model={values.model}"] if in_engine else []
    if values.images or values.embeddings:
        query = _add(values, in_engine)
        command.print_next("tfdml.search", f"--index={values.out}", *own, query)
        return
    if values.upgrade:
        _upgrade(values, in_engine)
    else:
        _delete(values, in_engine)
    if values.model or not own:
        command.print_next("tfdml.serve", f"--index={values.out}", *own)


def _check(values, in_engine):
    if values.embeddings and (values.add or not values.model):
        raise ValueError("--embeddings makes a new index, with --model, which computed them, and without --add.")
    if values.update and not values.add:
        raise ValueError("--update goes with --add, which goes on with an index.")
    if values.upgrade and not values.model:
        raise ValueError("--upgrade takes the new model: --model=exported/2.")
    if values.add or values.upgrade:
        command.refuse_unused(["kind"], "--add and --upgrade go on with the index that is there")
    if values.images or values.embeddings or values.upgrade:
        command.refuse_unused(["compact"], "--images and --embeddings add to an index")
    if not (values.images or values.embeddings):
        command.refuse_unused(["attributes"], "--delete, --compact and --upgrade add nothing")
    if in_engine:
        from tfdml.serving.index.stores.store import store_name

        command.refuse_unused(["compact"], f"{store_name(values.out)} erases what is deleted at once")
    if not values.embeddings or not in_engine:
        command.refuse_unused(["workers"], "--embeddings are loaded into an engine by several")


def _add(values, in_engine):
    """Makes an index, or adds images to one; returns the path of one of these images."""
    from tfdml.files.shards import EmbeddingShards
    from tfdml.serving.image_list import ImageList
    from tfdml.serving.index.attributes import read_attributes
    from tfdml.serving.index.build import index_embeddings, index_images
    from tfdml.serving.index.folder import IndexFolder
    from tfdml.serving.index.stores.engine import load

    if values.embeddings:
        source = values.embeddings
        paths = sorted(EmbeddingShards(source).paths())
    else:
        if not ImageList.is_dataset(values.images):
            command.refuse_unused(["data_dir", "split"], "--images reads files from the working folder")
        source = ImageList.of(values.images, data_dir=values.data_dir, split=values.split)
        paths = source.paths
    about = {"model": values.model, "kind": values.kind}
    about["attributes"] = read_attributes(values.attributes, paths) if values.attributes else None
    of_images = {"update": values.update, "batch_size": values.batch_size}
    if in_engine:
        about["kind"] = values.kind if values["kind"].present else None
        count, bad = load(values.out, source, **about, **of_images, workers=values.workers)
    elif values.embeddings:
        count, bad = index_embeddings(values.out, source, **about)
    else:
        count, bad = index_images(values.out, source, **about, **of_images, add=values.add)
    if bad:
        path, reason = min(bad.items())
        print(f"{len(bad):,} of {count + len(bad):,} images cannot be read and are left out, first {path}: {reason}")
        if not in_engine:
            print(f"All are listed in {values.out}/bad_images.jsonl")
    print(f"Indexed {count:,} images in {values.out}.")
    first = next((path for path in paths if path not in bad), paths[0])
    return first if in_engine else IndexFolder(values.out).file_of(first)


def _delete(values, in_engine):
    from tfdml.serving.index.build import compact_index, delete_images
    from tfdml.serving.index.stores.engine import unload

    if not values.delete:
        print(f"{values.out} has {compact_index(values.out):,} images.")
        return
    if in_engine:
        deleted, left = unload(values.out, values.delete)
    else:
        deleted, left = delete_images(values.out, values.delete, compact=values.compact is not False)
    if not deleted:
        print(f"{values.out} has {left:,} images. {values.delete[0]} is not among them, and nothing is left to delete.")
    else:
        print(f"Deleted {deleted:,} images from {values.out}; it has {left:,} images.")


def _upgrade(values, in_engine):
    from tfdml.serving.index.build import upgrade_index
    from tfdml.serving.index.stores.engine import upgrade_engine

    count = (upgrade_engine if in_engine else upgrade_index)(values.out, values.model, batch_size=values.batch_size)
    if count:
        print(f"{values.out} has the model {values.model} now, which has embedded {count:,} images.")
    else:
        print(f"{values.out} has the model {values.model} already, and nothing is left to do.")


if __name__ == "__main__":
    command.run(main, reads_images=True)
