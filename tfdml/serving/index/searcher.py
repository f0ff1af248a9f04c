"""Searchers, which find the images of an index that are similar to others."""

import copy
import os
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.reading.sources import Images
from tfdml.registry.arguments import Embeddings, FilePath
from tfdml.serving.embedders import VECTORS, AnyEmbedder, is_of_arrays, reads_files
from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import ExportedModel, model_hash, saved_model_folder
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.filters import condition_of
from tfdml.serving.index.stores.folder_store import FolderStore
from tfdml.serving.index.stores.store import (
    Found,
    OtherIndex,
    Store,
    StoreError,
    is_engine,
    open_store,
    store_name,
)

# Images that the model embeds at once.
BATCH = 64


class Searcher:
    """Searches an index: a store of embeddings, and what embeds images. Several threads may use it at once.

    The files of a folder are checked against the manifest when it is created; later changes of the index are not seen,
    see `reopened`. Each search of an engine is of what the engine has then.

    Args:
        index: its folder or address, or its `Store`. A SavedModel is a program: open indexes of people that you trust.
        model: an exported model or its folder, or another embedder, by which the index was made; None: the copy in the
            folder, if it has one, and otherwise searches are by vectors alone.

    Example: `Searcher("index").search(["car.jpg"], k=5)`.
    """

    def __init__(self, index: FilePath | Store, model: FilePath | AnyEmbedder | None = None):
        self._lock, self._has_own_model, self._model, self._model_path = threading.Lock(), model is None, None, None
        if isinstance(model, str | os.PathLike):
            self._model_path = saved_model_folder(model)
        elif model is not None:
            self._model, self._model_path = model, model.path
        if not isinstance(index, Store):
            digest = None
            # A folder says more of another model.
            if model is not None and is_engine(index):
                digest = model_hash(self._model_path) if self._model is None else self._model.digest
            index = open_store(index, model=digest)
        self._open(index)
        if isinstance(self.store, FolderStore):
            self._check_model(self.store.folder)

    def _open(self, store):
        self.store = store
        if isinstance(store, FolderStore):
            store.open()
            self._manifest = store.manifest
        else:
            about = store.existing()
            self._manifest = {name: getattr(about, name) for name in ("model", "dimension", "metric", "kind")}

    def _check_model(self, folder):
        """Raises a ValueError if the embeddings in a folder are of another model; finds the copy of the model in it."""
        digest = self.manifest["model"]
        if self._has_own_model and not is_of_arrays(digest):
            self._model_path = saved_model_folder(folder.model)
        if self._model_path is not None:
            folder.check_model(self._model_path, digest)
        # Of ready vectors nobody knows the model.
        elif self._model is not None and digest not in (VECTORS, self._model.digest):
            raise ValueError(f"The index {self.name} was made with another model; their embeddings cannot be compared.")

    def reopened(self) -> Self:
        """Returns a `Searcher` of what the index is now, with the same model; itself if the index has not changed."""
        store = self.store.reopened()
        # A store that was changed itself may have read another manifest by now.
        if store is self.store and (not isinstance(store, FolderStore) or store.manifest == self.manifest):
            return self
        found, before = copy.copy(self), self.manifest
        found._open(store)
        if found.manifest["model"] == before["model"]:
            return found
        # Another index in the same place is none that was upgraded.
        if not self._has_own_model or found.manifest.get("upgrades", 0) <= before.get("upgrades", 0):
            raise ValueError(f"The index {self.name} was made anew with another model.")
        found = type(self)(store)
        # Loaded now, and not by the first search.
        _ = found.model
        return found

    def state(self) -> Any:
        """Returns a value that is another one when the index has changed; an OSError if the index is out of reach."""
        return self.store.state()

    @property
    def name(self) -> str:
        """The folder of the index, or its address."""
        return str(self.store)

    @property
    def manifest(self) -> dict[str, Any]:
        """The description of the index: `model`, `dimension`, `metric` and others."""
        return self._manifest

    def __len__(self) -> int:
        return self.store.count()

    def has_labels(self) -> bool:
        """Whether an image has a label."""
        return self.store.count("label is not null") > 0

    def file_of(self, id: int) -> str | None:
        """Returns the path of the image with an id; None if the index has no such image, or only a name of it."""
        return self.store.file_of(id)

    @property
    def model(self) -> AnyEmbedder:
        """What embeds images, such as the `ExportedModel`, which is loaded when it is first needed."""
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
        """The folder of the SavedModel, with its card; None of another embedder."""
        return self._model_path

    def search(self, images: Images, k: int = 10, where: str | None = None) -> Found:
        """Returns for each image a list of the k nearest `Neighbor`s, the nearest first.

        Args:
            images: list of paths, of contents of files (bytes), or of arrays `[H, W, 3]` of RGB pixels from 0 to 255.
            k: number of neighbors; all if the index has fewer images.
            where: filter of the images that are found, such as `label in ('mug', 'cup') and price < 20`; None: all.
        """
        if where is not None:
            # Before the images are embedded, for what is wrong with the filter.
            condition_of(where, self.store.columns())
        return self.search_vectors(self.embed(images), k, where)

    def search_vectors(
        self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()
    ) -> Found:
        """Returns what `search` does, for embeddings.

        Args:
            vectors: `[Q, D]` array, finite.
            k, where: as of `search`.
            hidden: names of columns that `where` must not ask for.
        """
        try:
            return self.store.search(vectors, k, where, hidden)
        except OtherIndex as error:
            # That the index is another one by now is nothing that those who search can help.
            raise StoreError(str(error)) from error

    def read(self, contents: bytes) -> Any:
        """Returns what `embed_read` takes of the contents of an image file; None if it cannot be read."""
        return self.model.read(contents)

    def embed_read(self, images: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[N, D]`, and whether each image could be read, `[N]`, of a list of what `read` returned.

        They are embedded at once.
        """
        return self.model.embed_readable(images)

    def embed(self, images: Images) -> np.ndarray:
        """Returns the embeddings `[N, D]` of images as `search` takes them; one that cannot be read is a ValueError."""
        embeddings, _, reasons = self._embedded(images)
        for name, reason in reasons.items():
            raise ValueError(f"{name} cannot be read: {reason}; expected a whole JPEG, PNG, WebP or AVIF.")
        return embeddings

    def embed_readable(self, images: Images) -> tuple[np.ndarray, np.ndarray]:
        """Returns embeddings `[N, D]`, and whether each image could be read, `[N]`.

        Args:
            images: as `search` takes them; a path that does not exist is an error.
        """
        return self._embedded(images)[:2]

    def _embedded(self, images):
        """Returns embeddings, whether each image could be read, and name to reason of those that could not."""
        model = self.model
        if not reads_files(model, images):
            return *model.embed_readable(images), {}
        files = ImageList.of_images(images)
        missing = [] if files.contents is not None else [path for path in files.paths if not Path(path).exists()]
        if missing:
            raise ValueError(f"{missing[0]} cannot be read: the file does not exist.")
        kept, found, reasons = embed_rows(files, range(len(files)), model, batch_size=BATCH)
        embeddings = np.zeros((len(files), found.shape[1]), np.float32)
        embeddings[kept] = found
        return embeddings, np.isin(np.arange(len(files)), kept), reasons


def searcher_of(address, model=None):
    """Returns the `Searcher` of an index, which a command names; an engine has no copy of the model."""
    if is_engine(address) and not model:
        raise ValueError(f"--model is missing: the exported model whose embeddings are in {store_name(address)}.")
    return Searcher(address, model)


# Smallest similarity of a copy of the query: a distance of 0.001.
COPIES = {"cosine": 1 - 1e-3**2 / 2, "euclidean": -1e-3}


def kept(similarities, metric="cosine"):
    """Returns how many neighbors come before the largest fall of similarity from one to the next.

    Copies of the query are kept, and the fall after them does not count: it would hide that to the end of its class.
    Similarities, descending, are those of K neighbors and of the next one, if there is one.
    """
    similarities = np.asarray(similarities, float)
    copies = int(np.sum(similarities >= COPIES[metric]))
    falls = -np.diff(similarities[copies:])
    # Of equal falls the first.
    return copies + 1 + int(np.argmax(falls)) if len(falls) else len(similarities)


def adaptive_search(searcher, queries, k, where=None):
    """Returns what `searcher.search` finds, with each list cut where the similarities fall most."""
    found, metric = searcher.search(queries, k + 1, where), searcher.manifest["metric"]
    lists = [each[: min(k, kept([neighbor.similarity for neighbor in each], metric))] for each in found]
    return Found(lists, found.matching, found.exact)
