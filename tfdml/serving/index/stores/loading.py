"""Loads images and embeddings into a store, by batches, and deletes images from it by their paths.

A load that was interrupted continues where it stopped.
"""

import collections
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tfdml.console.progress_bar import ProgressBar
from tfdml.files.shards import EmbeddingShards
from tfdml.serving.embedding.embedding_pass import embed_rows
from tfdml.serving.embedding.image_list import ImageList
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import model_hash, saved_model_folder
from tfdml.serving.index.attributes import table_of_rows
from tfdml.serving.index.indexing import check_files
from tfdml.serving.index.stores.addresses import open_store, store_name

# Images that are embedded before they are added: what an interruption loses.
ROWS = 1024


def load(address, source, model, *, kind=None, attributes=None, update=False, batch_size=None, workers=1):
    """Adds images, or embeddings, to the store at an address, and builds its index.

    Args:
        address: see `open_store`.
        source: `ImageList`, or the folder of `python -m tfdml.embed`.
        model: folder of the exported model.
        kind: spec of the index; if `None`, a new one is `flat`, and an existing one keeps its kind.
        attributes: table with a column `path`, see `read_attributes`; if `None`, there are no attributes.
        update, batch_size: of images, see `load_images`.
        workers: of embeddings, see `load_shards`.

    Returns:
        The number of images in the store, and path to reason of those that could not be read.
    """
    if not model:
        raise ValueError(f"--model is missing: the exported model whose embeddings are in {store_name(address)}.")
    folder = saved_model_folder(model)
    embedder = ExportedModel(folder)
    with open_store(address, model=model_hash(folder), kind=kind, metric=embedder.metric) as store:
        if isinstance(source, ImageList):
            bad = load_images(store, source, embedder, attributes, update=update, batch_size=batch_size)
        else:
            bad = load_shards(store, source, attributes, workers=workers)
        store.build()
        return store.count(), bad


def unload(address, paths):
    """Deletes images from the store at an address; returns how many were deleted, and how many are left.

    Args:
        address: see `open_store`.
        paths: list of paths, as the store has them or relative to the working folder.
    """
    with open_store(address) as store:
        ids = store.ids_of({name for path in paths for name in (path, os.path.abspath(path))})
        unknown = sorted(path for path in paths if not {path, os.path.abspath(path)} & ids.keys())
        if ids and unknown:
            raise ValueError(f"{unknown[0]} is not in the index {address}, and nothing is deleted.")
        store.delete(ids.values())
        return len(ids), store.count()


def load_images(store, images, model, attributes=None, *, update=False, batch_size=None):
    """Embeds the images that a store does not have yet, and adds them; returns path to reason of unreadable ones.

    Args:
        store: `Store`.
        images: `ImageList` of files.
        model: `ExportedModel`.
        attributes: table with a column `path`, see `read_attributes`; None: none.
        update: whether images that are there are embedded again, and replaced.
        batch_size: images that the model embeds at once; None: see `embed_into`.
    """
    if images.contents is not None:
        raise ValueError("The images of a dataset in memory have no files; index them in a folder.")
    store.check()
    bar, bad = ProgressBar(len(images), "image"), {}
    for start in range(0, len(images), ROWS):
        part = range(start, min(start + ROWS, len(images)))
        there = set() if update else store.ids_of([images.paths[row] for row in part])
        left = [row for row in part if images.paths[row] not in there]
        bar.add(len(part) - len(left))
        if not left:
            continue
        kept, vectors, reasons = embed_rows(images, left, model, batch_size=batch_size, on_batch=bar.add)
        bad |= reasons
        paths, labels = ([column[row] for row in kept] for column in (images.paths, images.labels))
        store.add(None, vectors, _table(paths, labels, attributes))
    return bad


def load_shards(store, source, attributes=None, *, workers=1):
    """Adds the embeddings that `python -m tfdml.embed` has written to a store, under their ids; returns what it notes.

    Args:
        store: `Store` of the model that computed them.
        source: their folder.
        attributes: table with a column `path`, see `read_attributes`; None: none.
        workers: number of shards that are added at once, each over a connection of its own.
    """
    shards = EmbeddingShards(source)
    if shards.model != store.model:
        raise ValueError(f"The embeddings in {source} were not computed by this model; give the one that did.")
    check_files(source, shards)
    if workers > 1:
        store.prepare(shards.dimension, shards.manifest["next_id"], attributes)
    bar = ProgressBar(len(shards), "image")
    with ThreadPoolExecutor(workers) as pool:
        begun = collections.deque()
        for block in shards.blocks():
            begun.append(pool.submit(_load_block, store, block, attributes, bar.add))
            # No more shards are in memory than are added.
            if len(begun) == workers:
                begun.popleft().result()
        while begun:
            begun.popleft().result()
    return dict(shards.bad)


def _load_block(store, block, attributes, on_batch):
    for start in range(0, len(block.paths), ROWS):
        part = slice(start, start + ROWS)
        table = _table(block.paths[part], block.labels[part], attributes)
        store.add(block.ids[part], np.asarray(block.embeddings[part]), table)
        on_batch(len(table))


def _table(paths, labels, attributes):
    """Returns the rows of some paths as `Store.add` takes them."""
    if attributes is None:
        return table_of_rows(paths, labels, None)
    places = {path: place for place, path in enumerate(attributes["path"].to_pylist())}
    rows = attributes.take([places[path] for path in paths])
    return table_of_rows(paths, labels, {name: rows[name] for name in rows.column_names if name != "path"})
