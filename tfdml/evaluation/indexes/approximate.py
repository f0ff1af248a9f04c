"""The indexes of faiss that evaluation takes: flat, IVF, HNSW and PQ."""

import math
from collections.abc import Callable
from typing import Annotated, Any, Self

import numpy as np

from tfdml.evaluation.indexes.index import Index, IndexSearch
from tfdml.evaluation.metrics import RankMetric
from tfdml.neighbors.nearest import load_faiss
from tfdml.registry import register
from tfdml.registry.arguments import Count, integer


class ApproximateIndex(Index):
    """Searches the gallery by an index of faiss."""

    is_approximate = True

    def check(self, metrics):
        deep = [each.name for each in metrics if isinstance(each, RankMetric) and np.isinf(each.depth(1))]
        if deep:
            raise ValueError(
                f"The metric {', '.join(deep)} needs the ranks of all positives, and index={str(self)!r} finds only "
                "the nearest images. Choose other metrics, such as recall_at_1, precision_at_10, r_precision or "
                "map_at_r, or index='exact'."
            )

    def searched(self, embeddings, task, metrics, distance):
        self.check(metrics)
        return IndexSearch(self, embeddings, task, metrics, distance)

    def of_size(self, count: int) -> Self:
        """Returns the index for a gallery of that many images: with a number for each argument that is None."""
        del count
        return self

    def create(self, dim: int, metric: int, sample: Callable[[int], np.ndarray]) -> Any:
        """Returns an index of faiss that is ready for vectors.

        Args:
            dim: their dimension.
            metric: `faiss.METRIC_INNER_PRODUCT` or `faiss.METRIC_L2`.
            sample: function from a number to at most that many random vectors of the gallery.
        """
        raise NotImplementedError


@register("index", "exact")
class Exact(Index):
    """Compares each query with the whole gallery. Every metric can be computed."""


@register("index", "flat")
class Flat(ApproximateIndex):
    """Compares each query with all images, and finds the nearest: faiss' flat index. Nothing is approximate."""

    def create(self, dim, metric, sample):
        return load_faiss().IndexFlat(dim, metric)


@register("index", "hnsw")
class HNSW(ApproximateIndex):
    """Walks from image to image along a graph of neighbors: faiss' HNSW.

    From "Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical Navigable Small World Graphs"
    (PAMI 2020). It is built by several threads at once, so its results can differ slightly from one time to the next.

    Args:
        m: number of neighbors of an image in the graph; twice as many in its lowest layer.
        ef_construction: number of candidates when an image is added.
        ef_search: number of candidates in a search. More find more of the nearest images and take longer.
    """

    m: Annotated[int, integer(2)] = 32
    ef_construction: Count = 100
    ef_search: Count = 100

    def create(self, dim, metric, sample):
        index = load_faiss().IndexHNSWFlat(dim, self.m, metric)
        index.hnsw.efConstruction, index.hnsw.efSearch = self.ef_construction, self.ef_search
        return index


# Images in the sample that K-means divides into lists, for each list; faiss warns below 39.
SAMPLE = 64
FEWEST = 39


@register("index", "ivf")
class IVF(ApproximateIndex):
    """Searches only the lists whose centers are nearest to the query: faiss' inverted file.

    K-means on a sample of the gallery divides it into lists. More probes find more of the nearest images and take
    longer; as many probes as lists find all.

    Args:
        lists: number of lists; None: 4 times the square root of the number of images, but not more than one for 39.
        probes: number of lists that are searched; all if there are fewer.
    """

    lists: Count | None = None
    probes: Count = 64

    def of_size(self, count):
        lists = self.lists or max(1, min(round(4 * math.sqrt(count)), count // FEWEST))
        if lists > count:
            raise ValueError(
                f"ivf(lists={lists}) needs as many images in the gallery; it has {count}. Leave lists out, or use "
                "index='exact', which is fast for so few."
            )
        return IVF(lists, min(self.probes, lists))

    def create(self, dim, metric, sample):
        faiss = load_faiss()
        flat = faiss.IndexFlatL2(dim) if metric == faiss.METRIC_L2 else faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFFlat(flat, dim, self.lists, metric)
        # By default faiss warns of small samples.
        index.cp.min_points_per_centroid = 1
        index.train(sample(SAMPLE * self.lists))
        index.nprobe = self.probes
        return index


# Dimensions that one byte stands for.
DIMENSIONS = 4


@register("index", "pq")
class PQ(ApproximateIndex):
    """Compresses vectors, in the lists of an inverted file: faiss' IVFPQ. Similarities are approximate.

    From "Product Quantization for Nearest Neighbor Search" (PAMI 2011): K-means divides the values of each part of a
    vector, and the number of the nearest center takes the place of the part. With 4 dimensions a byte, vectors take a
    sixteenth of the memory.

    Args:
        subvectors: number of parts of a vector, a divisor of its dimension; None: a quarter of the dimension, or the
            next smaller divisor.
        bits: bits for each part, so that it has 2**bits centers; None: 8, but not more centers than one for 39 images.
        lists, probes: as of `ivf`.
    """

    subvectors: Count | None = None
    bits: Annotated[int, integer(1, at_most=8)] | None = None
    lists: Count | None = None
    probes: Count = 64

    def of_size(self, count):
        ivf = IVF(self.lists, self.probes).of_size(count)
        bits = self.bits or max(1, min(8, int(math.log2(max(count // FEWEST, 2)))))
        if 2**bits > count:
            raise ValueError(
                f"pq(bits={bits}) needs {2**bits} images in the gallery; it has {count}. Leave bits out, or use "
                "index='flat', which is fast for so few."
            )
        return PQ(self.subvectors, bits, ivf.lists, ivf.probes)

    def create(self, dim, metric, sample):
        faiss = load_faiss()
        parts = self.subvectors or next(size for size in range(max(1, dim // DIMENSIONS), 0, -1) if dim % size == 0)
        if dim % parts:
            raise ValueError(f"pq(subvectors={parts}) must divide the dimension of the embedding, which is {dim}.")
        index = faiss.IndexIVFPQ(faiss.IndexFlat(dim, metric), dim, self.lists, parts, self.bits, metric)
        # By default faiss warns of small samples.
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        index.train(sample(SAMPLE * max(self.lists, 2**self.bits)))
        index.nprobe = self.probes
        return index
