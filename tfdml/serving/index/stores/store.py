"""Stores of an index's rows: their protocol, the results of searches, and addresses."""

import dataclasses
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.boxes import parted
from tfdml import registry
from tfdml.registry.arguments import Distance, Embeddings
from tfdml.serving.embedders import VECTORS, checked_vectors
from tfdml.serving.index.attributes import OWN, named, table_of_rows
from tfdml.serving.index.rows import check_once, new_ids

ENGINE = re.compile(r"([a-z][a-z0-9_]*):(.+)", re.DOTALL)


def is_engine(address):
    """Returns whether an address names a vector database instead of a folder."""
    match = ENGINE.fullmatch(str(address))
    return bool(match) and match[1] != "folder" and match[1] in registry.names("store") and not Path(address).is_dir()


def open_store(address, **options):
    """Returns the `Store` of an address: a folder, or `name:...` for a registered store, with options of `Store`."""
    name, rest = str(address).split(":", 1) if is_engine(address) else ("folder", str(address))
    return registry.registered("store")[name](rest, **options)


def store_name(address):
    """Returns the name of an address's store, which is not secret, unlike the rest of the address."""
    return str(address).split(":", 1)[0]


def similarity_of(scores, metric):
    """Converts inner products or Euclidean distances to similarities. Distances become negative.

    Rounding can make inner products larger than 1, and distances smaller than 0, so both are clipped.
    """
    return -np.maximum(scores, 0.0) if metric == "euclidean" else np.minimum(scores, 1.0)


@dataclasses.dataclass(frozen=True)
class Neighbor:
    """An image that a search has found.

    Args:
        id: Integer. Id of the image in the index. No other image ever gets the same id.
        path: String. Path of the image. For a box in a photo, `#xywh=` and the box follow; see `file` and `box`.
        label: String, or `None` if the image has no label.
        similarity: Float. Cosine similarity to the query, or minus the Euclidean distance with the metric
            `"euclidean"`.

    Example:

    ```python
    index = tfdml.Index()
    index.add(vectors=[[1.0, 0.0]], labels=["cup"], paths=["cup.jpg"])
    neighbor = index.search(vectors=[[0.6, 0.8]], k=1)[0][0]
    neighbor.id, neighbor.label, round(neighbor.similarity, 3)  # (0, "cup", 0.6)
    ```
    """

    id: int
    path: str
    label: str | None
    similarity: float

    @property
    def file(self) -> str:
        """Path of the file of the image, without a box."""
        return parted(self.path)[0]

    @property
    def box(self) -> tuple[float, ...] | None:
        """Left, top, right and bottom of a box in a photo, in pixels or as fractions, or `None` for a whole image."""
        return parted(self.path)[1]


class Found(list[list[Neighbor]]):
    """Results of a search: a list with one list of `Neighbor` objects per query, the nearest first.

    Args:
        lists: Lists of neighbors, one per query.
        matching: Number of images that were searched, which are the images that match the filter. A function is called
            when the number is first needed.
        exact: Boolean. Whether the neighbors are certainly the nearest. An approximate index compares a query with all
            matching images if there are few of them.

    Example:

    ```python
    index = tfdml.Index()
    index.add(vectors=[[1.0, 0.0], [0.0, 1.0]], labels=["cup", "bowl"])
    found = index.search(vectors=[[0.6, 0.8]], where="label == 'cup'")
    found.matching, found.exact, found[0][0].label  # (1, True, "cup")
    ```
    """

    def __init__(self, lists: Iterable[list[Neighbor]], matching: int | Callable[[], int], exact: bool):
        super().__init__(lists)
        self._matching, self.exact = matching, exact

    @property
    def matching(self) -> int:
        """Number of images that were searched."""
        if not isinstance(self._matching, int):
            self._matching = self._matching()
        return self._matching


@dataclasses.dataclass(frozen=True)
class Description:
    """Description of the rows in a store.

    Args:
        model: Hash of the model that computed the embeddings.
        dimension: Size of an embedding.
        metric: `"cosine"` or `"euclidean"`.
        kind: Spec of the index, such as `"flat"` or `"hnsw(ef_search=200)"`.
        columns: Dictionary from the names of attributes to `text`, `number`, `boolean` or `time`.
    """

    model: str
    dimension: int
    metric: str
    kind: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def kinds(self, hidden: Collection[str] = ()) -> dict[str, str]:
        """Returns the kinds of the attributes and of the standard columns by name, except for hidden columns."""
        return {name: kind for name, kind in {**OWN, **self.columns}.items() if name not in hidden}

    def check_vectors(self, vectors: np.ndarray, k: int) -> None:
        """Raises a ValueError unless `vectors` are queries `[Q, D]` and `k` is at least 1."""
        if k < 1:
            raise ValueError(f"k must be at least 1. Received: k={k}.")
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            expected = f"[count, {self.dimension}]"
            raise ValueError(f"Vectors must have the shape {expected}. Received: shape {list(vectors.shape)}.")


class StoreError(OSError):
    """Error of a store that does not answer, or cannot do something at the moment. Trying again may help.

    Errors in a request or in the table are a ValueError instead.
    """


class OtherIndex(ValueError):
    """Error of a store with rows of another model, an index of another type, or no index."""


class Store:
    """Base class of stores, which add, delete, search and count rows.

    A row has an id, a path, a label, attributes and a vector. Rows are added completely or not at all, even if the
    process or the machine stops, and adding a batch again changes nothing. The first batch creates the store. A
    `StoreError` means that the store does not answer; try again later.

    A new store defines `description`, `count`, `search`, `find`, `_add` and `_delete`, or is a subclass of
    `EngineStore`.

    Args:
        address: The part of the address `name:address` after the name of the store.
        model: Hash of the model that computes the embeddings. If `None`, the model of the existing rows. Defaults to
            `None`.
        kind: Spec of the index type, such as `"hnsw"`. If `None`, a new index is `"flat"`, and an existing one keeps
            its type. Defaults to `None`.
        metric: Metric of a new index, `"cosine"` or `"euclidean"`. Defaults to `"cosine"`.
    """

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        self.address, self.model, self.kind, self.metric = address, model, kind, metric

    def description(self) -> Description | None:
        """Returns the description of the rows, or `None` if there are none. It creates nothing."""
        raise NotImplementedError

    def count(self, where: str | None = None) -> int:
        """Returns the number of rows, or of rows that match a filter."""
        raise NotImplementedError

    def search(self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()) -> Found:
        """Returns the `k` nearest neighbors of each vector; see `Index.search`.

        Args:
            vectors: `[Q, D]` array of finite numbers.
            k: Integer. Number of neighbors. If there are fewer rows, all of them are returned. Defaults to `10`.
            where: Filter. If `None`, all rows can be found. Defaults to `None`.
            hidden: Names of columns that `where` must not use. Defaults to `()`.
        """
        raise NotImplementedError

    def find(self, ids: Iterable[int] = (), paths: Iterable[str] = ()) -> dict[int, str]:
        """Returns a dictionary from ids to paths of existing rows with one of these ids or paths."""
        raise NotImplementedError

    def _add(self, ids, vectors, table, bad):
        """Adds rows with new ids, or with the next ids if `ids` is None. Returns their ids."""
        raise NotImplementedError

    def _delete(self, ids, compact):
        """Deletes rows with these ids, a set. Raises a ValueError if one does not exist."""
        raise NotImplementedError

    def add(
        self,
        ids: Sequence[int] | np.ndarray | None,
        vectors: Embeddings,
        table: Any = None,
        bad: Mapping[str, str] | None = None,
    ) -> np.ndarray:
        """Adds rows, which replace existing rows with the same paths.

        Rows that already exist with the same id and path are not changed, so an interrupted load can start again.

        Args:
            ids: `[N]` integers. If `None`, the next ids are used.
            vectors: `[N, D]` array of finite numbers.
            table: `pyarrow.Table` with `path`, `label` and attributes, see `table_of_rows`. If `None`, rows get names
                such as `#7`. Defaults to `None`.
            bad: Dictionary from the paths of unreadable images to reasons, for stores that keep a list of them.
                Defaults to `None`.

        Returns:
            Ids of the rows, `[N]`.
        """
        vectors = checked_vectors(vectors)
        table = table_of_rows([None] * len(vectors), [None] * len(vectors), None) if table is None else table
        if len(table) != len(vectors):
            raise ValueError(
                f"table must have one row for each of {len(vectors):,} vectors. Received: {len(table):,} rows."
            )
        check_once([path for path in table["path"].to_pylist() if path is not None], "path")
        self.check()
        if ids is None:
            return self._add(None, vectors, table, bad)
        ids = new_ids(ids)
        if len(ids) != len(vectors):
            raise ValueError(f"ids must have one id for each of {len(vectors):,} vectors. Received: {len(ids):,} ids.")
        there = self.find(ids=ids.tolist())
        pairs = list(zip(ids.tolist(), named(table, ids)["path"].to_pylist(), strict=True))
        self.check_free([id for id, path in pairs if there.get(id, path) != path])
        new = [place for place, (id, _) in enumerate(pairs) if id not in there]
        if new or bad:
            self._add(ids[new], vectors[new], table.take(new), bad)
        return ids

    def delete(self, ids: Iterable[int], compact: bool = False) -> None:
        """Deletes rows. If an id does not exist, raises a ValueError and deletes nothing.

        Args:
            ids: Integers.
            compact: Boolean. Whether a store that only marks rows as deleted erases them at once. Defaults to `False`.
        """
        ids = set(ids)
        if ids:
            self.check()
            self._delete(ids, compact)

    def build(self) -> None:
        """Builds the index after many rows were added, if the store does not do so by itself, to make searches fast."""

    def check(self) -> Description | None:
        """Returns the description. Raises a ValueError if the rows have another model, or the index another type."""
        description = self.description()
        if description and self.model and description.model != self.model:
            what = "from vectors without a model" if description.model == VECTORS else "with another model"
            raise OtherIndex(f"The index {self} was made {what}, so the embeddings cannot be compared.")
        if description and self.kind is not None and self.kind != description.kind:
            raise OtherIndex(f"The index {self} has kind={description.kind}. Received: kind={self.kind}.")
        return description

    def existing(self) -> Description:
        """Returns the result of `check`. Raises a ValueError if the store is empty."""
        description = self.check()
        if description is None:
            raise OtherIndex(f"The index {self} has no images. Add some first.")
        return description

    def columns(self) -> Mapping[str, str]:
        """Returns the kinds of the columns that filters can use, by name: `text`, `number`, `boolean` or `time`."""
        return self.existing().kinds()

    def check_free(self, ids: Iterable[int]) -> None:
        """Raises a ValueError that names the first of these ids, which rows already have. No ids are fine."""
        if taken := sorted(ids):
            raise ValueError(f"The index already has an image with the id {taken[0]}. Delete it first, or omit ids.")

    def state(self) -> Any:
        """Returns a value that changes when the index changes. Raises an OSError if the index cannot be reached."""
        return self.existing().model

    def reopened(self) -> Self:
        """Returns a store that reads the current state of the index, which may be this store itself."""
        self.existing()
        return self

    def file_of(self, id: int) -> str | None:
        """Returns the path of the image with an id, or `None` if the index has no such image or no path for it."""
        path = self.find(ids=[id]).get(id)
        return parted(path)[0] if path is not None and os.sep in path else None

    def close(self) -> None:
        """Ends connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self.address
