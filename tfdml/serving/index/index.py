"""`Index`: images that are found by similarity, in Python."""

import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from pipelines.preprocessor import Preprocessor
from tfdml.registry.arguments import Distance, Embeddings, FilePath
from tfdml.run.loading import ImageEmbedder, is_loadable, load
from tfdml.serving.embedders import VECTORS, ArrayEmbedder, checked_vectors
from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import ExportedModel, model_hash
from tfdml.serving.index import labeling
from tfdml.serving.index import labeling as labeling_module
from tfdml.serving.index.folder import index_of_kind
from tfdml.serving.index.labeling import DuplicateGroup, Labeled
from tfdml.serving.index.rows import RowsGiven, image_list, new_ids
from tfdml.serving.index.searcher import Found, Neighbor
from tfdml.serving.index.stores.store import is_engine, open_store
from tfdml.serving.saved_model import export


def model_of(model, folder=None):
    """Returns the `ExportedModel` or the `ArrayEmbedder` of a model; None for None.

    Args:
        model: an exported model or its folder, a run or a `.keras` file or what `tfdml.load` makes of them, a Keras
            model, or a function from images to embeddings.
        folder: where a model that is not exported yet is exported to; None: such a model is an error.
    """
    if model is None or isinstance(model, ExportedModel | ArrayEmbedder):
        return model
    if isinstance(model, str | os.PathLike):
        if not is_loadable(model):
            return ExportedModel(model)
        model = load(model)
    if isinstance(model, ImageEmbedder):
        if folder is None:
            raise ValueError("An index of such a model has it with it: open it without a model.")
        export(model.model, Preprocessor.of(model.preprocessing), folder, tolerant=True)
        return ExportedModel(folder)
    if isinstance(model, keras.Model) or callable(model):
        return ArrayEmbedder(model)
    raise ValueError(
        "Expected an exported model, what tfdml.load returns, a Keras model or a function from images to embeddings, "
        f"received {type(model).__name__}."
    )


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
        self._model = model_of(model, Path(self._own.name) / "exported")
        metric = metric or (self._model.metric if isinstance(self._model, ExportedModel) else "cosine")
        address = Path(self._own.name) / "index" if store is None else store
        self._opened = open_store(address, model=_digest(self._model), kind=kind, metric=metric)
        self._store.check()
        self._store.embedder, self._keeps = self._model, store is not None

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
        found._own, found._model, found._keeps = None, model_of(model), False
        found._opened = open_store(address, model=_digest(found._model) if is_engine(address) and model else None)
        found._store.check_there()
        found._store.embedder = found._model
        found._store.searcher()
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
        elif self._takes_files(images):
            files = image_list(images)
        else:
            vectors = self._embedder(images)
        count = len(vectors if files is None else files)
        about = RowsGiven.of(count, files, labels=labels, attributes=attributes, paths=paths, ids=ids)
        self._check_new(about.ids)
        if files is None:
            return self._added(about, range(count), vectors, {})
        if isinstance(self._embedder, ArrayEmbedder):
            kept, vectors, bad = self._embedder.embed_files(files)
        else:
            kept, vectors, bad = embed_rows(files, range(count), self._embedder)
        if bad:
            path, reason = next(iter(bad.items()))
            told = f"{len(bad):,} of {count:,} images cannot be read, first {path}: {reason}"
            if not kept:
                raise ValueError(told)
            warnings.warn(f"{told}. They are left out.", stacklevel=2)
        found = np.full(count, -1, np.int64)
        found[kept] = self._added(about, kept, vectors, bad if files.contents is None else {})
        return found

    def _check_new(self, ids):
        there = {} if ids is None else self._store.paths_of(ids.tolist())
        if there:
            raise ValueError(f"The index has an image {min(there)} already; delete it first, or leave ids out.")

    def _added(self, about, kept, vectors, bad):
        if self._keeps:
            self._store.keep_embedder()
        ids, table = about.chosen(kept)
        ids = self._store.add(ids, vectors, table, bad)
        self._store.build()
        return ids

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
            return self._store.searcher().search(images, k, where)
        return self._store.search(checked_vectors(vectors), k, where)

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
        """Erases images that are deleted from the files."""
        self._store.compact()

    def duplicates(self, threshold: float = 0.95) -> list[tuple[Neighbor, Neighbor]]:
        """Returns the pairs of images with at least this similarity, the most similar first."""
        return labeling_module.duplicates(self._store.searcher(), threshold)

    def duplicate_groups(self, threshold: float = 0.95) -> list[DuplicateGroup]:
        """Returns groups of images that such pairs connect, the largest first, each with a representative."""
        return labeling_module.duplicate_groups(self._store.searcher(), threshold)

    def label(self, images: Any, k: int = 5, threshold: float | None = None) -> list[Labeled]:
        """Labels images by the vote of their nearest neighbors.

        Args:
            images: a folder, or images as of `add`.
            k: number of neighbors that vote.
            threshold: smallest similarity, of the nearest neighbor with the label that wins, at which an image gets it;
                None: the one that `python -m tfdml.threshold` has fitted for the model, if it has.
        """
        if self._takes_files(images):
            files = image_list(images)
            images = files.paths if files.contents is None else files.contents
        return labeling.label_images(self._store.searcher(), images, k, threshold)

    def save(self, folder: FilePath) -> None:
        """Copies the index, and its model if it is an exported one, to a new folder.

        `open` and all commands take it; searching for images in the index of a Keras model or a function takes the
        model.
        """
        self._store.save(folder)

    def __len__(self) -> int:
        return self._store.count()

    def close(self) -> None:
        """Removes the temporary folder of an index that has one, and ends connections."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None
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

    def _takes_files(self, images):
        """Whether images are files, for the embedder of this index, or what becomes the contents of files."""
        embedder = self._embedder
        return not isinstance(embedder, ArrayEmbedder) or embedder.reads_files(images)

    @property
    def _embedder(self):
        store = self._store
        if self._model is None and self._own is not None:
            raise ValueError("The index has no model, and takes vectors: give tfdml.Index(model), or vectors=...")
        return self._model or store.searcher().model


def _digest(model):
    """Returns the hash of a model, or what takes its place."""
    if model is None:
        return VECTORS
    return model_hash(model.path) if isinstance(model, ExportedModel) else model.digest
