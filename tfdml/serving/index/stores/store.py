"""Where an index keeps its rows: the protocol of stores, what they find, and their addresses."""

import dataclasses
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from tfdml import registry
from tfdml.registry.arguments import Distance, Embeddings
from tfdml.serving.embedders import VECTORS, checked_vectors
from tfdml.serving.index.attributes import OWN, named, table_of_rows
from tfdml.serving.index.rows import check_once, new_ids

ENGINE = re.compile(r"([a-z][a-z0-9_]*):(.+)", re.DOTALL)


def is_engine(address):
    """Whether an address names a store that is no folder."""
    match = ENGINE.fullmatch(str(address))
    return bool(match) and match[1] != "folder" and match[1] in registry.names("store") and not Path(address).is_dir()


def open_store(address, **options):
    """Returns the `Store` of an address: a folder, or `name:...` of a registered store; options as of `Store`."""
    name, rest = str(address).split(":", 1) if is_engine(address) else ("folder", str(address))
    return registry.registered("store")[name](rest, **options)


def store_name(address):
    """Returns the name of the store of an address, which is no secret."""
    return str(address).split(":", 1)[0]


def similarity_of(scores, metric):
    """Returns the similarities of inner products, or of Euclidean distances, of which they are minus.

    Rounding can make inner products larger than 1, and distances negative.
    """
    return -np.maximum(scores, 0.0) if metric == "euclidean" else np.minimum(scores, 1.0)


@dataclasses.dataclass(frozen=True)
class Neighbor:
    """An image that was found.

    Args:
        id: its number in the index, which no other image gets.
        path: its file.
        label: text, or None.
        similarity: cosine similarity to the query; minus the Euclidean distance of embeddings that have no unit length.
    """

    id: int
    path: str
    label: str | None
    similarity: float


class Found(list[list[Neighbor]]):
    """For each query a list of `Neighbor`s, the nearest first.

    Args:
        lists: the lists.
        matching: number of images among which was searched, those that a filter takes; or a function that counts them
            when they are asked for.
        exact: whether these are the nearest for sure. An approximate index compares a query with all images that a
            filter takes where these are few.
    """

    def __init__(self, lists: Iterable[list[Neighbor]], matching: int | Callable[[], int], exact: bool):
        super().__init__(lists)
        self._matching, self.exact = matching, exact

    @property
    def matching(self) -> int:
        """Number of images among which was searched."""
        if not isinstance(self._matching, int):
            self._matching = self._matching()
        return self._matching


@dataclasses.dataclass(frozen=True)
class Description:
    """The description of the rows of a store.

    Args:
        model: hash of the model whose embeddings these are.
        dimension: of an embedding.
        metric: `cosine` or `euclidean`.
        kind: spec of the index, such as `flat` or `hnsw(ef_search=200)`.
        columns: name of an attribute to `text`, `number`, `boolean` or `time`.
    """

    model: str
    dimension: int
    metric: str
    kind: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def kinds(self, hidden: Collection[str] = ()) -> dict[str, str]:
        """Returns name to kind of the attributes and of the columns that every index has, but for hidden ones."""
        return {name: kind for name, kind in {**OWN, **self.columns}.items() if name not in hidden}

    def check_vectors(self, vectors: np.ndarray, k: int) -> None:
        """Raises a ValueError unless these are vectors `[Q, D]` to search for, and k is a number of neighbors."""
        if k < 1:
            raise ValueError(f"Expected a number of neighbors of 1 or more, received {k}.")
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            expected = f"[count, {self.dimension}]"
            raise ValueError(f"Expected vectors of the shape {expected}, received {list(vectors.shape)}.")


class StoreError(OSError):
    """A store does not answer, or cannot do what it is asked for now; it may pass.

    What is wrong with the request, or with the table, is a ValueError.
    """


class OtherIndex(ValueError):
    """A store has rows of another model, an index of another kind, or none."""


class Store:
    """Adds, deletes, searches and counts rows: an id, a path, a label, attributes and a vector each.

    A row is there or is not there, whenever the process or the machine stops, and a batch that is added again changes
    nothing. A store is made by the first batch. A `StoreError` says that it does not answer; it may be asked again.

    A new store defines `description`, `count`, `search`, `find`, `_add` and `_delete`, or is an `EngineStore`.

    Args:
        address: what follows the name of the store in `name:address`.
        model: hash of the model whose embeddings are kept; None: that of the rows which are there.
        kind: spec of a new index, such as `hnsw`; None: `flat`, and what is there keeps its own.
        metric: of a new index, `cosine` or `euclidean`.
    """

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        self.address, self.model, self.kind, self.metric = address, model, kind, metric

    def description(self) -> Description | None:
        """Returns what the store says of its rows; None: there are none yet, and nothing is made."""
        raise NotImplementedError

    def count(self, where: str | None = None) -> int:
        """Returns the number of rows, or of those that a filter takes."""
        raise NotImplementedError

    def search(self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()) -> Found:
        """Returns for each vector a list of the k nearest `Neighbor`s, the nearest first; see `Index.search`.

        Args:
            vectors: `[Q, D]`, finite.
            k: number of neighbors; all if there are fewer.
            where: filter; None: all rows.
            hidden: names of columns that `where` must not ask for.
        """
        raise NotImplementedError

    def find(self, ids: Iterable[int] = (), paths: Iterable[str] = ()) -> dict[int, str]:
        """Returns id to path of the rows that have one of these ids or paths, of those that are there."""
        raise NotImplementedError

    def _add(self, ids, vectors, table, bad):
        """Adds rows whose ids are new, or None, and returns their ids."""
        raise NotImplementedError

    def _delete(self, ids, compact):
        """Deletes rows with these ids, a set; a ValueError if one is not there."""
        raise NotImplementedError

    def add(
        self,
        ids: Sequence[int] | np.ndarray | None,
        vectors: Embeddings,
        table: Any = None,
        bad: Mapping[str, str] | None = None,
    ) -> np.ndarray:
        """Adds rows, each in the place of an earlier one of the same path; returns their ids `[N]`.

        Rows whose id and path are there already are left as they are, so that a load that was interrupted may begin
        again.

        Args:
            ids: `[N]` integers; None: the next ones.
            vectors: `[N, D]`, finite.
            table: `pyarrow.Table` with `path`, `label` and attributes, see `table_of_rows`; None: names such as `#7`.
            bad: path to reason of images that could not be read, where the store keeps a list of them.
        """
        vectors = checked_vectors(vectors)
        table = table_of_rows([None] * len(vectors), [None] * len(vectors), None) if table is None else table
        if len(table) != len(vectors):
            raise ValueError(
                f"Expected a row of the table for each of {len(vectors):,} vectors, received {len(table):,}."
            )
        check_once([path for path in table["path"].to_pylist() if path is not None], "path")
        self.check()
        if ids is None:
            return self._add(None, vectors, table, bad)
        ids = new_ids(ids)
        if len(ids) != len(vectors):
            raise ValueError(f"Expected an id for each of {len(vectors):,} vectors, received {len(ids):,}.")
        there = self.find(ids=ids.tolist())
        pairs = list(zip(ids.tolist(), named(table, ids)["path"].to_pylist(), strict=True))
        self.check_free([id for id, path in pairs if there.get(id, path) != path])
        new = [place for place, (id, _) in enumerate(pairs) if id not in there]
        if new or bad:
            self._add(ids[new], vectors[new], table.take(new), bad)
        return ids

    def delete(self, ids: Iterable[int], compact: bool = False) -> None:
        """Deletes rows; a ValueError, and nothing is deleted, if there is none with one of these ids.

        Args:
            ids: integers.
            compact: whether a store that only marks them erases them at once.
        """
        ids = set(ids)
        if ids:
            self.check()
            self._delete(ids, compact)

    def build(self) -> None:
        """Makes searches fast after many rows were added, where a store does not do so by itself."""

    def check(self) -> Description | None:
        """Returns the description; a ValueError if the rows are of another model, or the index of another kind."""
        description = self.description()
        if description and self.model and description.model != self.model:
            what = "of vectors without a model" if description.model == VECTORS else "with another model"
            raise OtherIndex(f"The index {self} was made {what}; their embeddings cannot be compared.")
        if description and self.kind is not None and self.kind != description.kind:
            raise OtherIndex(f"The index {self} is of the kind {description.kind}, received {self.kind}.")
        return description

    def existing(self) -> Description:
        """Returns what `check` does; a ValueError if there are no rows yet."""
        description = self.check()
        if description is None:
            raise OtherIndex(f"The index has no images; add some first: {self}.")
        return description

    def columns(self) -> Mapping[str, str]:
        """Returns name of a column that filters may ask for to `text`, `number`, `boolean` or `time`."""
        return self.existing().kinds()

    def check_free(self, ids: Iterable[int]) -> None:
        """Raises a ValueError that names the first of these ids, which rows have already; none: all is well."""
        if taken := sorted(ids):
            raise ValueError(f"The index has an image {taken[0]} already; delete it first, or leave ids out.")

    def state(self) -> Any:
        """Returns a value that is another one when the index has changed; an OSError if the index is out of reach."""
        return self.existing().model

    def reopened(self) -> Self:
        """Returns a store that reads what the index is now; itself if that is what this one reads."""
        self.existing()
        return self

    def file_of(self, id: int) -> str | None:
        """Returns the path of the image with an id; None if the index has no such image, or only a name of it."""
        path = self.find(ids=[id]).get(id)
        return path if path is not None and os.sep in path else None

    def close(self) -> None:
        """Ends connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self.address
