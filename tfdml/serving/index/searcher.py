"""`Searcher`: finds the images of an index that are similar to others."""

import copy
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

import numpy as np

from tfdml.registry.arguments import Embeddings, FilePath
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import saved_model_folder
from tfdml.serving.index.array_embedder import ArrayEmbedder, is_of_arrays
from tfdml.serving.index.found import Found
from tfdml.serving.index.image_searcher import ImageSearcher
from tfdml.serving.index.index_build import compared_vectors
from tfdml.serving.index.index_folder import IndexFolder
from tfdml.serving.index.index_rows import IndexRows
from tfdml.serving.index.neighbor import Neighbor
from tfdml.serving.index.selection import Selection


class Searcher(ImageSearcher):
    """Searches an index that `python -m tfdml.index` has made. Several threads may use it at once.

    All files are checked against the manifest when it is created; later changes of the index are not seen, see
    `reopened`.

    Args:
        index: its folder. A SavedModel is a program: open indexes of people that you trust.
        model: an exported model or its folder, to use instead of the index's copy, or an `ArrayEmbedder`; it has to be
            the same.

    Example: `Searcher("index").search(["car.jpg"], k=5)`.
    """

    def __init__(self, index: FilePath, model: FilePath | ExportedModel | ArrayEmbedder | None = None):
        folder = IndexFolder(index)
        self._open(folder, folder.manifest())
        embedder, path = None if model is None or isinstance(model, str | os.PathLike) else model, None
        if isinstance(model, ArrayEmbedder):
            model.check(self.manifest["model"], folder.path)
        elif model or not is_of_arrays(self.manifest["model"]):
            path = saved_model_folder(embedder.path if embedder else model or folder.model)
            folder.check_model(path, self.manifest["model"])
        self._has_own_model = not model
        super().__init__(str(folder.path), embedder, path)

    def _open(self, folder, manifest, index=None, rows=None):
        self.folder, self._manifest = folder, manifest
        self._index = folder.read_index(manifest) if index is None else index
        self._rows = folder.read_rows(manifest, rows)
        self._live = Selection.of(self._rows.selected())

    def reopened(self) -> Self:
        """Returns a `Searcher` of what the index is now, with the same model; itself if the index has not changed."""
        folder = IndexFolder(self.folder.path)
        manifest = folder.manifest()
        if manifest == self.manifest:
            return self
        if manifest["model"] != self.manifest["model"]:
            return self._upgraded(manifest)
        found = copy.copy(self)
        files = [[each[name] for name in ("generation", "index", "images")] for each in (manifest, self.manifest)]
        # Of images that are marked as deleted only the marks are new.
        known = (self._index, self._rows) if files[0] == files[1] else ()
        found._open(folder, manifest, *known)
        return found

    def _upgraded(self, manifest):
        """Returns a searcher with the model that the index has now, loaded; an error if it was opened with another."""
        # Another index in the same place is none that was upgraded.
        if not self._has_own_model or manifest.get("upgrades", 0) <= self.manifest.get("upgrades", 0):
            raise ValueError(f"The index {self.folder.path} was made anew with another model.")
        found = type(self)(self.folder.path)
        _ = found.model
        return found

    def __len__(self):
        return self._live.count

    @property
    def manifest(self) -> dict[str, Any]:
        """The description of the index: `model`, `dimension`, `metric` and others."""
        return self._manifest

    def state(self) -> Any:
        """Returns a value that is another one when a file that a search needs has changed; it takes no reading."""
        return self.folder.state()

    def has_labels(self) -> bool:
        return any(self.labels)

    @property
    def embeddings(self) -> Path:
        """The folder of the embeddings of this index, which is gone once another model has taken its place."""
        return self.folder.embeddings_after(self.manifest.get("upgrades", 0))

    @property
    def rows(self) -> IndexRows:
        """The `IndexRows` of the index, also of deleted images."""
        return self._rows

    @property
    def ids(self) -> np.ndarray:
        """`[N]`: the ids of all images."""
        return self._rows.ids[self._rows.selected()]

    @property
    def labels(self) -> list[str | None]:
        """List of the labels of all images, None where one has none."""
        return [self._rows.labels[row] for row in np.flatnonzero(self._rows.selected())]

    def found(self, vectors: Embeddings, k: int, selection: Selection) -> Found:
        lists = self.neighbors(*self._nearest(vectors, k, selection))
        return Found(lists, selection.count, selection.is_exact(self._index))

    def selection(self, where: str | None, hidden: Collection[str] = ()) -> Selection:
        """Returns the `Selection` of the rows that a filter takes; a ValueError says what is wrong with the filter."""
        return self._live if where is None else Selection.of(self._rows.selected(where, hidden))

    def nearest(self, embeddings: Embeddings, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns similarities `[Q, k]`, descending, and rows of the index `[Q, k]`; -1 where none was found.

        Args:
            embeddings: `[Q, D]` array, finite.
            k: number of neighbors; all if the index has fewer images.
        """
        return self._nearest(embeddings, k, self._live)

    def _nearest(self, embeddings, k, selection):
        if k < 1:
            raise ValueError(f"Expected a number of neighbors of 1 or more, received {k}.")
        vectors, metric = compared_vectors(embeddings, self.manifest["metric"]), self.manifest["metric"]
        if vectors.ndim != 2 or vectors.shape[1] != self.manifest["dimension"]:
            expected = f"[count, {self.manifest['dimension']}]"
            raise ValueError(f"Expected vectors of the shape {expected}, received {list(vectors.shape)}.")
        found, rows = selection.search(self._index, vectors, k)
        # Rounding can make squared distances negative, and similarities larger than 1.
        return -np.sqrt(np.maximum(found, 0)) if metric == "euclidean" else np.minimum(found, 1.0), rows

    def neighbors_of(self, embeddings: Embeddings, k: int) -> list[list[Neighbor]]:
        return self.neighbors(*self.nearest(embeddings, k))

    def neighbors(self, similarities: np.ndarray, rows: np.ndarray) -> list[list[Neighbor]]:
        """Returns for each query a list of `Neighbor`s of what `nearest` returns."""
        return [
            [self.image(row, similarity) for similarity, row in zip(*each, strict=True) if row >= 0]
            for each in zip(similarities.tolist(), rows.tolist(), strict=True)
        ]

    def file_of(self, id: int) -> str | None:
        """Returns the path of the image with an id; None if the index has no such image, or only a name of it."""
        rows = np.flatnonzero((self._rows.ids == id) & ~self._rows.deleted)
        if not len(rows) or os.sep not in self._rows.paths[rows[0]]:
            return None
        return self.folder.file_of(self._rows.paths[rows[0]])

    def image(self, row: int, similarity: float) -> Neighbor:
        """Returns the `Neighbor` at a row of the index."""
        rows = self._rows
        return Neighbor(int(rows.ids[row]), self.folder.file_of(rows.paths[row]), rows.labels[row], similarity)
