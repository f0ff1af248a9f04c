"""Base class of stores in vector databases, loads into them, and their move to another model."""

import collections
import dataclasses
import datetime
import decimal
import math
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np

from tfdml.console.progress_bar import ProgressBar
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.nearest import compared_vectors
from tfdml.registry.arguments import Distance, Embeddings
from tfdml.serving.embedders import checked_vectors
from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import ExportedModel, model_hash, saved_model_folder
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.attributes import OWN, kind_of, named, table_of_rows
from tfdml.serving.index.build import check_files, check_readable
from tfdml.serving.index.filters import condition_of
from tfdml.serving.index.folder import index_of_kind
from tfdml.serving.index.stores.store import Description, Found, Neighbor, Store, open_store, similarity_of, store_name

# If a filter matches at most this many rows, all of them are compared, because an approximate index would visit many
# other rows to find a few.
FEW = 20_000


class EngineStore(Store):
    """Base class of stores in a vector database. Vectors are L2-normalized there, unless the metric is `euclidean`.

    Args:
        address, model, kind, metric: See `Store`.
    """

    # Index types of the vector database.
    kinds: tuple[str, ...] = ("flat",)

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        super().__init__(address, model, kind, metric)
        if kind is not None:
            self.index_of(kind)

    def _create(self, description):
        """Creates the place for the rows if it does not exist."""
        raise NotImplementedError

    def _reserve(self, count, after, columns):
        """Reserves `count` ids, all above `after`, and records new columns. Returns the first id."""
        raise NotImplementedError

    def _write(self, ids, vectors, table):
        """Writes rows with new ids, which replace rows with the same paths."""
        raise NotImplementedError

    def _count(self, condition):
        """Returns the number of rows that match a condition, or of all rows."""
        raise NotImplementedError

    def _nearest(self, description, vectors, k, condition, exact):
        """Returns for each vector a list of `(id, path, label, score)`, the nearest first.

        A score is an inner product or a distance.
        """
        raise NotImplementedError

    def _take_vectors(self, ids, vectors, of):
        """Copies rows of another store, with new vectors."""
        raise NotImplementedError

    def successor(self, description: Description) -> Self:
        """Returns the store that will replace this one: an empty one, or what an interrupted upgrade has left."""
        raise NotImplementedError

    def pages(self, count: int) -> Iterator[list[tuple[int, str]]]:
        """Yields all rows in lists of at most `count` pairs of an id and a path."""
        raise NotImplementedError

    def take_place(self, of: Self) -> bool:
        """Replaces the store of which this is the `successor`. If a row is missing, returns False and changes nothing.

        Rows that the other store does not have are deleted.
        """
        raise NotImplementedError

    def take_vectors(self, ids: Sequence[int], vectors: Embeddings, of: Self) -> None:
        """Adds rows of the store of which this is the `successor`, with vectors `[N, D]` of another model."""
        self._take_vectors(ids, compared_vectors(checked_vectors(vectors), self.metric), of)

    def prepare(self, dimension: int, next_id: int, table: Any = None) -> None:
        """Creates the index if necessary, and records ids below `next_id` and the columns of a table.

        Afterwards, several threads may add such rows. A store that allows only one raises a ValueError.
        """
        self.check()
        description = self._made(dimension)
        self._reserve(0, next_id, {} if table is None else _new_columns(description, table))

    def index_of(self, spec: str) -> Any:
        """Returns the index component of a spec. Raises a ValueError if the vector database has no such index type."""
        index = index_of_kind(spec)
        if index.name not in self.kinds:
            raise ValueError(f"kind={spec} is not supported by {self}. Expected {', '.join(self.kinds)}.")
        return index

    def _made(self, dimension):
        """Returns the description of the index, which is created if it does not exist."""
        description = self.description()
        if description is None:
            description = Description(self.model, dimension, self.metric, self.kind or "flat")
            if not self.model:
                raise ValueError(f"There is no index {self}. Pass the model to create it with.")
            self._create(description)
            # Another process may have created it first.
            description = self.existing()
        if dimension != description.dimension:
            expected = f"The index {self} has vectors with {description.dimension} dimensions"
            raise ValueError(f"{expected}. Received: vectors with {dimension} dimensions.")
        return description

    def _add(self, ids, vectors, table, bad):
        description = self._made(vectors.shape[1])
        columns = _new_columns(description, table)
        if not len(vectors):
            return np.zeros(0, np.int64)
        if ids is None:
            ids = self._reserve(len(vectors), 0, columns) + np.arange(len(vectors))
        else:
            self._reserve(0, int(ids.max()) + 1, columns)
        self._write(ids, compared_vectors(vectors, description.metric), named(table, ids))
        return ids

    def count(self, where: str | None = None) -> int:
        description = self.check()
        if description is None:
            return 0
        return self._count(None if where is None else condition_of(where, description.kinds()))

    def search(self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()) -> Found:
        description = self.existing()
        vectors = compared_vectors(vectors, description.metric)
        description.check_vectors(vectors, k)
        condition = None if where is None else condition_of(where, description.kinds(hidden))
        matching = self.count if where is None else self._count(condition)
        exact = description.kind.startswith("flat") or isinstance(matching, int) and matching <= FEW
        is_empty = not matching or not len(vectors)
        rows = [[] for _ in vectors] if is_empty else self._nearest(description, vectors, k, condition, exact)
        lists = [
            [Neighbor(*image, float(similarity_of(score, description.metric))) for *image, score in neighbors]
            for neighbors in rows
        ]
        # Some databases return results that are only nearly sorted.
        return Found([sorted(each, key=lambda one: -one.similarity) for each in lists], matching, exact)


def _new_columns(description, table):
    """Returns the kinds of new attributes by name. Raises a ValueError if a known attribute has another kind."""
    names = [name for name in table.column_names if name not in OWN and table[name].null_count < len(table)]
    kinds = {name: kind_of(name, table[name].type) for name in names}
    for name, kind in kinds.items():
        if (known := description.columns.get(name, kind)) != kind:
            raise ValueError(f"The column {name} of the index is a {known} column. Received: a {kind} column.")
    return {name: kind for name, kind in kinds.items() if name not in description.columns}


# Images that are embedded before they are added. An interruption loses at most this many embeddings.
ROWS = 1024


def load(address, source, model, *, kind=None, attributes=None, update=False, batch_size=None, workers=1):
    """Adds images, an `ImageList`, or embeddings, a folder of `tfdml.embed`, to a store, and builds its index.

    `attributes` is a table from `read_attributes`, or `None`. `update` and `batch_size` apply to images, see
    `load_images`; `workers` applies to embeddings, see `load_shards`.

    Returns the number of images in the store, and a dictionary from the paths of unreadable images to the reasons.
    """
    if not model:
        raise ValueError(
            f"--model is missing. Pass the exported model with which the embeddings in {store_name(address)} are "
            "computed."
        )
    embedder = ExportedModel(model)
    with open_store(address, model=embedder.digest, kind=kind, metric=embedder.metric) as store:
        if isinstance(source, ImageList):
            bad = load_images(store, source, embedder, attributes, update=update, batch_size=batch_size)
        else:
            bad = load_shards(store, source, attributes, workers=workers)
        store.build()
        return store.count(), bad


def unload(address, paths):
    """Deletes images from the store at an address. Returns the number of deleted and of remaining images.

    Paths are written as in the store, or relative to the working directory.
    """
    with open_store(address) as store:
        there = store.find(paths={name for path in paths for name in (path, os.path.abspath(path))})
        names = set(there.values())
        unknown = sorted(path for path in paths if not {path, os.path.abspath(path)} & names)
        if there and unknown:
            raise ValueError(f"{unknown[0]} is not in the index {address}, so nothing was deleted.")
        store.delete(there)
        return len(there), store.count()


def load_images(store, images, model, attributes=None, *, update=False, batch_size=None):
    """Embeds the images that a store does not have yet and adds them. Returns unreadable paths and the reasons.

    With `update`, images that are already in the store are embedded again and replaced.
    """
    if images.contents is not None:
        raise ValueError("Images of a dataset in memory have no files, so they can only be indexed in a folder.")
    store.check()
    bar, bad = ProgressBar(len(images), "image"), {}
    for start in range(0, len(images), ROWS):
        part = range(start, min(start + ROWS, len(images)))
        there = set() if update else set(store.find(paths=[images.paths[row] for row in part]).values())
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
    """Adds embeddings of `python -m tfdml.embed` to a store with their ids. Returns unreadable paths and the reasons.

    With several workers, each adds one shard at a time over its own connection.
    """
    shards = EmbeddingShards(source)
    if shards.model != store.model:
        raise ValueError(
            f"The embeddings in {source} were not computed by this model. Pass the model that computed them."
        )
    check_files(source, shards)
    if workers > 1:
        store.prepare(shards.dimension, shards.manifest["next_id"], attributes)
    bar = ProgressBar(len(shards), "image")

    def add(block):
        for start in range(0, len(block.paths), ROWS):
            part = slice(start, start + ROWS)
            table = _table(block.paths[part], block.labels[part], attributes)
            store.add(block.ids[part], np.asarray(block.embeddings[part]), table)
            bar.add(len(table))

    with ThreadPoolExecutor(workers) as pool:
        begun = collections.deque()
        for block in shards.blocks():
            begun.append(pool.submit(add, block))
            # Only keep as many shards in memory as there are workers.
            if len(begun) == workers:
                begun.popleft().result()
        while begun:
            begun.popleft().result()
    return dict(shards.bad)


def _table(paths, labels, attributes):
    """Returns the rows for some paths in the form that `Store.add` expects."""
    if attributes is None:
        return table_of_rows(paths, labels, None)
    places = {path: place for place, path in enumerate(attributes["path"].to_pylist())}
    rows = attributes.take([places[path] for path in paths])
    return table_of_rows(paths, labels, {name: rows[name] for name in rows.column_names if name != "path"})


def upgrade_engine(address, model, *, batch_size=None):
    """Embeds all images of an index with another model, which the index then uses. Returns the number of images.

    It returns 0 if the index already has this model, for example when a command that was killed at its end is repeated.

    Until the upgrade is complete, searches use the old model. An interrupted upgrade resumes where it stopped. Ids,
    labels and attributes stay the same. Images that other processes add or delete meanwhile are added or deleted as
    well.
    """
    folder = saved_model_folder(model)
    with open_store(address) as store:
        description, digest = store.existing(), model_hash(folder)
        if description.model == digest:
            return 0
        embedder = ExportedModel(folder)
        changed = {"model": digest, "dimension": embedder.dimension, "metric": embedder.metric}
        new = store.successor(dataclasses.replace(description, **changed))
        finished = False
        while not finished:
            # Repeat for images that were added meanwhile.
            embedded = _embed(store, new, embedder, batch_size)
            new.build()
            finished = not embedded and new.take_place(store)
        return store.count()


def _embed(store, new, embedder, batch_size):
    """Embeds the images that the new store does not have yet. Returns their number."""
    bar, missing, done = ProgressBar(store.count(), "image"), {}, 0
    for page in store.pages(ROWS):
        there = new.find(ids=[id for id, _ in page])
        left = [(id, path) for id, path in page if there.get(id) != path]
        bar.add(len(page) - len(left))
        if not left:
            continue
        images = ImageList([path for _, path in left], [None] * len(left))
        kept, vectors, bad = embed_rows(images, range(len(left)), embedder, batch_size=batch_size, on_batch=bar.add)
        if kept:
            new.take_vectors([left[row][0] for row in kept], vectors, store)
        missing |= bad
        done += len(kept)
    check_readable(missing, store.count())
    return done


def objects_of(table):
    """Returns one dictionary per row of a table with its attributes, except for missing values."""
    return [
        {name: _in_json(name, value) for name, value in row.items() if name not in OWN and value is not None}
        for row in table.to_pylist()
    ]


def _in_json(name, value):
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"The attribute column {name} contains an infinite number. Expected finite numbers.")
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value
