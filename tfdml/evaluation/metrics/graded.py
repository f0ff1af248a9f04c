"""Metrics of graded relevance, for multi-label images or a class hierarchy."""

import numpy as np

from tfdml.evaluation.metrics.base import EmbeddingMetric
from tfdml.evaluation.ranks.exact_vectors import TIE, ExactVectors, tie_groups
from tfdml.neighbors.nearest import nearest_others
from tfdml.registry import register
from tfdml.registry.arguments import Count, Positive

# Number of values in a block.
BLOCK = 2**22
# Images that are compared exactly in addition to the K nearest, to detect others that are equally near.
SPARE = 8
# Vectors count as L2-normalized if their squared lengths differ from 1 by less.
UNIT = 1e-5


def levels_of(labels):
    """Returns categories `[N, L]`, from coarse to fine. Labels `[N]` are a single level."""
    labels = np.asarray(labels)
    return labels[:, None] if labels.ndim == 1 else labels


def full_grade(labels):
    """Returns the grade of images that share everything: the number of levels, or 1 for multi-label images."""
    return 1 if np.asarray(labels).dtype == bool else levels_of(labels).shape[1]


def grades(labels, rows, others=None):
    """Returns what images share with others, `[B, M]`: a number of levels, or the share of their labels.

    Labels are one of: categories `[N, L]` from coarse to fine, which form a tree; integer class labels `[N]`; or
    booleans `[N, C]` for multi-label images. `others` are rows `[B, M]`, the images that each image is compared with.
    If None, it is compared with all images.
    """
    levels = levels_of(labels)
    own, found = levels[rows], levels[None, :] if others is None else levels[others]
    if levels.dtype != bool:
        return np.sum(own[:, None] == found, axis=2)
    if others is None:
        both = own.astype(np.float32) @ levels.T.astype(np.float32)
    else:
        both = np.sum(own[:, None] & found, axis=2)
    either = own.sum(axis=1)[:, None] + found.sum(axis=2) - both
    return both / np.maximum(either, 1)


def grades_in_order(embeddings, labels):
    """Yields blocks `[B, N - 1]` of what each image shares with the others, nearest first; see `grades`.

    Images are compared by Euclidean distance, which ranks L2-normalized embeddings in the same order as cosine
    similarity. Among images that are equally near, up to a tie (`ExactVectors.ties`), those that share less come first,
    so that a collapsed embedding has a low score.
    """
    yield from _in_order(_exact(embeddings), labels, np.arange(len(embeddings)))


def _exact(embeddings):
    """Returns `ExactVectors` with the ties of a search: by cosine similarity if all embeddings are L2-normalized."""
    squares = np.einsum("nd,nd->n", embeddings, embeddings, dtype=np.float64)
    return ExactVectors.of(embeddings, "cosine" if np.all(np.abs(squares - 1) < UNIT) else "euclidean")


def _in_order(vectors, labels, rows):
    """Yields the blocks of `grades_in_order` for some rows."""
    size = max(1, BLOCK // max(1, len(vectors.vectors)))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        farness = vectors.similarities(vectors.vectors[some], slice(None))
        np.negative(farness, out=farness)
        # Put the query itself last.
        farness[np.arange(len(some)), some] = np.inf
        ties = vectors.ties(vectors.offsets[some], slice(None))
        yield _sorted(farness, grades(labels, some), ties)[:, :-1]


def _sorted(farness, shared, ties):
    """Returns grades `[B, M]` ordered by farness, and in ascending order among images that tie."""
    order = np.argsort(farness, axis=1)
    farness, shared, ties = (
        np.take_along_axis(each, order, axis=1) if np.ndim(each) else each for each in (farness, shared, ties)
    )
    apart = np.ones(farness.shape, bool)
    apart[:, 1:] = np.diff(farness, axis=1) > (ties[:, 1:] if np.ndim(ties) else ties)
    alone = apart.copy()
    alone[:, :-1] &= apart[:, 1:]
    tied = np.nonzero(~alone)
    groups = tie_groups(farness[tied], ties[tied] if np.ndim(ties) else ties, apart[tied])
    among = shared[tied]
    # Sorting by one combined key is much faster than two sorts.
    shared[tied] = among[np.argsort(groups * (among.max(initial=0) + 1.0) + among)]
    return shared


def grades_of_nearest(embeddings, labels, k):
    """Returns what each image shares with its k nearest others, `[N, k]`; see `grades`.

    If there are fewer than k other images, all are used. The result is the first k columns of `grades_in_order`, which
    compares all images exactly. This function does so only for images with more than `SPARE` others that are about as
    near as the k-th.
    """
    vectors, labels, rows = _exact(embeddings), np.asarray(labels), np.arange(len(embeddings))
    points, k = vectors.vectors, min(k, len(rows) - 1)
    near = nearest_others(points, rows, rows, min(k + SPARE, len(rows) - 1))
    lengths = np.linalg.norm(points - points.mean(axis=0), axis=1)
    # Others may be nearer than the farthest of these by at most this: each of d products and sums rounds once.
    errors = 2.0**-24 * (points.shape[1] + 8) * (lengths + lengths.max()) ** 2
    found, doubts = [], [np.zeros(0, np.int64)]
    size = max(1, BLOCK // (near.shape[1] * max(labels[0].size, points.shape[1])))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        others = near[some]
        farness = vectors.offsets[others] - np.einsum("bd,bcd->bc", points[some], points[others], dtype=np.float64)
        ties = TIE * (vectors.offsets[some, None] + vectors.offsets[others]) if vectors.has_offsets else TIE
        found.append(_sorted(farness, grades(labels, some, others), ties)[:, :k])
        if near.shape[1] < len(rows) - 1:
            kth, last = np.partition(farness, (k - 1, -1), axis=1)[:, [k - 1, -1]].T
            doubts.append(some[last - kth <= errors[some] + np.max(ties, axis=-1)])
    found, doubts = np.concatenate(found), np.concatenate(doubts)
    if len(doubts):
        found[doubts] = np.concatenate([shared[:, :k] for shared in _in_order(vectors, labels, doubts)])
    return found


class WholeOrder(EmbeddingMetric):
    """Base class of graded metrics that rank all images and average the values of the queries."""

    graded = True
    larger_is_better = True
    # It sorts all images for each query, which is too slow for every evaluation.
    while_training = False

    def value(self, embeddings, labels):
        blocks = [self.of_queries(shared, labels) for shared in grades_in_order(embeddings, labels)]
        values = np.concatenate(blocks) if blocks else np.zeros(0)
        return float(np.mean(values)) if len(values) else None

    def of_queries(self, shared: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Returns the values of those queries in a block that share something with another image.

        `shared` are the blocks of `grades_in_order`.
        """
        raise NotImplementedError


@register("metric", "graded_map")
class GradedMAP(WholeOrder):
    """Mean average precision in which each image counts by its relevance: 1 for the best possible order.

    A query's value is `sum_k (r_1 + ... + r_k) / k` over the images k with a relevance r above 0, in the order of their
    similarity, divided by the same sum for the best order. This is the weighted average precision of Zhao et al., Deep
    Semantic Ranking Based Hashing for Multi-Label Image Retrieval, 2015, normalized. The relevance r is the share of
    labels, or of levels, that both images have. With one class per image, the metric is mean average precision. It is
    None if no two images share anything.
    """

    takes_several = True

    def of_queries(self, shared, labels):
        relevance = shared[np.any(shared > 0, axis=1)] / full_grade(labels)
        return _precision(relevance) / _precision(-np.sort(-relevance, axis=1))


def _precision(relevance):
    ranks = np.arange(1, relevance.shape[1] + 1)
    return np.sum(np.where(relevance > 0, np.cumsum(relevance, axis=1) / ranks, 0.0), axis=1)


@register("metric", "relevance_at_k")
class RelevanceAtK(EmbeddingMetric):
    """Mean relevance of the K nearest images: the share of labels, or of levels, that they share with the query.

    With one class per image, this is Precision@K. If there are fewer than K other images, all are used. The value is
    None if there is only one image. Among images that are equally near, those that share less come first.

    Args:
        k: Integer. Number of neighbors.
    """

    k: Count

    graded = True
    takes_several = True
    larger_is_better = True

    @property
    def name(self) -> str:
        return f"relevance_at_{self.k}"

    def value(self, embeddings, labels):
        if len(embeddings) < 2:
            return None
        return float(grades_of_nearest(embeddings, labels, self.k).mean() / full_grade(labels))


@register("metric", "hierarchical_ap")
class HierarchicalAP(WholeOrder):
    """Hierarchical average precision: mistakes cost less if the images share more levels of the class hierarchy.

    H-AP of Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval, 2022: `sum_k h(k) /
    rank(k) / sum_k rel(k)` over the images k that share a level with the query. Here, h(k) is rel(k) plus the sum of
    `min(rel(k), rel(j))` over the images j before k, and `rel = (l / L)^alpha / n_l` for the n_l images that share l of
    L levels. With one level, it is average precision. The value is None if no two images share a level.

    Args:
        alpha: Float. With a larger value, images that share few levels count less. Defaults to `1.0`.
    """

    alpha: Positive = 1.0

    def of_queries(self, shared, labels):
        count = levels_of(labels).shape[1]
        grades = (np.arange(count + 1) / count) ** self.alpha
        counts = np.stack([np.sum(shared == level, axis=1) for level in range(len(grades))], axis=1)
        relevance = grades / np.maximum(counts, 1)
        of_images = np.take_along_axis(relevance, shared, axis=1)
        total = np.zeros(of_images.shape)
        for level in range(1, len(grades)):
            # The number of images of this level at or before each place.
            before = np.cumsum(shared == level, axis=1)
            total += before * np.minimum(of_images, relevance[:, level, None])
        ranks = np.arange(1, shared.shape[1] + 1)
        has = of_images.sum(axis=1) > 0
        return np.sum(np.where(shared > 0, total / ranks, 0.0), axis=1)[has] / of_images.sum(axis=1)[has]


@register("metric", "mistake_severity")
class MistakeSeverity(EmbeddingMetric):
    """Mean severity of mistakes: how many levels of the hierarchy separate a query from a wrong nearest neighbor.

    The severity is the height of the lowest common ancestor, as in Bertinetto et al., Making Better Mistakes, 2020:
    from 1 to the number of levels, which means that nothing is shared. With one level it is always 1. Among images that
    are equally near, the one that shares least counts as the nearest. The value is None if there is no mistake.
    """

    graded = True

    def value(self, embeddings, labels):
        if len(embeddings) < 2:
            return None
        height = full_grade(labels) - grades_of_nearest(embeddings, labels, 1)
        return float(np.mean(height[height > 0])) if np.any(height > 0) else None


@register("metric", "ndcg")
class NDCG(WholeOrder):
    """Normalized discounted cumulative gain (NDCG): the gain of the ranking, divided by the best possible gain.

    An image gains `2^l - 1`, divided by `log2(1 + rank)`, where l is the number of levels that it shares with the
    query. For multi-label images, l is the fraction of the labels of both images that they share. See Järvelin and
    Kekäläinen, Cumulated Gain-Based Evaluation of IR Techniques, 2002, with the gain of Burges et al., 2005. The value
    is None if no two images share anything.
    """

    takes_several = True

    def of_queries(self, shared, labels):
        gains = 2.0**shared - 1
        discounts = 1 / np.log2(np.arange(2, shared.shape[1] + 2))
        best = -np.sort(-gains, axis=1) @ discounts
        return (gains @ discounts)[best > 0] / best[best > 0]


@register("metric", "average_set_intersection")
class AverageSetIntersection(WholeOrder):
    """Average overlap of a query's n nearest images with its n most relevant images, over all n.

    ASI of Sun et al., Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate Multiple Semantic Scales,
    2021: `mean_n |nearest_n & best_n| / n`, for n up to the number of images that share a level with the query. The
    most relevant images share most levels with it. Among images that share equally many levels, those that are among
    the nearest are used. The value is None if no two images share a level.
    """

    def of_queries(self, shared, labels):
        best = -np.sort(-shared, axis=1)
        ranks, common = np.arange(1, shared.shape[1] + 1), np.zeros(shared.shape)
        for level in range(1, levels_of(labels).shape[1] + 1):
            higher, equal = np.cumsum(shared > level, axis=1), np.cumsum(shared == level, axis=1)
            # The number of places among the n best that are left for this level.
            common = np.where(best == level, higher + np.minimum(equal, ranks - higher[:, -1:]), common)
        positives = np.sum(best > 0, axis=1)
        has = positives > 0
        return np.sum(common / ranks, axis=1)[has] / positives[has]
