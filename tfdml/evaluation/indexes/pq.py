"""An inverted file of compressed vectors."""

import math
from typing import Annotated

from tfdml.evaluation.indexes.approximate_index import ApproximateIndex
from tfdml.evaluation.indexes.ivf import FEWEST, IVF, SAMPLE
from tfdml.neighbors.nearest import load_faiss
from tfdml.registry import register
from tfdml.registry.arguments import Count, integer

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
