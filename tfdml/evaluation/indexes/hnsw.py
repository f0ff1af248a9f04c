"""A graph of neighbors."""

from typing import Annotated

from tfdml.evaluation.indexes.approximate_index import ApproximateIndex
from tfdml.neighbors.nearest import load_faiss
from tfdml.registry import register
from tfdml.registry.arguments import Count, integer


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

    def of_size(self, count):
        return self

    def create(self, dim, metric, sample):
        index = load_faiss().IndexHNSWFlat(dim, self.m, metric)
        index.hnsw.efConstruction, index.hnsw.efSearch = self.ef_construction, self.ef_search
        return index
