"""Searchers find the images in an index that are similar to others."""

import copy
import logging
import os
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.boxes import parted
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

# Images per model call.
BATCH = 64


class Searcher:
    """Searches an existing index for images that are similar to others. Several threads may use it at once.

    Use it to only search an index, for example in your own service. `tfdml.Index` can also add and delete images. A
    searcher checks the files of an index folder against the manifest when it is created, and does not see later
    changes; see `reopened`. In a vector database, each search sees the current rows.

    Args:
        index: Folder or address of the index, or its `Store`. A SavedModel is a program, so open only indexes from
            people that you trust.
        model: Exported model or its folder, or another embedder, with which the index was made. In a folder, another
            export of the same model is accepted if it embeds the index's own probes equally, except for rounding. If
            `None`, the copy in the folder is used. Without a copy, searches need vectors. Defaults to `None`.
        query_model: Exported model or its folder, or another embedder, that embeds queries instead of the index's
            model, such as a small network that was trained in the space of a large one. Only the dimension and the
            metric are checked. Fitted thresholds of the index's model are not used. Defaults to `None`.

    Raises:
        ValueError: If there is no index, it is damaged, or it was made with another model, or if `query_model` has
            another dimension or metric.

    Example:

    ```python
    with tfdml.Index() as index:
        index.add(vectors=[[1.0, 0.0], [0.0, 1.0]], labels=["cup", "bowl"])
        index.save("index")
    found = tfdml.serving.Searcher("index").search_vectors([[0.8, 0.2]], k=1)
    [neighbor.label for neighbor in found[0]]  # ["cup"]
    ```
    """

    def __init__(
        self,
        index: FilePath | Store,
        model: FilePath | AnyEmbedder | None = None,
        query_model: FilePath | AnyEmbedder | None = None,
    ):
        self._lock, self._has_own_model, self._model, self._model_path = threading.Lock(), model is None, None, None
        self._model_digest = None
        if isinstance(model, str | os.PathLike):
            self._model_path = saved_model_folder(model)
        elif model is not None:
            self._model, self._model_path = model, model.path
        if not isinstance(index, Store):
            digest = None
            # For a folder, the check of its model has a better error.
            if model is not None and is_engine(index):
                digest = model_hash(self._model_path) if self._model is None else self._model.digest
            index = open_store(index, model=digest)
        self._open(index)
        if isinstance(self.store, FolderStore):
            self._check_model(self.store.folder)
        self._query_model = self._checked_query_model(query_model)

    def _checked_query_model(self, model):
        """Returns the embedder of queries, or None. Raises a ValueError if it has another dimension or metric."""
        if isinstance(model, str | os.PathLike):
            model = ExportedModel(model)
        if model is not None:
            of_model, of_index = (model.dimension, model.metric), (self.manifest["dimension"], self.manifest["metric"])
            if of_model != of_index:
                raise ValueError(
                    f"query_model must embed like the index {self.name}, with {of_index[0]} dimensions and the metric "
                    f"{of_index[1]!r}. Received a model with {of_model[0]} dimensions and {of_model[1]!r}."
                )
        return model

    def _open(self, store):
        self.store = store
        if isinstance(store, FolderStore):
            store.open()
            self._manifest = store.manifest
        else:
            about = store.existing()
            self._manifest = {name: getattr(about, name) for name in ("model", "dimension", "metric", "kind")}

    def _check_model(self, folder):
        """Finds the model's copy in the folder. Raises a ValueError if the index was made with another model."""
        digest = self.manifest["model"]
        if self._has_own_model and not is_of_arrays(digest):
            self._model_path = saved_model_folder(folder.model)
        if self._model_path is not None:
            self._model_digest = folder.check_model(self._model_path, digest)
        # The model of an index of vectors is not known, so any model is accepted.
        elif self._model is not None and digest not in (VECTORS, self._model.digest):
            raise ValueError(
                f"The index {self.name} was made with another model, so the embeddings cannot be compared."
            )

    def reopened(self) -> Self:
        """Returns a searcher for the current state of the index, with the same model.

        Returns:
            This searcher if the index has not changed, and a new `Searcher` otherwise. If the index was upgraded, the
            new one uses the new model.

        Raises:
            ValueError: If the index was replaced by an index of another model, or was upgraded while another model
                embeds the queries.
        """
        store = self.store.reopened()
        # A store that this process has changed may have read another manifest by now.
        if store is self.store and (not isinstance(store, FolderStore) or store.manifest == self.manifest):
            return self
        found, before = copy.copy(self), self.manifest
        found._open(store)
        if found.manifest["model"] == before["model"]:
            return found
        # Without an upgrade, an index with another model is another index in the same place. The query model does not
        # embed like the new model.
        follows = self._has_own_model and self._query_model is None
        if not follows or found.manifest.get("upgrades", 0) <= before.get("upgrades", 0):
            raise ValueError(f"The index {self.name} was replaced by an index of another model. Open it again.")
        found = type(self)(store)
        # Load the model now, so that the first search need not wait for it.
        _ = found.model
        return found

    def state(self) -> Any:
        """Returns a value that changes when the index changes.

        Raises:
            OSError: If the index cannot be reached.
        """
        return self.store.state()

    @property
    def name(self) -> str:
        """Folder or address of the index."""
        return str(self.store)

    @property
    def manifest(self) -> dict[str, Any]:
        """Description of the index as a dictionary with `model`, `dimension`, `metric` and other entries."""
        return self._manifest

    def __len__(self) -> int:
        return self.store.count()

    def has_labels(self) -> bool:
        """Returns whether at least one image has a label."""
        return self.store.count("label is not null") > 0

    def file_of(self, id: int) -> str | None:
        """Returns the path of the image with an id, or `None` if the index has no such image or no path for it."""
        return self.store.file_of(id)

    @property
    def model(self) -> AnyEmbedder:
        """The embedder of queries, such as an `ExportedModel`, which is loaded when it is first used."""
        if self._query_model is not None:
            return self._query_model
        with self._lock:
            if self._model is None and self._model_path is None:
                raise ValueError(
                    f"The index {self.name} has no model. Search with vectors, or open it with its model: "
                    f"tfdml.Index.open({self.name!r}, model)."
                )
            if self._model is None:
                self._model = ExportedModel(self._model_path)
            return self._model

    @property
    def model_digest(self) -> str:
        """Hash of the model that embeds queries. Another export of the index's model has another hash than it."""
        if self._query_model is not None:
            return self._query_model.digest
        return self._model_digest or self.manifest["model"]

    @property
    def model_folder(self) -> FilePath | None:
        """Folder of the SavedModel and its card, or `None` for other embedders and for a `query_model`.

        The card of a `query_model` does not describe the index, so its threshold is not used.
        """
        return None if self._query_model is not None else self._model_path

    def search(self, images: Images, k: int = 10, where: str | None = None, boxes: Any = None) -> Found:
        """Returns the `k` nearest neighbors of each image, the nearest first.

        Args:
            images: List of paths, of the contents of files (bytes), or of arrays `[H, W, 3]` of RGB pixels from 0 to
                255.
            k: Integer. Number of neighbors. If the index has fewer images, all of them are returned. Defaults to `10`.
            where: String or `None`. Filter for the images to find, such as `"label in ('mug', 'cup') and price < 20"`.
                If `None`, all images can be found. Defaults to `None`.
            boxes: `[N, 4]`, or `[4]` for a single image, or `None`. Left, top, right and bottom of the part of each
                image to search for, in pixels or as fractions of its width and height. Defaults to `None`.

        Returns:
            A `Found`: a list with one list of `Neighbor` objects per image.

        Raises:
            ValueError: If an image cannot be read, a box is not inside its image, or the filter is not valid.
        """
        if where is not None:
            # Report errors in the filter before the images are embedded.
            condition_of(where, self.store.columns())
        return self.search_vectors(self.embed(images, boxes), k, where)

    def search_vectors(
        self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()
    ) -> Found:
        """Returns the `k` nearest neighbors of each embedding, the nearest first.

        Args:
            vectors: `[Q, D]` array of finite numbers.
            k: Integer. Number of neighbors. Defaults to `10`.
            where: Filter as in `search`. Defaults to `None`.
            hidden: Names of columns that `where` must not use. Defaults to `()`.

        Returns:
            A `Found`: a list with one list of `Neighbor` objects per embedding.
        """
        try:
            return self.store.search(vectors, k, where, hidden)
        except OtherIndex as error:
            # The user of a search cannot do anything about an index that was replaced, so it is not an error in the
            # request.
            raise StoreError(str(error)) from error

    def embed_query(
        self, images: Images | None, text: str | Sequence[str], text_weight: float = 0.5, boxes: Any = None
    ) -> np.ndarray:
        """Returns the embeddings of queries by texts, or by images and texts.

        Args:
            images: Images in the forms that `search` accepts, or `None`.
            text: A text for all queries, or one per query.
            text_weight: Float from 0 to 1. Weight of the text next to an image: the query is the sum of both
                embeddings, with the weights `1 - text_weight` and `text_weight`. Defaults to `0.5`.
            boxes: Boxes in the images, as in `search`. Defaults to `None`.

        Returns:
            Embeddings, float32 `[Q, D]`.

        Raises:
            ValueError: If an image cannot be read, a text is empty, or the model has no text tower.
        """
        vectors = self.embed_texts([text] if isinstance(text, str) else text)
        if images is None:
            return vectors
        if not 0 <= text_weight <= 1:
            raise ValueError(f"text_weight must be from 0 to 1. Received: text_weight={text_weight}.")
        pictured = self.embed(images, boxes)
        if len(vectors) not in (1, len(pictured)):
            raise ValueError(
                f"text must have one text, or one for each of the {len(pictured)} images. Received: {len(vectors)} "
                "texts."
            )
        return (1 - text_weight) * pictured + text_weight * vectors

    @property
    def has_texts(self) -> bool:
        """Whether the model embeds texts, so that the index can be searched by text."""
        return self.model.has_texts

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the embeddings of texts, float32 `[N, D]`, in the space of the images.

        Args:
            texts: Sequence of N strings.

        Raises:
            ValueError: If a text is empty, or the model has no text tower.
        """
        texts = list(texts)
        if not texts or not all(isinstance(each, str) and each.strip() for each in texts):
            raise ValueError(f"text must be one text or several, none of them empty. Received: text={texts!r}.")
        if not self.has_texts:
            raise ValueError(
                f"The index {self.name} cannot be searched by text, because its model has no text tower. Make it with "
                "a model that has one, such as tfdml.TwoTowers."
            )
        return self.model.embed_texts(texts)

    def read(self, contents: bytes) -> Any:
        """Decodes the contents of an image file for `embed_read`, or returns `None` if it cannot be read."""
        return self.model.read(contents)

    def embed_read(self, images: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Embeds results of `read` in one batch.

        Args:
            images: List of results of `read`, or of the contents of files (bytes).

        Returns:
            A tuple of the embeddings, float32 `[N, D]`, and a mask `[N]` that is True for readable images.
        """
        return self.model.embed_readable(images)

    def embed(self, images: Images, boxes: Any = None) -> np.ndarray:
        """Returns the embeddings of images, float32 `[N, D]`.

        Args:
            images: Images in the forms that `search` accepts.
            boxes: Boxes as in `search`. Defaults to `None`.

        Raises:
            ValueError: If an image cannot be read, or a box is not inside its image.
        """
        embeddings, _, reasons = self._embedded(images, boxes)
        for name, reason in reasons.items():
            expected = "" if parted(name)[1] else ". Expected a complete JPEG, PNG, WebP or AVIF file"
            raise ValueError(f"{name} cannot be read: {reason}{expected}.")
        return embeddings

    def embed_readable(self, images: Images) -> tuple[np.ndarray, np.ndarray]:
        """Embeds images and reports which of them could be read.

        Args:
            images: Images in the forms that `search` accepts. Paths must exist.

        Returns:
            A tuple of the embeddings, float32 `[N, D]`, and a mask `[N]` that is True for readable images. A warning
            has the reason of the first other image.
        """
        embeddings, valid, reasons = self._embedded(images)
        if reasons:
            told = len(reasons), len(valid), *min(reasons.items())
            logging.getLogger(__name__).warning("%d of %d images cannot be read. The first is %s: %s", *told)
        return embeddings, valid

    def _embedded(self, images, boxes=None):
        """Returns embeddings, whether each image could be read, and a dictionary from unreadable names to reasons."""
        model = self.model
        if not reads_files(model, images):
            if boxes is not None:
                raise ValueError("boxes need a model that reads image files. Crop the images yourself instead.")
            return *model.embed_readable(images), {}
        files = ImageList.of_images(images, boxes)
        missing = [] if files.contents is not None else [path for path in files.files() if not Path(path).exists()]
        if missing:
            raise ValueError(f"{missing[0]} does not exist. Expected the path of an image file.")
        kept, found, reasons = embed_rows(files, range(len(files)), model, batch_size=BATCH)
        embeddings = np.zeros((len(files), found.shape[1]), np.float32)
        embeddings[kept] = found
        return embeddings, np.isin(np.arange(len(files)), kept), reasons


def searcher_of(address, model=None, query_model=None):
    """Returns the `Searcher` of an index that a command names. A vector database has no copy of the model."""
    if is_engine(address) and not model:
        raise ValueError(
            f"--model is missing. Pass the exported model with which the embeddings in {store_name(address)} "
            "were computed."
        )
    return Searcher(address, model, query_model)


# Minimum similarity of a copy of the query, which is at most at a distance of 0.001.
COPIES = {"cosine": 1 - 1e-3**2 / 2, "euclidean": -1e-3}


def kept(similarities, metric="cosine"):
    """Returns how many neighbors come before the largest drop of similarity from one to the next.

    Copies of the query are kept, and the drop after them is ignored, because it would hide the drop at the end of the
    query's class. The similarities, in descending order, belong to K neighbors and to the next one, if there is one.
    """
    similarities = np.asarray(similarities, float)
    copies = int(np.sum(similarities >= COPIES[metric]))
    falls = -np.diff(similarities[copies:])
    # np.argmax returns the first of several equal drops.
    return copies + 1 + int(np.argmax(falls)) if len(falls) else len(similarities)


def adaptive_search(searcher, queries, k, where=None, boxes=None):
    """Returns the result of `searcher.search`, with each list cut at the largest drop of similarity."""
    found, metric = searcher.search(queries, k + 1, where, boxes), searcher.manifest["metric"]
    lists = [each[: min(k, kept([neighbor.similarity for neighbor in each], metric))] for each in found]
    return Found(lists, found.matching, found.exact)
