"""Query expansion."""

from tfdml.evaluation.rerankings.embedding_reranking import EmbeddingReranking
from tfdml.evaluation.rerankings.mixed import mixed
from tfdml.neighbors.nearest import nearest_others
from tfdml.registry import register
from tfdml.registry.arguments import Count, NotNegative


@register("reranking", "query_expansion")
class QueryExpansion(EmbeddingReranking):
    """Searches for the sum of a query and its K nearest in the gallery, weighted by similarity to the power of alpha.

    Alpha-weighted query expansion, from "Fine-Tuning CNN Image Retrieval with No Human Annotation" (PAMI 2019). At
    alpha = 0 it is average query expansion. Negative similarities count as 0.

    Args:
        k: number of neighbors; a query is no neighbor of itself.
        alpha: how much less a neighbor counts that is less similar.
    """

    k: Count = 10
    alpha: NotNegative = 3.0

    def sides(self, points, task):
        neighbors = nearest_others(points, task.queries, task.gallery, self.k)
        return mixed(points, task.queries, neighbors, self.alpha), points
