"""`Index`: images that are found by similarity, in Python."""

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
    """Finds the images that are most similar to others. It is what `python -m tfdml.index` makes.

    It lies in a temporary folder until `save`, and ends with `close` or the context; one that `open` opens, or with a
    `store`, is changed where it is.

    Args:
        model: what embeds images: an exported model or its folder, a run, a `.keras` file or what `tfdml.load` makes of
            them, which take files and pixels; a Keras model or a function, which get the images as they are, a model
            with preprocessing also files; or None, for vectors alone.
        store: where it lies, instead: a folder, or an address such as `postgresql://user@host/db?table=photos` or
            `qdrant://host:6333/photos`; a new one, or one of the same model.
        kind: `flat`, `ivf`, `hnsw` or `pq`, see `python -m tfdml.index --helpshort`; None: `flat`, or what is there.
        metric: `cosine` or `euclidean`; None: what the model's card says, otherwise `cosine`.

    Example: `tfdml.Index("exported/1").add(["car.jpg", "cup.jpg"])`.
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
        """Opens an index, also one that `python -m tfdml.index` has made; it is changed where it is.

        Args:
            address: its folder, or its address, see `store`. A SavedModel is a program: open indexes of people that you
                trust.
            model: the model that it was made with; None: the copy in the folder. Indexes of Keras models and functions
                and those in engines have none.
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
    ) -> np.ndarray:
        """Adds images; one whose path the index has takes the place of the earlier one.

        Each call writes the index to its folder, or is a transaction: add many images at once.

        Args:
            images: N images: a folder, paths, contents of files, or arrays of pixels; of a Keras model or a function
                what that takes. A model of tfdml with `preprocessing` reads files, and prepares them.
            labels: N texts or numbers, None where an image has no label; None: none, of a folder its folders' names.
            attributes: name to N texts, numbers, booleans or times, None where one is missing, for filters.
            paths: N texts; None: those of the images, if they are paths, otherwise `#` and the id.
            ids: N integers that no image has; None: the next ones.
            vectors: `[N, D]`, instead of images: their embeddings.

        Returns:
            `[N]`: the ids of the images, -1 for one that cannot be read and is left out.
        """
        if (images is None) == (vectors is None):
            raise ValueError("Expected images or vectors to add, one of them.")
        files = None
        if images is None:
            vectors = checked_vectors(vectors)
        elif reads_files(self._embedder, images):
            files = self._listed(images)
        else:
            vectors, _ = self._embedder.embed_readable(images)
        count = len(vectors if files is None else files)
        new, table = new_rows(count, files, labels=labels, attributes=attributes, paths=paths, ids=ids)
        if new is not None:
            self._store.check_free(self._store.find(ids=new.tolist()))
        kept, bad = range(count), {}
        if files is not None:
            kept, vectors, bad = embed_rows(files, kept, self._embedder)
        if bad:
            path, reason = next(iter(bad.items()))
            message = f"{len(bad):,} of {count:,} images cannot be read, first {path}: {reason}"
            if not kept:
                raise ValueError(message)
            warnings.warn(f"{message}. They are left out.", stacklevel=2)
        if self._keeps and isinstance(self._store, FolderStore) and self._model is not None:
            self._store.keep_model(self._model.path)
        kept = np.array(kept, np.int64)
        found = np.full(count, -1, np.int64)
        # Of images in memory nobody could repair the files.
        bad = {} if files is None or files.contents is not None else bad
        found[kept] = self._store.add(None if new is None else new[kept], vectors, table.take(kept), bad)
        self._store.build()
        return found

    def search(
        self, images: Any = None, k: int = 10, where: str | None = None, *, vectors: Embeddings | None = None
    ) -> Found:
        """Returns for each query a list of the k nearest `Neighbor`s, the nearest first.

        Args:
            images: an image or several, as of `add`.
            k: number of neighbors; all if there are fewer.
            where: filter of the images that are found, such as `label in ('mug', 'cup') and price < 20`; None: all. It
                names columns of the attributes, `label`, `path` and `id`; it is parsed, and nothing is run as code.
            vectors: `[Q, D]`, instead of images: their embeddings.

        Returns:
            A list of lists, which also says among how many images was searched, and whether it compared all of them.
        """
        if (images is None) == (vectors is None):
            raise ValueError("Expected images or vectors to search for, one of them.")
        if images is not None:
            return self._current().search(images, k, where)
        return self._current().search_vectors(checked_vectors(vectors), k, where)

    def delete(self, ids: int | Iterable[int], *, compact: bool = False) -> None:
        """Deletes images; an error, and nothing is deleted, if one of the ids is not there.

        They are found no more at once. Their rows stay in the files until a fifth of all are deleted.

        Args:
            ids: what `add` returned, or the `id` of a `Neighbor`.
            compact: whether they are erased from the files at once, which builds the index anew.
        """
        several = list(ids) if isinstance(ids, Iterable) else [ids]
        self._store.delete(set(new_ids(several).tolist()) if several else set(), compact)

    def compact(self) -> None:
        """Erases images that are deleted from the files; engines have done so at once."""
        if isinstance(self._store, FolderStore):
            self._store.compact()

    def duplicates(self, threshold: float = 0.95) -> list[tuple[Neighbor, Neighbor]]:
        """Returns the pairs of images with at least this similarity, the most similar first."""
        return labeling.duplicates(self._current(), threshold)

    def duplicate_groups(self, threshold: float = 0.95) -> list[DuplicateGroup]:
        """Returns groups of images that such pairs connect, the largest first, each with a representative."""
        return labeling.duplicate_groups(self._current(), threshold)

    def label(self, images: Any, k: int = 5, threshold: float | None = None) -> list[Labeled]:
        """Labels images by the vote of their nearest neighbors.

        Args:
            images: a folder, or images as of `add`.
            k: number of neighbors that vote.
            threshold: smallest similarity, of the nearest neighbor with the label that wins, at which an image gets it;
                None: the one that `python -m tfdml.threshold` has fitted for the model, if it has.
        """
        if reads_files(self._embedder, images):
            files = self._listed(images)
            images = files.paths if files.contents is None else list(files.contents)
        searcher = self._current()
        least = threshold_for(searcher) if threshold is None else Threshold(threshold)
        return labeling.label_images(searcher, images, k, least)

    def save(self, folder: FilePath) -> None:
        """Copies the index, and its model if it is an exported one, to a new folder.

        `open` and all commands take it; searching for images in the index of a Keras model or a function takes the
        model.
        """
        if not isinstance(self._store, FolderStore):
            raise ValueError(f"{self._store} is no folder that can be copied.")
        self._store.save(folder, None if self._model is None else self._model.path)

    def __len__(self) -> int:
        return 0 if self._store.description() is None else len(self._current())

    def close(self) -> None:
        """Removes the temporary folder of an index that has one, and ends connections."""
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
                "The index is closed, and one in a temporary folder is removed. Use it before close() or inside its "
                "`with` block, or save it and open it again: tfdml.Index.open(folder)."
            )
        return self._opened

    def _current(self):
        """Returns a searcher of what the index is now."""
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
            raise ValueError("The index has no model, and takes vectors: give tfdml.Index(model), or vectors=...")
        return self._model or self._current().model

    def _listed(self, images):
        files = ImageList.of_images(images)
        if not len(files):
            raise ValueError("Expected images, received none.")
        return files
