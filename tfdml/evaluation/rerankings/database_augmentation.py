"""Database-side augmentation."""

from tfdml.evaluation.rerankings.embedding_reranking import EmbeddingReranking
from tfdml.evaluation.rerankings.mixed import mixed
from tfdml.neighbors.nearest import nearest_others
from tfdml.registry import register
from tfdml.registry.arguments import Count, NotNegative


@register("reranking", "database_augmentation")
class DatabaseAugmentation(EmbeddingReranking):
    """Searches, instead of each gallery image, the sum of it and its K nearest in the gallery.

    The idea of "Three Things Everyone Should Know to Improve Object Retrieval" (CVPR 2012), on embeddings: the plain
    sum, or one weighted as by `query_expansion`. Labels are not used. Queries are searched for as they are.

    Args:
        k: number of neighbors; an image is no neighbor of itself.
        alpha: how much less a neighbor counts that is less similar; 0: each counts the same.
    """

    k: Count = 10
    alpha: NotNegative = 0.0

    def sides(self, points, task):
        neighbors = nearest_others(points, task.gallery, task.gallery, self.k)
        return points, mixed(points, task.gallery, neighbors, self.alpha)
