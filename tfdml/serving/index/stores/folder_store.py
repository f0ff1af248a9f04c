"""Default store: rows in a folder, which faiss searches in the memory of this process."""

import copy
import dataclasses
import math
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipelines.boxes import parted, tile_boxes
from tfdml.files.checked import LOCK, locked, naming
from tfdml.neighbors.nearest import compared_vectors, load_faiss
from tfdml.registry import register
from tfdml.registry.arguments import Distance, Embeddings, FilePath
from tfdml.serving.index import build
from tfdml.serving.index.folder import IndexFolder
from tfdml.serving.index.rows import IndexRows
from tfdml.serving.index.stores.store import Description, Found, Neighbor, Store, similarity_of

# If at most this fraction of the rows, or at most this number of rows, is selected, all of them are compared, because
# an approximate index would visit many other rows to find a few.
FEW, ROWS = 0.05, 2000


@dataclasses.dataclass(frozen=True)
class Selection:
    """Rows that may be found: a mask `[N]`, or `None` for all rows, their number, and the size of the index."""

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
        """Whether a query is compared with all selected rows."""
        return self.mask is not None and self.count <= max(FEW * self.total, ROWS)

    def is_exact(self, index: Any, k: int) -> bool:
        """Returns whether a search of a faiss index for `k` rows certainly finds the nearest of the selected rows."""
        faiss = load_faiss()
        if isinstance(index, faiss.IndexRefine):
            is_every = self.is_few or k * index.k_factor >= self.count
            return is_every and isinstance(faiss.downcast_index(index.refine_index), faiss.IndexFlat)
        approximate = faiss.IndexIVFPQ, faiss.IndexScalarQuantizer, faiss.IndexPreTransform
        return isinstance(index, faiss.IndexFlat) or self.is_few and not isinstance(index, approximate)

    def search(self, index: Any, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Searches a faiss index for the `k` nearest selected rows, or for fewer if fewer are selected.

        Args:
            index: faiss index.
            vectors: `[Q, D]` queries.
            k: Integer. Number of rows.

        Returns:
            A tuple of similarities or distances, and of rows, both `[Q, k]`. A row of -1 means that none was found.
        """
        k = min(k, self.count)
        if not k:
            return np.zeros((len(vectors), 0), np.float32), np.zeros((len(vectors), 0), np.int64)
        faiss = load_faiss()
        if isinstance(index, faiss.IndexRefine):
            if self.is_few:
                return self.search(faiss.downcast_index(index.refine_index), vectors, k)
            base, factor = faiss.downcast_index(index.base_index), min(index.k_factor, math.ceil(self.count / k))
            refined = faiss.IndexRefineSearchParameters(
                k_factor=factor, base_index_params=self._parameters(base, math.ceil(k * factor))
            )
            return index.search(vectors, k, params=refined)
        if isinstance(index, faiss.IndexHNSW) and self.is_few:
            index = faiss.downcast_index(index.storage)
        if self.mask is None:
            return index.search(vectors, k)
        return index.search(vectors, k, params=self._parameters(index, k))

    def _parameters(self, index, k):
        """Returns the parameters with which a faiss index only finds selected rows, or `None` for all rows."""
        if self.mask is None:
            return None
        faiss = load_faiss()
        selector = faiss.IDSelectorBitmap(np.packbits(self.mask, bitorder="little"))
        if isinstance(index, faiss.IndexPreTransform):
            return faiss.SearchParametersPreTransform(index_params=faiss.SearchParameters(sel=selector))
        if isinstance(index, faiss.IndexHNSW):
            candidates = self._more(max(index.hnsw.efSearch, k), self.total)
            return faiss.SearchParametersHNSW(sel=selector, efSearch=candidates)
        if isinstance(index, faiss.IndexIVF):
            probes = index.nlist if self.is_few else self._more(index.nprobe, index.nlist)
            return faiss.SearchParametersIVF(sel=selector, nprobe=probes)
        return faiss.SearchParameters(sel=selector)

    def _more(self, number, most):
        """Scales a number of visited rows up, in proportion to the rows that the selection excludes."""
        return min(most, math.ceil(number * self.total / self.count))


def one_per_photo(neighbors: list[Neighbor]) -> list[Neighbor]:
    """Returns the nearest `Neighbor` of each photo, in the same order."""
    best = {}
    for each in neighbors:
        best.setdefault(each.file, each)
    return list(best.values())


@register("store", "folder")
class FolderStore(Store):
    """Store in a folder, which faiss searches in the memory of this process.

    Files are read, and compared with their checksums, when they are first needed. Later changes by other processes are
    not seen; see `reopened`. After `open`, several threads may search at once.

    Args:
        address: The folder.
        model, kind, metric: See `Store`.
    """

    def __init__(self, address: str, model: str | None = None, kind: str | None = None, metric: Distance = "cosine"):
        super().__init__(address, model, kind, metric)
        self.folder = IndexFolder(address)
        # Contents of the files, and whether they must be read again because nothing was read yet or they have changed.
        self._manifest = self._index = self._rows = self._live = None
        self._is_stale = True

    def description(self) -> Description | None:
        return self._description(self.folder.manifest()) if self.folder.exists() else None

    def _description(self, manifest):
        return Description(*[manifest[name] for name in ("model", "dimension", "metric", "spec")])

    def open(self) -> None:
        """Reads the files if necessary. Raises a ValueError if no index can be opened."""
        if self._is_stale:
            manifest = self.folder.manifest()
            self.check()
            if not self._read(manifest):
                self.open()

    def _read(self, manifest):
        """Reads the files of a manifest. Returns False if another process has replaced it, which removes its files."""
        # If images were only marked as deleted, only the marks must be read.
        names, before = ("generation", "index", "images"), self._manifest or {}
        same = all(manifest[name] == before.get(name) for name in names)
        try:
            index = self._index if same else self.folder.read_index(manifest, mapped=True)
            rows = self.folder.read_rows(manifest, self._rows if same else None)
        except (OSError, ValueError):
            if self.folder.manifest() == manifest:
                raise
            return False
        self._index, self._rows, self._live = index, rows, Selection.of(rows.selected())
        self._manifest, self._is_stale = manifest, False
        return True

    def _opened(self):
        if self._is_stale:
            self.existing()
            self.open()
        return self

    @property
    def manifest(self) -> dict[str, Any]:
        """Contents of `manifest.json` when the files were read."""
        return self._opened()._manifest

    @property
    def rows(self) -> IndexRows:
        """`IndexRows` of the index, including deleted images."""
        return self._opened()._rows

    @property
    def embeddings(self) -> Path:
        """Folder of the embeddings. It no longer exists after an upgrade to another model."""
        return self.folder.embeddings_after(self.manifest.get("upgrades", 0))

    def reopened(self) -> Self:
        manifest = self.folder.manifest()
        if manifest == self._manifest:
            return self
        found = copy.copy(self)
        found.folder = IndexFolder(self.address)
        return found if found._read(manifest) else self.reopened()

    def state(self) -> Any:
        # This reads no files.
        return self.folder.state()

    def _add(self, ids, vectors, table, bad):
        model = self.model or self.folder.manifest()["model"]
        about = {"model": model, "kind": self.kind or "flat", "metric": self.metric, "bad": bad}
        ids = build.add_rows(self.folder, ids, vectors, table, **about)
        self._is_stale = True
        return ids

    def _delete(self, ids, compact):
        build.delete_ids(self.folder, ids, compact)
        self._is_stale = True

    def compact(self) -> None:
        """Erases rows that are only marked as deleted."""
        build.compact_index(self.folder.path)
        self._is_stale = True

    def search(self, vectors: Embeddings, k: int = 10, where: str | None = None, hidden: Collection[str] = ()) -> Found:
        selection, tiles = self._selection(where, hidden), self.manifest.get("tiles")
        # A photo has at most that many tiles, so they are of at least k photos.
        searched = k * len(tile_boxes(tiles)) if tiles else k
        similarities, rows = self.nearest(vectors, searched, selection)
        lists = [
            [self.image(row, similarity) for similarity, row in zip(*each, strict=True) if row >= 0]
            for each in zip(similarities.tolist(), rows.tolist(), strict=True)
        ]
        if tiles:
            lists = [one_per_photo(each)[:k] for each in lists]
        return Found(lists, selection.count, selection.is_exact(self._index, searched))

    def nearest(self, vectors: Embeddings, k: int, selection: Selection | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns similarities, in descending order, and rows of the index, both `[Q, k]`. Missing rows are -1.

        If `selection` is `None`, all rows that are not deleted may be found.
        """
        metric = self.manifest["metric"]
        vectors = compared_vectors(vectors, metric)
        self._description(self.manifest).check_vectors(vectors, k)
        found, rows = (selection or self._live).search(self._index, vectors, k)
        # Rounding can make squared distances negative.
        scores = np.sqrt(np.maximum(found, 0)) if metric == "euclidean" else found
        return similarity_of(scores, metric), rows

    def image(self, row: int, similarity: float) -> Neighbor:
        """Returns the `Neighbor` for a row of the index."""
        rows = self.rows
        return Neighbor(int(rows.ids[row]), self.folder.file_of(rows.paths[row]), rows.labels[row], similarity)

    def count(self, where: str | None = None) -> int:
        return self._selection(where).count if not self._is_stale or self.folder.exists() else 0

    def _selection(self, where, hidden=()):
        rows = self.rows
        return self._live if where is None else Selection.of(rows.selected(where, hidden))

    def columns(self) -> Mapping[str, str]:
        return self.rows.kinds

    def find(self, ids: Iterable[int] = (), paths: Iterable[str] = ()) -> dict[int, str]:
        if not self.folder.exists():
            return {}
        # Rows are added after this check, so it must see changes by other processes.
        self._is_stale |= self.folder.manifest() != self._manifest
        rows, paths = self.rows, set(paths)
        wanted = np.isin(rows.ids, list(ids))
        if paths:
            wanted |= np.array([path in paths for path in rows.paths], bool)
        return {int(rows.ids[row]): rows.paths[row] for row in np.flatnonzero(wanted & ~rows.deleted)}

    def file_of(self, id: int) -> str | None:
        rows = self.rows
        found = np.flatnonzero((rows.ids == id) & ~rows.deleted)
        if not len(found) or os.sep not in rows.paths[found[0]]:
            return None
        return parted(self.folder.file_of(rows.paths[found[0]]))[0]

    def keep_model(self, model: FilePath | None) -> None:
        """Copies an exported model into the folder if it has none, so that commands can embed images."""
        if model is not None and not self.folder.model.exists():
            self.folder.path.mkdir(parents=True, exist_ok=True)
            with locked(self.folder.path, "index"):
                build.copy_model(model, self.folder.model)

    def save(self, target: FilePath, model: FilePath | None = None) -> None:
        """Copies the index to a new folder, and an exported model if the index has no copy of it."""
        self.existing()
        # Check for damaged files before anything is copied.
        self.open()
        target = Path(target)
        if target.exists():
            raise ValueError(f"{target} already exists. Use a new folder.")
        unfinished = target.with_name(f".writing-{target.name}")
        shutil.rmtree(unfinished, ignore_errors=True)
        with naming(target), locked(self.folder.path, "index"):
            shutil.copytree(self.folder.path, unfinished, ignore=shutil.ignore_patterns(LOCK))
            if model is not None and not (unfinished / self.folder.model.name).exists():
                build.copy_model(model, unfinished / self.folder.model.name)
            (unfinished / LOCK).touch()
            unfinished.rename(target)
