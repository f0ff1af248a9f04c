"""Searchers, which find the images of an index that are similar to others."""

import copy
import dataclasses
import math
import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.reading.sources import Images, listed
from tfdml.neighbors.nearest import load_faiss
from tfdml.registry.arguments import Embeddings, FilePath
from tfdml.serving.embedders import ArrayEmbedder, contents_of, is_of_arrays
from tfdml.serving.exported_model import ExportedModel, saved_model_folder
from tfdml.serving.index.folder import IndexFolder, compared_vectors
from tfdml.serving.index.rows import IndexRows

# Where no more than this fraction of the rows is selected, or no more rows than these, all of them are compared: an
# approximate index would look at many others to find a few.
FEW, ROWS = 0.05, 2000


@dataclasses.dataclass(frozen=True)
class Selection:
    """Rows that may be found.

    Args:
        mask: `[N]` booleans; None: all rows.
        count: how many they are.
        total: how many rows the index has.
    """

    mask: np.ndarray | None
    count: int
    total: int

    @classmethod
    def of(cls, mask: np.ndarray) -> Self:
        """Returns the selection of a mask `[N]`."""
        count = int(np.count_nonzero(mask))
        return cls(None if count == len(mask) else mask, count, len(mask))

    @property
    def is_few(self) -> bool:
        """Whether a query is compared with all of them."""
        return self.mask is not None and self.count <= max(FEW * self.total, ROWS)

    def is_exact(self, index: Any) -> bool:
        """Whether a search finds the nearest of them for sure.

        Args:
            index: index of faiss.
        """
        faiss = load_faiss()
        is_compressed = isinstance(index, faiss.IndexIVFPQ)
        return isinstance(index, faiss.IndexFlat) or self.is_few and not is_compressed

    def search(self, index: Any, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns similarities or distances `[Q, k]`, and rows `[Q, k]`, -1 where none was found; k may become less.

        Args:
            index: index of faiss.
            vectors: `[Q, D]` float32.
            k: number of rows.
        """
        k = min(k, self.count)
        if not k:
            return np.zeros((len(vectors), 0), np.float32), np.zeros((len(vectors), 0), np.int64)
        if self.mask is None:
            return index.search(vectors, k)
        faiss = load_faiss()
        bits = np.packbits(self.mask, bitorder="little")
        selector = faiss.IDSelectorBitmap(bits)
        if isinstance(index, faiss.IndexHNSW):
            if self.is_few:
                storage = faiss.downcast_index(index.storage)
                return storage.search(vectors, k, params=faiss.SearchParameters(sel=selector))
            candidates = self._more(max(index.hnsw.efSearch, k), self.total)
            return index.search(vectors, k, params=faiss.SearchParametersHNSW(sel=selector, efSearch=candidates))
        if isinstance(index, faiss.IndexIVF):
            probes = index.nlist if self.is_few else self._more(index.nprobe, index.nlist)
            return index.search(vectors, k, params=faiss.SearchParametersIVF(sel=selector, nprobe=probes))
        return index.search(vectors, k, params=faiss.SearchParameters(sel=selector))

    def _more(self, number, most):
        """Returns a number that is larger by as much as there are fewer rows: so many of these are seen as of all."""
        return min(most, math.ceil(number * self.total / self.count))


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


class Found(list[list[Neighbor]]):
    """For each query a list of `Neighbor`s, the nearest first.

    Args:
        lists: the lists.
        matching: number of images among which was searched, those that a filter takes; or a function that counts them
            when they are asked for.
        exact: whether these are the nearest for sure. An approximate index compares a query with all images that a
            filter takes where these are few.
    """

    def __init__(self, lists: Iterable[list[Neighbor]], matching: int | Callable[[], int], exact: bool):
        super().__init__(lists)
        self._matching, self.exact = matching, exact

    @property
    def matching(self) -> int:
        """Number of images among which was searched."""
        if not isinstance(self._matching, int):
            self._matching = self._matching()
        return self._matching


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


# Smallest similarity of a copy of the query: a distance of 0.001.
COPIES = {"cosine": 1 - 1e-3**2 / 2, "euclidean": -1e-3}


def kept(similarities, metric="cosine"):
    """Returns how many neighbors come before the largest fall of similarity from one to the next.

    Copies of the query are kept, and the fall after them does not count: it would hide that to the end of its class.

    Args:
        similarities: `[K + 1]`, descending: those of K neighbors and of the next one; without it if there are no more.
        metric: of the similarities, `cosine` or `euclidean`.
    """
    similarities = np.asarray(similarities, float)
    copies = int(np.sum(similarities >= COPIES[metric]))
    falls = -np.diff(similarities[copies:])
    # Of equal falls the first.
    return copies + 1 + int(np.argmax(falls)) if len(falls) else len(similarities)


def adaptive_search(searcher, queries, k, where=None):
    """Returns what `searcher.search` finds, with each list cut where the similarities fall most.

    Args:
        searcher: `Searcher`.
        queries, k, where: as `Searcher.search` takes them.
    """
    found, metric = searcher.search(queries, k + 1, where), searcher.manifest["metric"]
    lists = [each[: min(k, kept([neighbor.similarity for neighbor in each], metric))] for each in found]
    return Found(lists, found.matching, found.exact)
