"""`ImageSearcher`: what searchers of images have in common, wherever the rows of the index are."""

import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.reading.sources import Images, listed
from tfdml.registry.arguments import Embeddings, FilePath
from tfdml.serving.exported.exported_model import ExportedModel
from tfdml.serving.index.array_embedder import ArrayEmbedder
from tfdml.serving.index.found import Found
from tfdml.serving.index.image_contents import contents_of
from tfdml.serving.index.neighbor import Neighbor

# Images that the model embeds at once.
BATCH = 64


class ImageSearcher:
    """Embeds images, and finds what is near them in an index.

    Args:
        name: of the index, for messages.
        model: `ExportedModel` or `ArrayEmbedder`; None: it is loaded when it is first needed.
        model_path: folder of the SavedModel to load; None: there is none.
    """

    def __init__(self, name: str, model: Any, model_path: str | Path | None):
        self.name, self._model, self._model_path = name, model, model_path
        self._lock = threading.Lock()

    @property
    def embeddings(self) -> Path | None:
        """The folder of the embeddings of the index; None: there is none."""
        raise NotImplementedError

    @property
    def manifest(self) -> dict[str, Any]:
        """The description of the index: `model`, `dimension`, `metric` and others."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Returns the number of images."""
        raise NotImplementedError

    def selection(self, where: str | None, hidden: Collection[str] = ()) -> Any:
        """Returns what `found` takes of a filter; a ValueError says what is wrong with it.

        Args:
            where, hidden: as of `search_vectors`.
        """
        raise NotImplementedError

    def found(self, vectors: Embeddings, k: int, selection: Any) -> Found:
        """Returns the k nearest of a selection for embeddings `[Q, D]`."""
        raise NotImplementedError

    def neighbors_of(self, embeddings: Embeddings, k: int) -> list[list[Neighbor]]:
        """Returns for each embedding a list of the k nearest `Neighbor`s of all images."""
        raise NotImplementedError

    def file_of(self, id: int) -> str | None:
        """Returns the path of the image with an id; None if the index has no such image, or only a name of it."""
        raise NotImplementedError

    def state(self) -> Any:
        """Returns a value that is another one when the index has changed; an OSError if the index is out of reach."""
        raise NotImplementedError

    def reopened(self) -> Self:
        """Returns a searcher of what the index is now; itself if the index has not changed."""
        raise NotImplementedError

    def has_labels(self) -> bool:
        """Whether an image has a label."""
        raise NotImplementedError

    @property
    def model(self) -> ExportedModel | ArrayEmbedder:
        """The `ExportedModel`, loaded when it is first needed, or what embeds arrays in Python."""
        with self._lock:
            if self._model is None and self._model_path is None:
                raise ValueError(
                    f"The index {self.name} has no model with it. Search with vectors, or open it with its "
                    f"model: tfdml.Index.open({self.name!r}, model)."
                )
            if self._model is None:
                self._model = ExportedModel(self._model_path)
            return self._model

    @property
    def model_folder(self) -> FilePath | None:
        """The folder of the SavedModel, with its card; None of what embeds arrays."""
        return self._model_path

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
        return self.found(self.embed(images), k, selection)

    def search_vectors(
        self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()
    ) -> Found:
        """Returns what `search` does, for embeddings.

        Args:
            vectors: `[Q, D]` array, finite.
            k, where: as of `search`.
            hidden: names of columns that `where` must not ask for.
        """
        return self.found(vectors, k, self.selection(where, hidden))

    def embed(self, images: Images) -> np.ndarray:
        """Returns the embeddings `[N, D]` of images as `search` takes them; one that cannot be read is a ValueError."""
        images = images if isinstance(self.model, ArrayEmbedder) else listed(images)
        embeddings, valid = self.embed_readable(images)
        if not valid.all():
            place = int(np.argmin(valid))
            name = images[place] if isinstance(images[place], str | Path) else f"Image {place}"
            raise ValueError(f"{name} cannot be read: expected a whole JPEG, PNG, WebP or AVIF.")
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
