"""`Store`: where an index keeps its rows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from tfdml.registry.arguments import Distance, Embeddings, FilePath
from tfdml.serving.index.array_embedder import VECTORS, checked_vectors
from tfdml.serving.index.attributes import table_of_rows
from tfdml.serving.index.found import Found
from tfdml.serving.index.given_rows import check_once, new_ids
from tfdml.serving.index.image_searcher import ImageSearcher
from tfdml.serving.index.store_searcher import StoreSearcher
from tfdml.serving.index.stores.about import About
from tfdml.serving.index.stores.store_error import OtherIndex


class Store:
    """Adds, deletes, searches and counts rows: an id, a path, a label, attributes and a vector each.

    A row is there or is not there, whenever the process or the machine stops, and a batch that is added again changes
    nothing. A store is made by the first batch. A `StoreError` says that it does not answer; it may be asked again.

    Args:
        address: what follows the name of the store in `name:address`.
        model: hash of the model whose embeddings are kept; None: that of the rows which are there.
        kind: spec of a new index, such as `hnsw`; None: `flat`, and what is there keeps its own.
        metric: of a new index, `cosine` or `euclidean`.

    Attributes:
        embedder: what embeds images for `searcher`: `ExportedModel` or its folder, or `ArrayEmbedder`; None: what the
            store has with it.
    """

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        self.address, self.model, self.kind, self.metric = address, model, kind, metric
        self.embedder: Any = None

    def about(self) -> About | None:
        """Returns what the store says of its rows; None: there are none yet, and nothing is made."""
        raise NotImplementedError

    def count(self, where: str | None = None) -> int:
        """Returns the number of rows, or of those that a filter takes."""
        raise NotImplementedError

    def paths_of(self, ids: Iterable[int]) -> dict[int, str]:
        """Returns id to path of the rows with these ids, of those that are there."""
        raise NotImplementedError

    def ids_of(self, paths: Iterable[str]) -> dict[str, int]:
        """Returns path to id of the rows with these paths, of those that are there."""
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
        there = self.paths_of(ids.tolist())
        paths = [
            f"#{id}" if path is None else path for id, path in zip(ids.tolist(), table["path"].to_pylist(), strict=True)
        ]
        taken = next((id for id, path in zip(ids.tolist(), paths, strict=True) if there.get(id, path) != path), None)
        if taken is not None:
            raise ValueError(f"The index has an image {taken} already; delete it first, or leave ids out.")
        new = [place for place, id in enumerate(ids.tolist()) if id not in there]
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

    def searcher(self) -> ImageSearcher:
        """Returns a searcher of images on these rows."""
        return StoreSearcher(self, self.embedder)

    def compact(self) -> None:
        """Erases what is only marked as deleted, where a store does that."""

    def keep_embedder(self) -> None:
        """Copies the embedder beside the rows, where a store has room for it, so that commands find it."""

    def save(self, target: FilePath) -> None:
        """Copies all, and the embedder, to a new folder, where a store can."""
        raise ValueError(f"{self} is no folder that can be copied.")

    def check(self) -> About | None:
        """Returns what `about` does; a ValueError if the rows are of another model, or the index of another kind."""
        about = self.about()
        if about and self.model and about.model != self.model:
            what = "of vectors without a model" if about.model == VECTORS else "with another model"
            raise OtherIndex(f"The index {self} was made {what}; their embeddings cannot be compared.")
        if about and self.kind is not None and self.kind != about.kind:
            raise OtherIndex(f"The index {self} is of the kind {about.kind}, received {self.kind}.")
        return about

    def existing(self) -> About:
        """Returns what `check` does; a ValueError if there are no rows yet."""
        about = self.check()
        if about is None:
            raise OtherIndex(f"The index has no images; add some first: {self}.")
        return about

    def check_there(self) -> None:
        """Raises a ValueError if there is no index that can be opened."""
        self.existing()

    def close(self) -> None:
        """Ends connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self.address
