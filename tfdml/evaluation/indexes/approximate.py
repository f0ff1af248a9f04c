"""The faiss indexes that evaluation supports: flat, IVF, HNSW, and PQ, int8 and binary with rescoring."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal, Self

import numpy as np

from tfdml.evaluation.indexes.index import Index, IndexSearch
from tfdml.evaluation.metrics import RankMetric
from tfdml.neighbors.nearest import load_faiss
from tfdml.registry import register
from tfdml.registry.arguments import Count, integer


class ApproximateIndex(Index):
    """Base class of indexes that search the gallery with faiss."""

    is_approximate = True
    #: How many times as many candidates as neighbors are compared again by stored vectors. If 0, there are none.
    rescore = 0

    def check(self, metrics):
        deep = [each.name for each in metrics if isinstance(each, RankMetric) and np.isinf(each.depth(1))]
        if deep:
            raise ValueError(
                f"The metric {', '.join(deep)} needs the ranks of all positives, but index={str(self)!r} finds only "
                "the nearest images. Choose other metrics, such as recall_at_1, precision_at_10, r_precision or "
                "map_at_r, or use index='exact'."
            )

    def searched(self, embeddings, task, metrics, distance):
        self.check(metrics)
        return IndexSearch(self, embeddings, task, metrics, distance)

    def of_size(self, count: int) -> Self:
        """Returns the index for a gallery of `count` images, with numbers instead of None as arguments."""
        del count
        return self

    def create(self, dim: int, metric: int, sample: Callable[[int], np.ndarray]) -> Any:
        """Returns a faiss index to which vectors can be added.

        Args:
            dim: Integer. Dimension of the vectors.
            metric: `faiss.METRIC_INNER_PRODUCT` or `faiss.METRIC_L2`.
            sample: Function that maps a number to at most that many random vectors of the gallery.
        """
        raise NotImplementedError


@register("index", "exact")
class Exact(Index):
    """Compares each query with the whole gallery, without faiss. Supports every metric."""


@register("index", "flat")
class Flat(ApproximateIndex):
    """Finds each query's nearest images by comparing it with all images, with faiss' exact flat index."""

    def create(self, dim, metric, sample):
        return load_faiss().IndexFlat(dim, metric)


@register("index", "hnsw")
class HNSW(ApproximateIndex):
    """Searches a graph of neighbors step by step, with faiss' HNSW index.

    From "Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical Navigable Small World Graphs"
    (PAMI 2020). Several threads build the graph at once, so results can differ slightly from run to run.

    Args:
        m: Integer. Number of neighbors of an image in the graph, twice as many in its lowest layer. Defaults to `32`.
        ef_construction: Integer. Number of candidates when an image is added. Defaults to `100`.
        ef_search: Integer. Number of candidates in a search. With more candidates, a search finds more of the nearest
            images but is slower. Defaults to `100`.
    """

    m: Annotated[int, integer(2)] = 32
    ef_construction: Count = 100
    ef_search: Count = 100

    def create(self, dim, metric, sample):
        index = load_faiss().IndexHNSWFlat(dim, self.m, metric)
        index.hnsw.efConstruction, index.hnsw.efSearch = self.ef_construction, self.ef_search
        return index


# Number of sampled images per list for K-means. faiss warns if there are fewer than 39.
SAMPLE = 64
FEWEST = 39


@register("index", "ivf")
class IVF(ApproximateIndex):
    """Searches only the clusters nearest to the query, with faiss' inverted file index.

    K-means on a sample of the gallery divides it into lists. With more probes, a search finds more of the nearest
    images but is slower. If it probes all lists, it finds all of them.

    Args:
        lists: Integer or `None`. Number of lists. If `None`, 4 times the square root of the number of images, but at
            least 39 images per list. Defaults to `None`.
        probes: Integer. Number of lists to search. If there are fewer lists, all are searched. Defaults to `64`.
    """

    lists: Count | None = None
    probes: Count = 64

    def of_size(self, count):
        lists = self.lists or max(1, min(round(4 * math.sqrt(count)), count // FEWEST))
        if lists > count:
            raise ValueError(
                f"ivf(lists={lists}) needs at least {lists} images in the gallery, which has {count}. Remove the "
                "argument lists, or use index='exact', which is fast for a small gallery."
            )
        return IVF(lists, min(self.probes, lists))

    def create(self, dim, metric, sample):
        faiss = load_faiss()
        flat = faiss.IndexFlatL2(dim) if metric == faiss.METRIC_L2 else faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFFlat(flat, dim, self.lists, metric)
        # Without this, faiss warns about small samples.
        index.cp.min_points_per_centroid = 1
        index.train(sample(SAMPLE * self.lists))
        index.nprobe = self.probes
        return index


class CompressedIndex(ApproximateIndex):
    """Base class of indexes that search compressed vectors, and can compare the best of them again.

    Args:
        rescore: Integer. For k neighbors, the `rescore * k` most similar compressed vectors are compared again by their
            stored vectors. More of them find more of the nearest images but are slower. If 0, no vectors are stored,
            and similarities are approximate. Defaults to `4`.
        stored: `"float16"` or `"float32"`. Precision of the stored vectors. They are read from the disk, and only
            those that a search compares. Defaults to `"float16"`.
    """

    _: KW_ONLY
    rescore: Annotated[int, integer(0)] = 4
    stored: Literal["float16", "float32"] = "float16"

    def compressed(self, dim: int, metric: int, sample: Callable[[int], np.ndarray]) -> Any:
        """Returns the faiss index of the compressed vectors; see `create`."""
        raise NotImplementedError

    def create(self, dim, metric, sample):
        faiss, index = load_faiss(), self.compressed(dim, metric, sample)
        if not self.rescore:
            return index
        is_half = self.stored == "float16"
        half = faiss.ScalarQuantizer.QT_fp16
        vectors = faiss.IndexScalarQuantizer(dim, half, metric) if is_half else faiss.IndexFlat(dim, metric)
        found = faiss.IndexRefine(index, vectors)
        found.k_factor = self.rescore
        return found


# Number of sampled images that determine the range of each dimension, or the mean.
RANGE = 2**14


@register("index", "int8")
class Int8(CompressedIndex):
    """Compares each query with vectors of one byte per dimension, with faiss' 8-bit scalar quantizer.

    A dimension's values are rounded to 256 steps between its smallest and largest value in a sample of the gallery, so
    vectors need 25% of the memory.

    Args:
        rescore, stored: see `CompressedIndex`.
    """

    def compressed(self, dim, metric, sample):
        faiss = load_faiss()
        index = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_8bit, metric)
        index.train(sample(RANGE))
        return index


# Bits per dimension to which queries are rounded.
QUERY_BITS = 4


@register("index", "binary")
class Binary(CompressedIndex):
    """Compares each query with vectors of one bit per dimension, with faiss' RaBitQ index.

    From "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound for Approximate Nearest Neighbor
    Search" (SIGMOD 2024). The mean of a sample of the gallery is subtracted from the vectors, they are rotated at
    random, and the sign of each dimension is kept, with 8 bytes per vector to estimate similarities. Vectors of 128
    dimensions need 5% of the memory.

    Args:
        rescore, stored: see `CompressedIndex`.
    """

    def compressed(self, dim, metric, sample):
        faiss = load_faiss()
        rotation, bits = faiss.RandomRotationMatrix(dim, dim), faiss.IndexRaBitQ(dim, metric)
        rotation.init(0)
        bits.qb = QUERY_BITS
        index = faiss.IndexPreTransform(rotation, bits)
        index.train(sample(RANGE))
        return index


# Number of dimensions per part, and so per byte.
DIMENSIONS = 4


@register("index", "pq")
class PQ(CompressedIndex):
    """Searches compressed vectors in the lists of an inverted file, with faiss' IVFPQ index.

    From "Product Quantization for Nearest Neighbor Search" (PAMI 2011): vectors are
    divided into parts, K-means clusters the values of each part, and each part is replaced by the number of its nearest
    center. With one byte per 4 dimensions, vectors need 1/16 of the memory.

    Args:
        subvectors: Integer or `None`. Number of parts of a vector, a divisor of its dimension. If `None`, 25% of the
            dimension, or the next smaller divisor. Defaults to `None`.
        bits: Integer or `None`. Bits per part, which has `2**bits` centers. If `None`, 8, but at least 39 images per
            center. Defaults to `None`.
        lists, probes: see `IVF`.
        rescore, stored: see `CompressedIndex`. `rescore` defaults to `0`.
    """

    subvectors: Count | None = None
    bits: Annotated[int, integer(1, at_most=8)] | None = None
    lists: Count | None = None
    probes: Count = 64
    _: KW_ONLY
    rescore: Annotated[int, integer(0)] = 0

    def of_size(self, count):
        ivf = IVF(self.lists, self.probes).of_size(count)
        bits = self.bits or max(1, min(8, int(math.log2(max(count // FEWEST, 2)))))
        if 2**bits > count:
            raise ValueError(
                f"pq(bits={bits}) needs at least {2**bits} images in the gallery, which has {count}. Remove the "
                "argument bits, or use index='flat', which is fast for a small gallery."
            )
        return PQ(self.subvectors, bits, ivf.lists, ivf.probes, rescore=self.rescore, stored=self.stored)

    def compressed(self, dim, metric, sample):
        faiss = load_faiss()
        parts = self.subvectors or next(size for size in range(max(1, dim // DIMENSIONS), 0, -1) if dim % size == 0)
        if dim % parts:
            raise ValueError(
                f"subvectors must divide the dimension of the embedding, which is {dim}. Received: "
                f"pq(subvectors={parts})."
            )
        index = faiss.IndexIVFPQ(faiss.IndexFlat(dim, metric), dim, self.lists, parts, self.bits, metric)
        # Without this, faiss warns about small samples.
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        index.train(sample(SAMPLE * max(self.lists, 2**self.bits)))
        index.nprobe = self.probes
        return index
