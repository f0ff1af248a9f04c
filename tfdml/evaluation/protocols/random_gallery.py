"""Images are searched in random galleries of one image a class."""

import numpy as np

from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.search import RetrievalTask
from tfdml.registry import register
from tfdml.registry.arguments import Count, Distance, Seed, Text

METRICS = ("recall_at_1", "recall_at_5", "map")


@register("protocol", "random_gallery")
class RandomGallery(Protocol):
    """Searches all images in a gallery of one random image per class; the mean of several draws (VehicleID).

    Args:
        draws: number of random galleries.
        seed: determines the galleries.
        metrics: metric specs, such as ("recall_at_1", "map").
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
        reranking: a spec such as "query_expansion(k=5)", for metrics of ranks; None ranks by similarity.
        index: "exact", or for galleries in the millions a spec such as "ivf" or "hnsw(ef_search=200)".
    """

    def __init__(
        self,
        draws: Count = 10,
        seed: Seed = 0,
        metrics: MetricSpecs = METRICS,
        distance: Distance = "cosine",
        reranking: Text | None = None,
        index: Text = "exact",
    ):
        super().__init__(metrics, distance, reranking, index)
        self.draws, self.seed = draws, seed

    def tasks(self, rows):
        galleries = [one_of_each(rows.labels, np.random.default_rng([self.seed, draw])) for draw in range(self.draws)]
        return [RetrievalTask.of(rows.labels, queries=~gallery, gallery=gallery) for gallery in galleries]


def one_of_each(labels, random):
    """Returns booleans `[N]` that mark one random row of each class."""
    order = random.permutation(len(labels))
    _, first = np.unique(np.asarray(labels)[order], return_index=True)
    chosen = np.zeros(len(labels), bool)
    chosen[order[first]] = True
    return chosen
