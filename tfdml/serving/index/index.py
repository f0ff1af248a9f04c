"""`Index` finds images by similarity, in Python."""

import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from tfdml.registry.arguments import Distance, Embeddings, FilePath
from tfdml.run.experiment.threshold import Threshold
from tfdml.serving.embedders import VECTORS, checked_vectors, embedder_for_index, reads_files
from tfdml.serving.embedding import embed_rows
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import labeling
from tfdml.serving.index.folder import index_of_kind
from tfdml.serving.index.labeling import DuplicateGroup, Labeled
from tfdml.serving.index.rows import new_ids, new_rows
from tfdml.serving.index.searcher import Searcher
from tfdml.serving.index.stores.folder_store import FolderStore
from tfdml.serving.index.stores.store import Found, Neighbor, is_engine, open_store
from tfdml.serving.index.threshold import threshold_for


class Index:
    """Image index that finds the images that are most similar to a query.

    Use it to search, label and deduplicate images in Python. `python -m tfdml.index` makes the same indexes, and `open`
    opens them. A new index is in a temporary folder until you call `save`, and ends with `close` or at the end of a
    `with` block. An index that `open` has opened, or that has a `store`, is changed in place.

    Args:
        model: The model that embeds images. An exported model or its folder, a run directory, a `.keras` file or the
            result of `tfdml.load` accepts files and pixels. A Keras model or a function receives the images as they
            are; a model with `preprocessing` also accepts files. If `None`, the index only accepts vectors. Defaults to
            `None`.
        store: Where to keep the index instead of a temporary folder: a folder, or an address such as
            `postgresql://user@host/db?table=photos` or `qdrant://host:6333/photos`. It must be new, or have an index of
            the same model. Defaults to `None`.
        kind: Index type: `"flat"`, `"ivf"`, `"hnsw"` or `"pq"`, see `python -m tfdml.index --helpshort`. If `None`, a
            new index is `"flat"`, and an existing one keeps its type. Defaults to `None`.
        metric: `"cosine"` or `"euclidean"`. If `None`, the metric in the model's card, or `"cosine"` without a card.
            Defaults to `None`.

    Raises:
        ValueError: If the model or the index type is unknown, or the store has an index of another model or type.

    Example:

    ```python
    index = tfdml.Index()
    index.add(vectors=[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], labels=["cup", "cup", "bowl"])
    [neighbor.label for neighbor in index.search(vectors=[[0.8, 0.2]], k=2)[0]]  # ["cup", "cup"]
    ```
    """

    def __init__(
        self,
        model: Any = None,
        *,
        store: FilePath | None = None,
        kind: str | None = None,
        metric: Distance | None = None,
    ):
        index_of_kind(kind or "flat")
        self._own = tempfile.TemporaryDirectory(prefix="tfdml-index-")
        self._model = embedder_for_index(model, Path(self._own.name) / "exported")
        metric = metric or ("cosine" if self._model is None else self._model.metric)
        address = Path(self._own.name) / "index" if store is None else store
        digest = VECTORS if self._model is None else self._model.digest
        self._opened, self._searcher = open_store(address, model=digest, kind=kind, metric=metric), None
        self._keeps = store is not None
        self._store.check()

    @classmethod
    def open(cls, address: FilePath, model: Any = None) -> Self:
        """Opens an existing index, for example one that `python -m tfdml.index` has made.

        Changes to the opened index change its files, or the rows in its vector database. A SavedModel is a program, so
        open only indexes from people that you trust.

        Args:
            address: Folder or address of the index; see `store`.
            model: The model that the index was made with. If `None`, the copy in the folder is used. Indexes of Keras
                models and functions, and indexes in vector databases, have no copy. Defaults to `None`.

        Returns:
            The `Index`.

        Raises:
            ValueError: If there is no index, it is damaged, or it was made with another model.
        """
        found = cls.__new__(cls)
        found._own, found._model, found._keeps = None, embedder_for_index(model), False
        digest = found._model.digest if is_engine(address) and model is not None else None
        found._opened = open_store(address, model=digest)
        found._searcher = Searcher(found._opened, found._model)
        return found

    def add(
        self,
        images: Any = None,
        labels: Sequence[Any] | np.ndarray | None = None,
        attributes: Mapping[str, Any] | None = None,
        *,
        paths: Sequence[FilePath] | None = None,
        ids: Sequence[int] | np.ndarray | None = None,
        vectors: Embeddings | None = None,
        boxes: Any = None,
    ) -> np.ndarray:
        """Adds images, or replaces images that have the same path.

        Each call writes the index to its folder, or is one transaction, so add many images at once.

        Args:
            images: N images: a folder, paths, contents of files, or arrays of pixels. For a Keras model or a function,
                whatever it accepts. A tfdml model with `preprocessing` reads and prepares files. Defaults to `None`.
            labels: N strings or numbers, with `None` for images without a label. If `None`, the images of a folder get
                the names of their subfolders, and other images have no labels. Defaults to `None`.
            attributes: Dictionary from names to N strings, numbers, booleans or times, with `None` for missing values.
                Filters can use them. Defaults to `None`.
            paths: N strings. If `None`, the paths of the images, or `#` and the id for images without a path. Defaults
                to `None`.
            ids: N integers that no image in the index has. If `None`, the next integers. Defaults to `None`.
            vectors: `[N, D]` embeddings to add instead of images. Defaults to `None`.
            boxes: `[N, 4]` left, top, right and bottom of the part of each image to add, in pixels or as fractions of
                its width and height. An image may occur several times with different boxes. Defaults to `None`.

        Returns:
            Ids of the images, an integer array `[N]`. Images that cannot be read are skipped and have the id -1.

        Raises:
            ValueError: If both or neither of `images` and `vectors` are passed, if no image can be read, or if an id is
                already in use.
        """
        if (images is None) == (vectors is None):
            raise ValueError(
                f"add() needs either images or vectors. Received: {'neither' if images is None else 'both'}."
            )
        files = None
        self._check_boxes(boxes, images)
        if images is None:
            vectors = checked_vectors(vectors)
        elif reads_files(self._embedder, images):
            files = self._listed(images, boxes)
        else:
            vectors, _ = self._embedder.embed_readable(images)
        folder = self._store.folder if isinstance(self._store, FolderStore) else None
        if folder is not None and folder.exists() and folder.manifest().get("tiles"):
            raise ValueError(f"The index {self._store} has tiles. Add images by python -m tfdml.index --add.")
        count = len(vectors if files is None else files)
        new, table = new_rows(count, files, labels=labels, attributes=attributes, paths=paths, ids=ids)
        if new is not None:
            self._store.check_free(self._store.find(ids=new.tolist()))
        kept, bad = range(count), {}
        if files is not None:
            kept, vectors, bad = embed_rows(files, kept, self._embedder)
        if bad:
            path, reason = next(iter(bad.items()))
            message = f"{len(bad):,} of {count:,} images cannot be read, for example {path}: {reason}"
            if not kept:
                raise ValueError(message)
            warnings.warn(f"{message}. They are skipped.", stacklevel=2)
        if self._keeps and isinstance(self._store, FolderStore) and self._model is not None:
            self._store.keep_model(self._model.path)
        kept = np.array(kept, np.int64)
        found = np.full(count, -1, np.int64)
        # The list of unreadable images is for repairs, and images in memory have no files to repair.
        bad = {} if files is None or files.contents is not None else bad
        found[kept] = self._store.add(None if new is None else new[kept], vectors, table.take(kept), bad)
        self._store.build()
        return found

    def search(
        self,
        images: Any = None,
        k: int = 10,
        where: str | None = None,
        *,
        vectors: Embeddings | None = None,
        boxes: Any = None,
        text: str | Sequence[str] | None = None,
        text_weight: float = 0.5,
    ) -> Found:
        """Returns the `k` nearest neighbors of each query, the nearest first.

        Args:
            images: One image or several, in the forms that `add` accepts. Defaults to `None`.
            k: Integer. Number of neighbors. If the index has fewer images, all of them are returned. Defaults to `10`.
            where: String or `None`. Filter for the images to find, such as `"label in ('mug', 'cup') and price < 20"`.
                It can use the attributes, `label`, `path` and `id`. Filters are parsed and never run as code. If
                `None`, all images can be found. Defaults to `None`.
            vectors: `[Q, D]` embeddings of the queries, instead of images. Defaults to `None`.
            boxes: `[Q, 4]`, or `[4]` for a single image. Left, top, right and bottom of the part of each image to
                search for, in pixels or as fractions of its width and height. Defaults to `None`.
            text: A text, or Q texts, to search for instead of images, if the model has a text tower, see
                `tfdml.TwoTowers`. With images, both are combined. Defaults to `None`.
            text_weight: Float from 0 to 1. Weight of a text next to an image. Defaults to `0.5`.

        Returns:
            A `Found`: a list with one list of `Neighbor` objects per query. Its attribute `matching` is the number of
            images that were searched, and `exact` is whether all of them were compared.

        Raises:
            ValueError: If the index is empty, an image cannot be read, or the filter is not valid.
        """
        if (images is None and text is None) == (vectors is None):
            received = "none of them" if vectors is None else "vectors and others"
            raise ValueError(f"search() needs images, a text, both of them, or vectors. Received: {received}.")
        self._check_boxes(boxes, images)
        if text is not None:
            searcher = self._current()
            return searcher.search_vectors(searcher.embed_query(images, text, text_weight, boxes), k, where)
        if images is not None:
            return self._current().search(images, k, where, boxes)
        return self._current().search_vectors(checked_vectors(vectors), k, where)

    def delete(self, ids: int | Iterable[int], *, compact: bool = False) -> None:
        """Deletes images from the index. If one of the ids does not exist, raises an error and deletes nothing.

        Searches stop returning the images immediately. Their rows stay in the files until 20% of all rows are deleted.

        Args:
            ids: One id or several: results of `add`, or the `id` of a `Neighbor`.
            compact: Boolean. Whether to erase the images from the files at once, which builds the index again. Defaults
                to `False`.

        Raises:
            ValueError: If an id is not in the index, or no images would be left.
        """
        several = list(ids) if isinstance(ids, Iterable) else [ids]
        self._store.delete(set(new_ids(several).tolist()) if several else set(), compact)

    def compact(self) -> None:
        """Erases deleted images from the files. Vector databases erase them immediately."""
        if isinstance(self._store, FolderStore):
            self._store.compact()

    def duplicates(self, threshold: float = 0.95) -> list[tuple[Neighbor, Neighbor]]:
        """Returns pairs of near-duplicates, the most similar pair first.

        Args:
            threshold: Float. Minimum similarity of a pair. Defaults to `0.95`.

        Returns:
            A list of `(Neighbor, Neighbor)` tuples.
        """
        return labeling.duplicates(self._current(), threshold)

    def duplicate_groups(self, threshold: float = 0.95) -> list[DuplicateGroup]:
        """Returns groups of near-duplicates, the largest group first.

        Pairs with at least the similarity `threshold` connect the images of a group.

        Args:
            threshold: Float. Minimum similarity of a pair. Defaults to `0.95`.

        Returns:
            A list of `DuplicateGroup` objects, each with a representative.
        """
        return labeling.duplicate_groups(self._current(), threshold)

    def label(
        self,
        images: Any,
        k: int = 5,
        threshold: float | None = None,
        boxes: Any = None,
        *,
        classes: Sequence[str] | None = None,
    ) -> list[Labeled]:
        """Labels images by a vote of their nearest neighbors, or by class names.

        Args:
            images: Folder, or images in the forms that `add` accepts.
            k: Integer. Number of neighbors that vote. Not used with `classes`. Defaults to `5`.
            threshold: Float or `None`. Minimum similarity to the nearest neighbor with the winning label, or to the
                text of the class. Below it, an image gets no label. If `None`, the threshold that
                `python -m tfdml.threshold` has fitted for the model, if there is one. Defaults to `None`.
            boxes: `[N, 4]` boxes of objects in the images, as in `search`. Defaults to `None`.
            classes: Names of classes, if the model has a text tower. An image gets the name with the most similar text,
                so the index needs no labels. Defaults to `None`.

        Returns:
            A list with one `Labeled` object per image, or per box.
        """
        self._check_boxes(boxes, images)
        if reads_files(self._embedder, images):
            files = self._listed(images, boxes)
            images = files.paths if files.contents is None else list(files.contents)
        searcher = self._current()
        kind = "image" if classes is None else "text"
        least = threshold_for(searcher, queries=kind) if threshold is None else Threshold(threshold)
        if classes is not None:
            return labeling.label_by_texts(searcher, images, classes, least)
        return labeling.label_images(searcher, images, k, least)

    def save(self, folder: FilePath) -> None:
        """Copies the index, and its model if it is an exported one, to a new folder.

        `open` and all commands accept this folder. To search for images in the index of a Keras model or a function,
        pass that model to `open`.

        Args:
            folder: Folder to create.

        Raises:
            ValueError: If the folder exists, or the index is in a vector database.
        """
        if not isinstance(self._store, FolderStore):
            raise ValueError(f"{self._store} is not a folder, so save() cannot copy it.")
        self._store.save(folder, None if self._model is None else self._model.path)

    def __len__(self) -> int:
        return 0 if self._store.description() is None else len(self._current())

    def close(self) -> None:
        """Removes the temporary folder if there is one. Ends connections."""
        if self._opened is not None:
            self._opened.close()
        self._opened = self._searcher = None
        if self._own is not None:
            self._own.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _store(self):
        if self._opened is None:
            raise ValueError(
                "The index is closed, and its temporary folder, if it had one, is removed. Use the index before "
                "close() or inside its `with` block, or save it and open it again: tfdml.Index.open(folder)."
            )
        return self._opened

    def _current(self):
        """Returns a searcher for the current state of the index."""
        if self._searcher is None:
            self._store.existing()
            self._searcher = Searcher(self._store, self._model)
        else:
            self._searcher = self._searcher.reopened()
            self._opened = self._searcher.store
        return self._searcher

    @property
    def _embedder(self):
        if self._model is None and self._own is not None:
            raise ValueError(
                "The index has no model, so it only accepts vectors. Create it with tfdml.Index(model), or pass "
                "vectors=..."
            )
        return self._model or self._current().model

    def _check_boxes(self, boxes, images):
        if boxes is not None and (images is None or not reads_files(self._embedder, images)):
            raise ValueError("boxes need a model that reads image files. Crop the images yourself instead.")

    def _listed(self, images, boxes=None):
        files = ImageList.of_images(images, boxes)
        if not len(files):
            raise ValueError("images is empty. Expected at least one image.")
        return files
