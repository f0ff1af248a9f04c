"""`Selection`: the rows of an index among which is searched."""

import dataclasses
import math
from typing import Any, Self

import numpy as np

from tfdml.neighbors.nearest import load_faiss

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
