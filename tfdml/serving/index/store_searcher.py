"""`StoreSearcher`: finds the images of an index in an engine that are similar to others."""

import contextlib
import os
from collections.abc import Collection
from typing import Any, NoReturn, Self

from tfdml.registry.arguments import Embeddings
from tfdml.serving.exported.saved_model_files import saved_model_folder
from tfdml.serving.index.filters import condition_of
from tfdml.serving.index.found import Found
from tfdml.serving.index.image_searcher import ImageSearcher
from tfdml.serving.index.neighbor import Neighbor
from tfdml.serving.index.stores.store_error import OtherIndex, StoreError


class StoreSearcher(ImageSearcher):
    """Searches an index in a store. It has no rows itself: each search is of what the store has then.

    Args:
        store: `Store`, whose rows are of the model.
        model: an exported model or its folder, or an `ArrayEmbedder`; None: searches are by vectors alone.
    """

    def __init__(self, store: Any, model: Any = None):
        self.store = store
        about = store.existing()
        self._manifest = {
            "model": about.model,
            "dimension": about.dimension,
            "metric": about.metric,
            "kind": about.kind,
        }
        embedder, path = None if model is None or isinstance(model, str | os.PathLike) else model, None
        if isinstance(model, str | os.PathLike):
            path = saved_model_folder(model)
        super().__init__(str(store), embedder, path)

    @property
    def manifest(self) -> dict[str, Any]:
        return self._manifest

    @property
    def embeddings(self) -> None:
        return None

    def __len__(self) -> int:
        return self.store.count()

    def has_labels(self) -> bool:
        return self.store.count("label is not null") > 0

    def selection(self, where: str | None, hidden: Collection[str] = ()) -> Any:
        if where is not None:
            with _still():
                about = self.store.existing()
            condition_of(where, about.kinds(hidden))
        return where, hidden

    def found(self, vectors: Embeddings, k: int, selection: Any) -> Found:
        with _still():
            return self.store.search(vectors, k, *selection)

    def neighbors_of(self, embeddings: Embeddings, k: int) -> list[list[Neighbor]]:
        return self.found(embeddings, k, (None,))

    def file_of(self, id: int) -> str | None:
        path = self.store.paths_of([id]).get(id)
        return path if path is not None and os.sep in path else None

    def state(self) -> Any:
        return self.store.existing().model

    def reopened(self) -> Self:
        self.store.existing()
        return self

    @property
    def rows(self) -> NoReturn:
        """Raises a ValueError: an engine's rows are not in memory."""
        raise ValueError(f"Duplicates are found in an index that is a folder, and {self.store} is none.")


@contextlib.contextmanager
def _still():
    """That the index is another one by now is nothing that those who search can help."""
    try:
        yield
    except OtherIndex as error:
        raise StoreError(str(error)) from error
