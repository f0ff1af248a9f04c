"""All images in a row."""

from tfdml.evaluation.indexes.approximate_index import ApproximateIndex
from tfdml.neighbors.nearest import load_faiss
from tfdml.registry import register


@register("index", "flat")
class Flat(ApproximateIndex):
    """Compares each query with all images, and finds the nearest: faiss' flat index. Nothing is approximate."""

    def of_size(self, count):
        return self

    def create(self, dim, metric, sample):
        return load_faiss().IndexFlat(dim, metric)
