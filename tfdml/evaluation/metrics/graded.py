"""Metrics of graded relevance, for images with several labels or levels of classes."""

import numpy as np

from tfdml.evaluation.metrics.base import EmbeddingMetric
from tfdml.evaluation.ranks.exact_vectors import TIE, ExactVectors, tie_groups
from tfdml.neighbors.nearest import nearest_others
from tfdml.registry import register
from tfdml.registry.arguments import Count, Positive

# Numbers of a block.
BLOCK = 2**22
# Images that are compared exactly in addition to the K nearest, to see whether others are as near.
SPARE = 8
# Squared lengths that differ from 1 by less belong to vectors at unit length.
UNIT = 1e-5


def levels_of(labels):
    """Returns categories `[N, L]`, from coarse to fine, of labels `[N, L]`, or `[N]`, which are one level."""
    labels = np.asarray(labels)
    return labels[:, None] if labels.ndim == 1 else labels


def full_grade(labels):
    """The grade of images that have all in common: the number of levels, or 1 of several labels an image."""
    return 1 if np.asarray(labels).dtype == bool else levels_of(labels).shape[1]


def grades(labels, rows, others=None):
    """Returns what images have in common with others: the number of levels `[B, M]`, or the share of several labels.

    Labels are `[N, L]` categories from coarse to fine, which are a tree; `[N]` class numbers; or `[N, C]` booleans,
    several labels an image. `others` are rows `[B, M]`, the others of each image; None: all images are.
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
    """Yields blocks `[B, N - 1]` of what each image has in common with the others, nearest first; see `grades`.

    By Euclidean distance, which orders embeddings at unit length as cosine similarity does. Of images that are equally
    near, up to a tie (`ExactVectors.ties`), those that have less in common come first, so that a collapsed embedding
    scores low.
    """
    yield from _in_order(_exact(embeddings), labels, np.arange(len(embeddings)))


def _exact(embeddings):
    """Returns `ExactVectors`, which tie as in a search: by cosine similarity if all embeddings have unit length."""
    squares = np.einsum("nd,nd->n", embeddings, embeddings, dtype=np.float64)
    return ExactVectors.of(embeddings, "cosine" if np.all(np.abs(squares - 1) < UNIT) else "euclidean")


def _in_order(vectors, labels, rows):
    """Yields the blocks of `grades_in_order` of some rows."""
    size = max(1, BLOCK // max(1, len(vectors.vectors)))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        farness = vectors.similarities(vectors.vectors[some], slice(None))
        np.negative(farness, out=farness)
        # Itself behind all.
        farness[np.arange(len(some)), some] = np.inf
        ties = vectors.ties(vectors.offsets[some], slice(None))
        yield _sorted(farness, grades(labels, some), ties)[:, :-1]


def _sorted(farness, shared, ties):
    """Returns grades `[B, M]` in the order of farness, and in ascending order among images that tie."""
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
    # One key for both is much faster than a sort by each.
    shared[tied] = among[np.argsort(groups * (among.max(initial=0) + 1.0) + among)]
    return shared


def grades_of_nearest(embeddings, labels, k):
    """Returns `[N, k]` what each image has in common with the k nearest others, of fewer with all; see `grades`.

    They are the first k of `grades_in_order`, which compares all images exactly; here only those of an image with more
    than `SPARE` others about as near as its k-th.
    """
    vectors, labels, rows = _exact(embeddings), np.asarray(labels), np.arange(len(embeddings))
    points, k = vectors.vectors, min(k, len(rows) - 1)
    near = nearest_others(points, rows, rows, min(k + SPARE, len(rows) - 1))
    lengths = np.linalg.norm(points - points.mean(axis=0), axis=1)
    # By how much others may be nearer than the farthest of these: each of d products and sums rounds once.
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
    """A metric of all images in their order, whose values for each query are averaged."""

    graded = True
    larger_is_better = True
    # It sorts all images for each query.
    while_training = False

    def value(self, embeddings, labels):
        blocks = [self.of_queries(shared, labels) for shared in grades_in_order(embeddings, labels)]
        values = np.concatenate(blocks) if blocks else np.zeros(0)
        return float(np.mean(values)) if len(values) else None

    def of_queries(self, shared: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Returns the values of the queries of a block that have something in common with another image.

        `shared` are the blocks of `grades_in_order`.
        """
        raise NotImplementedError


@register("metric", "graded_map")
class GradedMAP(WholeOrder):
    """The mean over queries of average precision in which each image counts by its relevance, 1 for the best order.

    `sum_k (r_1 + ... + r_k) / k` over the images k with a relevance r above 0, in the order of their similarity,
    divided by its value in the best order: weighted average precision of Zhao et al., Deep Semantic Ranking Based
    Hashing for Multi-Label Image Retrieval, 2015, normalized. r is the share of labels that both images have, or of
    levels. With one class an image it is average precision. None if no image has anything in common with another.
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
    """The mean relevance of the K nearest: the share of labels that two images have in common, or of levels.

    With one class an image it is Precision@K. Of fewer images it takes all others; None of one image. Of images that
    are equally near, those that have less in common come first.

    Args:
        k: number of neighbors.
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
    """The mean over queries of average precision in which a mistake costs less the more levels both images share.

    H-AP of Ramzi et al., Hierarchical Average Precision Training for Pertinent Image Retrieval, 2022:
    `sum_k h(k) / rank(k) / sum_k rel(k)` over the images k that share a level with the query, where h(k) is rel(k) plus
    the sum of `min(rel(k), rel(j))` over those j before k, and `rel = (l / L)^alpha / n_l` for the n_l images that
    share l of L levels. With one level it is average precision. None if no image shares a level with another.

    Args:
        alpha: larger makes what shares few levels count less.
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
            # Of so many at or before each place.
            before = np.cumsum(shared == level, axis=1)
            total += before * np.minimum(of_images, relevance[:, level, None])
        ranks = np.arange(1, shared.shape[1] + 1)
        has = of_images.sum(axis=1) > 0
        return np.sum(np.where(shared > 0, total / ranks, 0.0), axis=1)[has] / of_images.sum(axis=1)[has]


@register("metric", "mistake_severity")
class MistakeSeverity(EmbeddingMetric):
    """How many levels up the nearest image of another class has something in common, a mean over these mistakes.

    The height of the lowest common ancestor of Bertinetto et al., Making Better Mistakes, 2020, from 1 to the number of
    levels, which stands for nothing in common. With one level it is 1. Of images that are equally near, the one that
    has least in common is the nearest. None without a mistake.
    """

    graded = True

    def value(self, embeddings, labels):
        if len(embeddings) < 2:
            return None
        height = full_grade(labels) - grades_of_nearest(embeddings, labels, 1)
        return float(np.mean(height[height > 0])) if np.any(height > 0) else None


@register("metric", "ndcg")
class NDCG(WholeOrder):
    """The mean over queries of the gain of all images in their order, divided by that of the best order.

    An image that shares l levels with the query, or l of several labels as a fraction of those that one of them has,
    gains `2^l - 1`, divided by `log2(1 + rank)`: Järvelin and Kekäläinen,
    Cumulated Gain-Based Evaluation of IR Techniques, 2002, with the gain of Burges et al., 2005. None if no image
    shares anything with another.
    """

    takes_several = True

    def of_queries(self, shared, labels):
        gains = 2.0**shared - 1
        discounts = 1 / np.log2(np.arange(2, shared.shape[1] + 2))
        best = -np.sort(-gains, axis=1) @ discounts
        return (gains @ discounts)[best > 0] / best[best > 0]


@register("metric", "average_set_intersection")
class AverageSetIntersection(WholeOrder):
    """The mean over queries of how much the n nearest have in common with the n best, over all n.

    ASI of Sun et al., Dynamic Metric Learning: Towards a Scalable Metric Space to Accommodate Multiple Semantic Scales,
    2021: `mean_n |nearest_n & best_n| / n`, for n up to the number of images that share a level with the query. The
    best share most levels with it; of images that share equally many, those count that are among the nearest. None if
    no image shares a level with another.
    """

    def of_queries(self, shared, labels):
        best = -np.sort(-shared, axis=1)
        ranks, common = np.arange(1, shared.shape[1] + 1), np.zeros(shared.shape)
        for level in range(1, levels_of(labels).shape[1] + 1):
            higher, equal = np.cumsum(shared > level, axis=1), np.cumsum(shared == level, axis=1)
            # So many places of the best are left for this level.
            common = np.where(best == level, higher + np.minimum(equal, ranks - higher[:, -1:]), common)
        positives = np.sum(best > 0, axis=1)
        has = positives > 0
        return np.sum(common / ranks, axis=1)[has] / positives[has]
