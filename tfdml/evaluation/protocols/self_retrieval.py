"""Every image is searched among all others."""

from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.search import RetrievalTask
from tfdml.registry import register
from tfdml.registry.arguments import Distance, Text

METRICS = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r", "nmi", "f1")


@register("protocol", "self_retrieval")
class SelfRetrieval(Protocol):
    """Searches every image among all others (CUB, Cars, SOP).

    Args:
        metrics: metric specs, such as ("recall_at_1", "map_at_r").
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
        reranking: a spec such as "query_expansion(k=5)", for metrics of ranks; None ranks by similarity.
        index: "exact", or for galleries in the millions a spec such as "ivf" or "hnsw(ef_search=200)".
    """

    def __init__(
        self,
        metrics: MetricSpecs = METRICS,
        distance: Distance = "cosine",
        reranking: Text | None = None,
        index: Text = "exact",
    ):
        super().__init__(metrics, distance, reranking, index)

    def tasks(self, rows):
        return [RetrievalTask.of(rows.labels)]
