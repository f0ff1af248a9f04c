"""`Searcher`: finds the images of an index that are similar to others."""

import copy
import dataclasses
import io
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.preprocessing import why_no_pixels
from pipelines.reading.given_images import listed
from pipelines.reading.image_sources import Images
from tfdml.registry.annotations import Embeddings, FilePath
from tfdml.serving.embedding.image_list import ImageList
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.exported.saved_model_files import saved_model_folder
from tfdml.serving.index.index_build import unit_length
from tfdml.serving.index.index_folder import IndexFolder

# Images that the model embeds at once.
BATCH = 64


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


class Searcher:
    """Searches an index that `python -m tfdml.index` has made. Several threads may use it at once.

    All files are checked against the manifest when it is created; later changes of the index are not seen, see
    `reopened`.

    Args:
        index: its folder. A SavedModel is a program: open indexes of people that you trust.
        model: folder of an exported model to use instead of the index's copy; it has to be the same.

    Example: `Searcher("index").search(["car.jpg"], k=5)`.
    """

    def __init__(self, index: FilePath, model: FilePath | None = None):
        folder = IndexFolder(index)
        self._open(folder, folder.manifest())
        self._model_path = saved_model_folder(model) if model else self.folder.model
        self._model, self._lock = None, threading.Lock()
        self.folder.check_model(self._model_path, self.manifest["model"])

    def _open(self, folder, manifest):
        self.folder, self.manifest = folder, manifest
        self._index = folder.read_index(manifest)
        self._ids, self._paths, self._labels = folder.read_images(manifest)

    def reopened(self) -> Self:
        """Returns a `Searcher` of what the index is now, with the same model; itself if the index has not changed."""
        folder = IndexFolder(self.folder.path)
        manifest = folder.manifest()
        if manifest == self.manifest:
            return self
        if manifest["model"] != self.manifest["model"]:
            raise ValueError(f"The index {folder.path} was made anew with another model.")
        found = copy.copy(self)
        found._open(folder, manifest)
        return found

    def __len__(self):
        return len(self._paths)

    @property
    def model(self) -> ExportedModel:
        """The `ExportedModel`, loaded when it is first needed."""
        with self._lock:
            if self._model is None:
                self._model = ExportedModel(self._model_path)
            return self._model

    @property
    def ids(self) -> np.ndarray:
        """`[N]`: the ids of all images."""
        return self._ids

    @property
    def labels(self) -> list[str | None]:
        """List of the labels of all images, None where one has none."""
        return self._labels

    def read(self, contents: bytes) -> Any:
        """Returns what `embed_read` takes of the contents of an image file; None if it cannot be read."""
        return self.model.read(contents)

    def embed_read(self, images: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[N, D]`, and whether each image could be read, `[N]`, of a list of what `read` returned.

        They are embedded at once.
        """
        return self.model.embed_read(images)

    def search(self, images: Images, k: int = 10) -> list[list[Neighbor]]:
        """Returns for each image a list of the k nearest `Neighbor`s, the nearest first.

        Args:
            images: list of paths, of contents of files (bytes), or of arrays `[H, W, 3]` of RGB pixels from 0 to 255.
            k: number of neighbors; all if the index has fewer images.
        """
        return self.neighbors(*self.nearest(self.embed(images), k))

    def embed(self, images: Images) -> np.ndarray:
        """Returns the embeddings `[N, D]` of images as `search` takes them; one that cannot be read is a ValueError."""
        images = listed(images)
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
        images = listed(images)
        embeddings, valid = np.zeros((len(images), self.manifest["dimension"]), np.float32), np.zeros(len(images), bool)
        for start in range(0, len(images), BATCH):
            part = slice(start, start + BATCH)
            contents = [_contents(image, start + place) for place, image in enumerate(images[part])]
            embeddings[part], valid[part] = self.model.embed_contents(contents)
        return embeddings, valid

    def nearest(self, embeddings: Embeddings, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns similarities `[Q, k]`, descending, and rows of the index `[Q, k]`; -1 where none was found.

        Args:
            embeddings: `[Q, D]` array, finite.
            k: number of neighbors; all if the index has fewer images.
        """
        if k < 1:
            raise ValueError(f"Expected a number of neighbors of 1 or more, received {k}.")
        vectors, metric = unit_length(embeddings, self.manifest["metric"]), self.manifest["metric"]
        found, rows = self._index.search(vectors, min(k, len(self)))
        # Rounding can make squared distances negative, and similarities larger than 1.
        return -np.sqrt(np.maximum(found, 0)) if metric == "euclidean" else np.minimum(found, 1.0), rows

    def neighbors(self, similarities: np.ndarray, rows: np.ndarray) -> list[list[Neighbor]]:
        """Returns for each query a list of `Neighbor`s of what `nearest` returns."""
        return [
            [self.image(row, similarity) for similarity, row in zip(*each, strict=True) if row >= 0]
            for each in zip(similarities.tolist(), rows.tolist(), strict=True)
        ]

    def file_of(self, id: int) -> str | None:
        """Returns the path of the image with an id; None if the index has no such image."""
        rows = np.flatnonzero(self._ids == id)
        return self.folder.file_of(self._paths[rows[0]]) if len(rows) else None

    def image(self, row: int, similarity: float) -> Neighbor:
        """Returns the `Neighbor` at a row of the index."""
        return Neighbor(int(self._ids[row]), self.folder.file_of(self._paths[row]), self._labels[row], similarity)


def _contents(image, place):
    """Returns the contents of a file for an image: those of its path, or of a PNG with its pixels."""
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if isinstance(image, str | Path):
        try:
            return ImageList([os.fspath(image)], [None]).read(0)
        except OSError as error:
            raise ValueError(f"{image} cannot be read: {error.strerror or error}.") from None
    pixels = np.asarray(image)
    reason = why_no_pixels(pixels, place)
    if reason:
        raise ValueError(reason)
    if pixels.dtype != np.uint8:
        pixels = np.clip(np.round(pixels), 0, 255).astype(np.uint8)
    from PIL import Image

    file = io.BytesIO()
    # Only for a moment: compressing takes longer than what it saves.
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    return file.getvalue()
