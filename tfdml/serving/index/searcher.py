"""`Searcher`: finds the images of an index that are similar to others."""

import copy
import os
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.reading.given_images import listed
from pipelines.reading.image_sources import Images
from tfdml.registry.annotations import Embeddings, FilePath
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import saved_model_folder
from tfdml.serving.index.array_embedder import ArrayEmbedder, is_of_arrays
from tfdml.serving.index.found import Found
from tfdml.serving.index.image_contents import contents_of
from tfdml.serving.index.index_build import unit_length
from tfdml.serving.index.index_folder import IndexFolder
from tfdml.serving.index.index_rows import IndexRows
from tfdml.serving.index.neighbor import Neighbor
from tfdml.serving.index.selection import Selection

# Images that the model embeds at once.
BATCH = 64


class Searcher:
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
        self._lock = threading.Lock()
        self._model = None if model is None or isinstance(model, str | os.PathLike) else model
        self._model_path = None
        if isinstance(model, ArrayEmbedder):
            model.check(self.manifest["model"], folder.path)
        elif model or not is_of_arrays(self.manifest["model"]):
            self._model_path = saved_model_folder(self._model.path if self._model else model or folder.model)
            folder.check_model(self._model_path, self.manifest["model"])

    def _open(self, folder, manifest, index=None, rows=None):
        self.folder, self.manifest = folder, manifest
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
            raise ValueError(f"The index {folder.path} was made anew with another model.")
        found = copy.copy(self)
        files = [[each[name] for name in ("generation", "index", "images")] for each in (manifest, self.manifest)]
        # Of images that are marked as deleted only the marks are new.
        known = (self._index, self._rows) if files[0] == files[1] else ()
        found._open(folder, manifest, *known)
        return found

    def __len__(self):
        return self._live.count

    @property
    def model(self) -> ExportedModel | ArrayEmbedder:
        """The `ExportedModel`, loaded when it is first needed, or what embeds arrays in Python."""
        with self._lock:
            if self._model is None and self._model_path is None:
                raise ValueError(
                    f"The index {self.folder.path} has no model with it. Search with vectors, or open it with its "
                    f"model: tfdml.Index.open({str(self.folder.path)!r}, model)."
                )
            if self._model is None:
                self._model = ExportedModel(self._model_path)
            return self._model

    @property
    def model_folder(self) -> FilePath | None:
        """The folder of the SavedModel, with its card; None of what embeds arrays."""
        return self._model_path

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

    def read(self, contents: bytes) -> Any:
        """Returns what `embed_read` takes of the contents of an image file; None if it cannot be read."""
        return self.model.read(contents)

    def embed_read(self, images: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[N, D]`, and whether each image could be read, `[N]`, of a list of what `read` returned.

        They are embedded at once.
        """
        return self.model.embed_read(images)

    def search(self, images: Images, k: int = 10, where: str | None = None) -> Found:
        """Returns for each image a list of the k nearest `Neighbor`s, the nearest first.

        Args:
            images: list of paths, of contents of files (bytes), or of arrays `[H, W, 3]` of RGB pixels from 0 to 255.
            k: number of neighbors; all if the index has fewer images.
            where: filter of the images that are found, such as `label in ('mug', 'cup') and price < 20`; None: all.
        """
        # Before the images are embedded, for what is wrong with the filter.
        selection = self.selection(where)
        return self._found(self.embed(images), k, selection)

    def search_vectors(
        self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()
    ) -> Found:
        """Returns what `search` does, for embeddings.

        Args:
            vectors: `[Q, D]` array, finite.
            k, where: as of `search`.
            hidden: names of columns that `where` must not ask for.
        """
        return self._found(vectors, k, self.selection(where, hidden))

    def _found(self, vectors, k, selection):
        lists = self.neighbors(*self._nearest(vectors, k, selection))
        return Found(lists, selection.count, selection.is_exact(self._index))

    def selection(self, where: str | None, hidden: Collection[str] = ()) -> Selection:
        """Returns the `Selection` of the rows that a filter takes; a ValueError says what is wrong with the filter."""
        return self._live if where is None else Selection.of(self._rows.selected(where, hidden))

    def embed(self, images: Images) -> np.ndarray:
        """Returns the embeddings `[N, D]` of images as `search` takes them; one that cannot be read is a ValueError."""
        images = images if isinstance(self.model, ArrayEmbedder) else listed(images)
        embeddings, valid = self.embed_readable(images)
        if not valid.all():
            place = int(np.argmin(valid))
            name = images[place] if isinstance(images[place], str | Path) else f"Image {place}"
            raise ValueError(f"{name} cannot be read: expected a whole JPEG, PNG or still WebP.")
        return embeddings

    def embed_readable(self, images: Images) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[N, D]`, and whether each image could be read, `[N]`.

        Args:
            images: as `search` takes them; a path that does not exist is an error.
        """
        if isinstance(self.model, ArrayEmbedder):
            embeddings = self.model(images)
            return embeddings, np.ones(len(embeddings), bool)
        images = listed(images)
        embeddings, valid = np.zeros((len(images), self.manifest["dimension"]), np.float32), np.zeros(len(images), bool)
        for start in range(0, len(images), BATCH):
            part = slice(start, start + BATCH)
            contents = [contents_of(image, start + place) for place, image in enumerate(images[part])]
            embeddings[part], valid[part] = self.model.embed_contents(contents)
        return embeddings, valid

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
        vectors, metric = unit_length(embeddings, self.manifest["metric"]), self.manifest["metric"]
        if vectors.ndim != 2 or vectors.shape[1] != self.manifest["dimension"]:
            expected = f"[count, {self.manifest['dimension']}]"
            raise ValueError(f"Expected vectors of the shape {expected}, received {list(vectors.shape)}.")
        found, rows = selection.search(self._index, vectors, k)
        # Rounding can make squared distances negative, and similarities larger than 1.
        return -np.sqrt(np.maximum(found, 0)) if metric == "euclidean" else np.minimum(found, 1.0), rows

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
