"""Creates or changes an image index: `python -m tfdml.index --model=exported/1 --images=photos --out=index`.

If the command is interrupted, repeat it to resume. Use --add to add images later, --delete to delete images, and
--attributes to store columns, such as prices, that searches can filter by.

python -m tfdml.index --images=new_photos --out=index --add --attributes=prices.csv
python -m tfdml.index --model=exported/1 --images=photos --tiles=2x2+1 --out=tiled_index
python -m tfdml.index --delete=photos/a.jpg,photos/b.jpg --out=index
python -m tfdml.index --upgrade --model=exported/2 --out=index
"""

from absl import flags, logging

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string(
    "model",
    "",
    "Folder of an exported model, see python -m tfdml.export. Not needed with --add, which uses the index's own copy.",
)
flags.DEFINE_string(
    "images",
    "",
    "Images to index: a folder, a pattern, a list or table of paths, or a dataset spec. A table may have the columns "
    "x1,y1,x2,y2 of boxes, in pixels or as fractions.",
)
flags.DEFINE_string(
    "embeddings", "", "Instead of --images, a folder that tfdml.embed has written with the same --model."
)
flags.DEFINE_string("data_dir", "", "Folder of the dataset, if --images is a dataset spec.")
flags.DEFINE_enum("split", "test", ["train", "test"], "Split of the dataset, if --images is a dataset spec.")
flags.DEFINE_string(
    "out",
    "",
    "Folder or address of the index, such as photo_index, postgresql://user@host/db?table=photos or "
    "qdrant://host:6333/photos.",
)
flags.DEFINE_string(
    "kind",
    "flat",
    "Kind of index. flat compares each query with all images. For millions of images, use ivf or hnsw, which are "
    "faster but approximate. int8, binary and pq need less memory. Arguments are possible, such as ivf(probes=32).",
)
flags.DEFINE_string(
    "tiles",
    "",
    "Also find parts of photos: index tiles of each image, such as 2x2 for its quarters, or 2x2+1 for the quarters and "
    "the whole image. A search finds each photo once, by its most similar tile. If not set, whole images.",
)
flags.DEFINE_bool("add", False, "Add --images to an existing index.")
flags.DEFINE_bool("update", False, "With --add, embed images again that are already in the index, and replace them.")
flags.DEFINE_string(
    "attributes",
    "",
    "A .csv or .parquet table with a column path and other columns, which --where of tfdml.search can filter by. If "
    "not set, the index has no attributes.",
)
flags.DEFINE_bool(
    "compact",
    None,
    "Erase deleted images from all files, which rebuilds the index. If not set, --delete does so. With --nocompact, "
    "images are only marked as deleted, which is fast; they are erased when 20% of the images are deleted.",
)
flags.DEFINE_list("delete", [], "Paths of images to delete from the index, separated by commas.")
flags.DEFINE_bool(
    "upgrade",
    False,
    "Embed all images of the index again with a new --model. The index keeps the old model until this is complete.",
)
flags.DEFINE_integer(
    "batch_size",
    None,
    "Number of images that the model embeds at once. If not set, 64 on a GPU and 8 on a CPU.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "workers",
    1,
    "Number of shards of --embeddings that are loaded at once into PostgreSQL or a Qdrant server.",
    lower_bound=1,
)
tfdml_flags.define_debug()


def main():
    from tfdml.serving.index.stores.store import is_engine

    values = flags.FLAGS
    if not values.out:
        raise ValueError("--out is missing. Set it to the folder or address of the index.")
    sources = sum(map(bool, (values.images, values.embeddings, values.delete, values.upgrade)))
    if sources != 1 and not (values.compact and not sources):
        raise ValueError("Set exactly one of --images, --embeddings, --delete, --compact and --upgrade.")
    in_engine = is_engine(values.out)
    _check(values, in_engine)
    # TensorFlow would log how it loads the model.
    logging.set_verbosity(logging.WARNING)
    # An index in a folder includes a copy of its model.
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
        raise ValueError(
            "--embeddings creates a new index. Set --model to the model that computed them, and remove --add."
        )
    if values.update and not values.add:
        raise ValueError("--update needs --add. Set both to replace images of an existing index.")
    if values.upgrade and not values.model:
        raise ValueError("--upgrade needs --model. Set it to the new model, for example --model=exported/2.")
    if values.add or values.upgrade:
        command.refuse_unused(["kind", "tiles"], "--add and --upgrade keep the kind and the tiles of the index")
    if values.images or values.embeddings or values.upgrade:
        command.refuse_unused(["compact"], "--images, --embeddings and --upgrade delete nothing")
    if not (values.images or values.embeddings):
        command.refuse_unused(["attributes"], "--delete, --compact and --upgrade add no images")
    if in_engine:
        from tfdml.serving.index.stores.store import store_name

        command.refuse_unused(["compact"], f"{store_name(values.out)} erases deleted images immediately")
    if in_engine or not values.images:
        command.refuse_unused(["tiles"], "only --images in a folder can be indexed in tiles")
    if not values.embeddings or not in_engine:
        command.refuse_unused(["workers"], "only --embeddings can be loaded into a vector database by several workers")


def _add(values, in_engine):
    """Creates an index or adds images to it; returns the path of one of these images."""
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
            command.refuse_unused(["data_dir", "split"], "--images reads files from the working directory")
        source = ImageList.of(values.images, data_dir=values.data_dir, split=values.split)
        source = source.inside(values.out) if values.add and not in_engine else source
        paths = source.paths
    about = {"model": values.model, "kind": values.kind}
    about["attributes"] = None
    if values.attributes:
        # If the table of the images is also the one of the attributes, its labels are used.
        about["attributes"] = read_attributes(values.attributes, paths, has_labels=values.attributes == values.images)
    of_images = {"update": values.update, "batch_size": values.batch_size}
    if in_engine:
        about["kind"] = values.kind if values["kind"].present else None
        count, bad = load(values.out, source, **about, **of_images, workers=values.workers)
    elif values.embeddings:
        count, bad = index_embeddings(values.out, source, **about)
    else:
        count, bad = index_images(values.out, source, **about, **of_images, tiles=values.tiles, add=values.add)
    if bad:
        path, reason = min(bad.items())
        print(f"Skipped {len(bad):,} of {count + len(bad):,} images that cannot be read. The first is {path}: {reason}")
        if not in_engine:
            print(f"For the full list, see {values.out}/bad_images.jsonl")
    what = "images"
    if not in_engine and (tiles := IndexFolder(values.out).manifest().get("tiles")):
        what = f"tiles ({tiles})"
    print(f"Indexed {count:,} {what} in {values.out}.")
    first = next((path for path in paths if path not in bad), paths[0])
    first = ImageList([first], [None]).files()[0]
    return first if in_engine else IndexFolder(values.out).file_of(first)


def _delete(values, in_engine):
    from tfdml.serving.image_list import joined_names
    from tfdml.serving.index.build import compact_index, delete_images
    from tfdml.serving.index.stores.engine import unload

    names = joined_names(values.delete)
    if not names:
        print(f"{values.out} has {compact_index(values.out):,} images.")
        return
    if in_engine:
        deleted, left = unload(values.out, names)
    else:
        deleted, left = delete_images(values.out, names, compact=values.compact is not False)
    if not deleted:
        print(f"{names[0]} is not in {values.out}, so there is nothing to delete. It has {left:,} images.")
    else:
        print(f"Deleted {deleted:,} images from {values.out}. It has {left:,} images now.")


def _upgrade(values, in_engine):
    from tfdml.serving.index.build import upgrade_index
    from tfdml.serving.index.stores.engine import upgrade_engine

    count = (upgrade_engine if in_engine else upgrade_index)(values.out, values.model, batch_size=values.batch_size)
    if count:
        print(f"Upgraded {values.out} to the model {values.model}: embedded {count:,} images.")
    else:
        print(f"{values.out} already uses the model {values.model}. There is nothing to do.")


if __name__ == "__main__":
    command.run(main, reads_images=True)
