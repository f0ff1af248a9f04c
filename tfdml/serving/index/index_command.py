"""The work of `python -m tfdml.index`, and the lines that it prints."""

import os

from tfdml.console import command
from tfdml.files.embedding_shards import EmbeddingShards
from tfdml.serving.embedding.image_list import ImageList
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import model_hash, saved_model_folder
from tfdml.serving.index.attributes import read_attributes
from tfdml.serving.index.deleting import compact_index, delete_images
from tfdml.serving.index.index_folder import IndexFolder
from tfdml.serving.index.indexing import index_embeddings, index_images
from tfdml.serving.index.stores.addresses import is_engine, open_store, store_name
from tfdml.serving.index.stores.engine_upgrade import upgrade_engine
from tfdml.serving.index.stores.loading import load_images, load_shards
from tfdml.serving.index.upgrading import upgrade_index


def check(given):
    """Raises a ValueError if flags do not go together.

    Args:
        given: flags of the command.
    """
    if given.embeddings and (given.add or not given.model):
        raise ValueError("--embeddings makes a new index, with --model, which computed them, and without --add.")
    if given.update and not given.add:
        raise ValueError("--update goes with --add, which goes on with an index.")
    if given.upgrade and not given.model:
        raise ValueError("--upgrade takes the new model: --model=exported/2.")
    if given.add or given.upgrade:
        command.refuse_unused(["kind"], "--add and --upgrade go on with the index that is there")
    if given.images or given.embeddings or given.upgrade:
        command.refuse_unused(["compact"], "--images and --embeddings add to an index")
    if not (given.images or given.embeddings):
        command.refuse_unused(["attributes"], "--delete, --compact and --upgrade add nothing")
    if is_engine(given.out):
        command.refuse_unused(["compact"], f"{store_name(given.out)} erases what is deleted at once")
    if not given.embeddings or not is_engine(given.out):
        command.refuse_unused(["workers"], "--embeddings are loaded into an engine by several")


def add(given):
    """Makes an index, or adds images to one; returns the path of one of these images.

    Args:
        given: flags of the command.
    """
    about = {"model": given.model, "kind": given.kind}
    if given.embeddings:
        paths = sorted(EmbeddingShards(given.embeddings).paths())
        if given.attributes:
            about["attributes"] = read_attributes(given.attributes, paths)
        if is_engine(given.out):
            count, bad = _load(given, about.get("attributes"))
        else:
            count, bad = index_embeddings(given.out, given.embeddings, **about)
    else:
        if not ImageList.is_dataset(given.images):
            command.refuse_unused(["data_dir", "split"], "--images reads files from the working folder")
        images = ImageList.of(given.images, data_dir=given.data_dir, split=given.split)
        paths = images.paths
        if given.attributes:
            about["attributes"] = read_attributes(given.attributes, images.paths)
        if is_engine(given.out):
            count, bad = _load(given, about.get("attributes"), images)
        else:
            about |= {"add": given.add, "update": given.update, "batch_size": given.batch_size}
            count, bad = index_images(given.out, images, **about)
    if bad:
        path, reason = min(bad.items())
        print(f"{len(bad):,} of {count + len(bad):,} images cannot be read and are left out, first {path}: {reason}")
        if not is_engine(given.out):
            print(f"All are listed in {given.out}/bad_images.jsonl")
    print(f"Indexed {count:,} images in {given.out}.")
    first = next((path for path in paths if path not in bad), paths[0])
    return first if is_engine(given.out) else IndexFolder(given.out).file_of(first)


def _load(given, attributes, images=None):
    """Adds images, or embeddings, to an engine; returns how many it has then, and path to reason of unreadable ones."""
    if not given.model:
        raise ValueError(f"--model is missing: the exported model whose embeddings are in {store_name(given.out)}.")
    folder = saved_model_folder(given.model)
    model = ExportedModel(folder)
    kind = given.kind if given["kind"].present else None
    with open_store(given.out, model=model_hash(folder), kind=kind, metric=model.metric) as store:
        if images is None:
            bad = load_shards(store, given.embeddings, attributes, workers=given.workers)
        else:
            options = {"update": given.update, "batch_size": given.batch_size}
            bad = load_images(store, images, model, attributes, **options)
        store.build()
        return store.count(), bad


def delete(given):
    """Deletes images from an index, or erases those that are deleted.

    Args:
        given: flags of the command.
    """
    if not given.delete:
        print(f"{given.out} has {compact_index(given.out):,} images.")
        return
    if is_engine(given.out):
        deleted, left = _delete_from_engine(given.out, given.delete)
    else:
        deleted, left = delete_images(given.out, given.delete, compact=given.compact is not False)
    if not deleted:
        print(f"{given.out} has {left:,} images. {given.delete[0]} is not among them, and nothing is left to delete.")
        return
    print(f"Deleted {deleted:,} images from {given.out}; it has {left:,} images.")


def _delete_from_engine(out, paths):
    with open_store(out) as store:
        found = store.ids_of({each for path in paths for each in (path, os.path.abspath(path))})
        unknown = sorted(path for path in paths if not {path, os.path.abspath(path)} & found.keys())
        if found and unknown:
            raise ValueError(f"{unknown[0]} is not in the index {out}, and nothing is deleted.")
        store.delete(found.values())
        return len(found), store.count()


def upgrade(given):
    """Gives an index another model.

    Args:
        given: flags of the command.
    """
    upgraded = upgrade_engine if is_engine(given.out) else upgrade_index
    count = upgraded(given.out, given.model, batch_size=given.batch_size)
    if not count:
        print(f"{given.out} has the model {given.model} already, and nothing is left to do.")
        return
    print(f"{given.out} has the model {given.model} now, which has embedded {count:,} images.")
