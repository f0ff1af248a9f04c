"""The work of `python -m tfdml.index`, and the lines that it prints."""

from tfdml.console import command
from tfdml.files.embedding_shards import EmbeddingShards
from tfdml.serving.embedding.image_list import ImageList
from tfdml.serving.index.attributes import read_attributes
from tfdml.serving.index.deleting import compact_index, delete_images
from tfdml.serving.index.indexing import index_embeddings, index_images


def add(given):
    """Makes an index, or adds images to one.

    Args:
        given: flags of the command.
    """
    about = {"model": given.model, "kind": given.kind}
    if given.embeddings:
        if given.attributes:
            paths = sorted(EmbeddingShards(given.embeddings).paths())
            about["attributes"] = read_attributes(given.attributes, paths)
        count, bad = index_embeddings(given.out, given.embeddings, **about)
    else:
        if not ImageList.is_dataset(given.images):
            command.refuse_unused(["data_dir", "split"], "--images reads files from the working folder")
        images = ImageList.of(given.images, data_dir=given.data_dir, split=given.split)
        if given.attributes:
            about["attributes"] = read_attributes(given.attributes, images.paths)
        about |= {"add": given.add, "update": given.update, "batch_size": given.batch_size}
        count, bad = index_images(given.out, images, **about)
    if bad:
        path, reason = min(bad.items())
        print(f"{len(bad):,} of {count + len(bad):,} images cannot be read and are left out, first {path}: {reason}")
        print(f"All are listed in {given.out}/bad_images.jsonl")
    print(f"Indexed {count:,} images in {given.out}.")


def delete(given):
    """Deletes images from an index, or erases those that are deleted.

    Args:
        given: flags of the command.
    """
    if not given.delete:
        print(f"{given.out} has {compact_index(given.out):,} images.")
        return
    deleted, left = delete_images(given.out, given.delete, compact=given.compact is not False)
    print(f"Deleted {deleted:,} images from {given.out}; it has {left:,} images.")
