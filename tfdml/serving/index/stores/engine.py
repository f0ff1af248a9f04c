"""What stores on database engines have in common, loads into them, and moving them to another model."""

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

# Where a filter takes no more rows than these, all of them are compared: an approximate index would look at many others
# to find a few.
FEW = 20_000


class EngineStore(Store):
    """A store whose rows lie in an engine. Vectors have unit length there, unless the metric is `euclidean`.

    Args:
        address, model, kind, metric: see `Store`.
    """

    # Kinds of indexes that the engine has.
    kinds: tuple[str, ...] = ("flat",)

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        super().__init__(address, model, kind, metric)
        if kind is not None:
            self.index_of(kind)

    def _create(self, description):
        """Makes the place of the rows, if there is none."""
        raise NotImplementedError

    def _reserve(self, count, after, columns):
        """Returns the first of so many ids that no row gets any more, all above `after`, and notes new columns."""
        raise NotImplementedError

    def _write(self, ids, vectors, table):
        """Writes rows with new ids, in the place of those of the same paths."""
        raise NotImplementedError

    def _count(self, condition):
        """Returns how many rows a condition takes, or how many there are."""
        raise NotImplementedError

    def _nearest(self, description, vectors, k, condition, exact):
        """Returns for each vector a list of `(id, path, label, score)`, the nearest first.

        A score is an inner product, or a distance.
        """
        raise NotImplementedError

    def _take_vectors(self, ids, vectors, of):
        """Writes rows of another store, all but their vectors, which are new."""
        raise NotImplementedError

    def successor(self, description: Description) -> Self:
        """Returns the store beside this one that is to take its place; what an interrupted upgrade left, or empty."""
        raise NotImplementedError

    def pages(self, count: int) -> Iterator[list[tuple[int, str]]]:
        """Yields all rows as lists of at most so many pairs of an id and a path."""
        raise NotImplementedError

    def take_place(self, of: Self) -> bool:
        """Takes the place of another store, whose `successor` this is; False, and nothing changes, if a row is missing.

        Rows that the other has not are deleted.
        """
        raise NotImplementedError

    def take_vectors(self, ids: Sequence[int], vectors: Embeddings, of: Self) -> None:
        """Adds rows of another store, whose `successor` this is, with vectors `[N, D]` of another model."""
        self._take_vectors(ids, compared_vectors(checked_vectors(vectors), self.metric), of)

    def prepare(self, dimension: int, next_id: int, table: Any = None) -> None:
        """Makes the index if there is none, and notes ids below `next_id` and the columns of a table.

        After it several threads may add such rows; a ValueError where only one may.
        """
        self.check()
        description = self._made(dimension)
        self._reserve(0, next_id, {} if table is None else _new_columns(description, table))

    def index_of(self, spec: str) -> Any:
        """Returns the part of a spec of an index; a ValueError if the engine has no such index."""
        index = index_of_kind(spec)
        if index.name not in self.kinds:
            raise ValueError(f"kind={spec}: {self} has no such index; expected {', '.join(self.kinds)}.")
        return index

    def _made(self, dimension):
        """Returns what the index says of its rows; makes it if there is none."""
        description = self.description()
        if description is None:
            description = Description(self.model, dimension, self.metric, self.kind or "flat")
            if not self.model:
                raise ValueError(f"There is no index {self}; give the model whose embeddings it is to have.")
            self._create(description)
            # Another process may have been first.
            description = self.existing()
        if dimension != description.dimension:
            expected = f"The index {self} has vectors of {description.dimension} dimensions"
            raise ValueError(f"{expected}, received vectors of {dimension}.")
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
        # Some engines return them nearly in order.
        return Found([sorted(each, key=lambda one: -one.similarity) for each in lists], matching, exact)


def _new_columns(description, table):
    """Returns name to kind of the attributes that an index has not had yet; a ValueError if one is of another kind."""
    names = [name for name in table.column_names if name not in OWN and table[name].null_count < len(table)]
    kinds = {name: kind_of(name, table[name].type) for name in names}
    for name, kind in kinds.items():
        if (known := description.columns.get(name, kind)) != kind:
            raise ValueError(f"The column {name} of the index has a {known} in each row, received a {kind}.")
    return {name: kind for name, kind in kinds.items() if name not in description.columns}


# Images that are embedded before they are added: what an interruption loses.
ROWS = 1024


def load(address, source, model, *, kind=None, attributes=None, update=False, batch_size=None, workers=1):
    """Adds images, an `ImageList`, or embeddings, a folder of `tfdml.embed`, to a store, and builds its index.

    `attributes` is a table of `read_attributes`, or `None`. `update` and `batch_size` are for images, see
    `load_images`; `workers` are for embeddings, see `load_shards`.

    Returns the number of images in the store, and path to reason of those that could not be read.
    """
    if not model:
        raise ValueError(f"--model is missing: the exported model whose embeddings are in {store_name(address)}.")
    embedder = ExportedModel(model)
    with open_store(address, model=embedder.digest, kind=kind, metric=embedder.metric) as store:
        if isinstance(source, ImageList):
            bad = load_images(store, source, embedder, attributes, update=update, batch_size=batch_size)
        else:
            bad = load_shards(store, source, attributes, workers=workers)
        store.build()
        return store.count(), bad


def unload(address, paths):
    """Deletes images from the store at an address; returns how many were deleted, and how many are left.

    Paths are as the store has them, or relative to the working folder.
    """
    with open_store(address) as store:
        there = store.find(paths={name for path in paths for name in (path, os.path.abspath(path))})
        names = set(there.values())
        unknown = sorted(path for path in paths if not {path, os.path.abspath(path)} & names)
        if there and unknown:
            raise ValueError(f"{unknown[0]} is not in the index {address}, and nothing is deleted.")
        store.delete(there)
        return len(there), store.count()


def load_images(store, images, model, attributes=None, *, update=False, batch_size=None):
    """Embeds the images that a store does not have yet, and adds them; returns path to reason of unreadable ones.

    With `update` images that are there are embedded again, and replaced.
    """
    if images.contents is not None:
        raise ValueError("The images of a dataset in memory have no files; index them in a folder.")
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
    """Adds the embeddings that `python -m tfdml.embed` has written to a store, under their ids; returns what it notes.

    So many workers each add a shard at once, over connections of their own.
    """
    shards = EmbeddingShards(source)
    if shards.model != store.model:
        raise ValueError(f"The embeddings in {source} were not computed by this model; give the one that did.")
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
            # No more shards are in memory than are added.
            if len(begun) == workers:
                begun.popleft().result()
        while begun:
            begun.popleft().result()
    return dict(shards.bad)


def _table(paths, labels, attributes):
    """Returns the rows of some paths as `Store.add` takes them."""
    if attributes is None:
        return table_of_rows(paths, labels, None)
    places = {path: place for place, path in enumerate(attributes["path"].to_pylist())}
    rows = attributes.take([places[path] for path in paths])
    return table_of_rows(paths, labels, {name: rows[name] for name in rows.column_names if name != "path"})


def upgrade_engine(address, model, *, batch_size=None):
    """Embeds all images of an index by another model, and has the index use it then; returns how many these are.

    It returns 0 if the index has this model already, as after a command that was killed at its end.

    Until the end searches find what they found before. What is done is not done again if it is interrupted and
    repeated. Ids, labels and attributes stay, and images that others add or delete meanwhile are added or deleted.
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
            # Again, for what is new since.
            embedded = _embed(store, new, embedder, batch_size)
            new.build()
            finished = not embedded and new.take_place(store)
        return store.count()


def _embed(store, new, embedder, batch_size):
    """Embeds the images that are not there yet; returns how many these are."""
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
    """Returns for each row of a table a dictionary of its attributes, without those that are missing."""
    return [
        {name: _in_json(name, value) for name, value in row.items() if name not in OWN and value is not None}
        for row in table.to_pylist()
    ]


def _in_json(name, value):
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"The column {name} of the attributes has an infinite number; expected finite ones.")
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value
