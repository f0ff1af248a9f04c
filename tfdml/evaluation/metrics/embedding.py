"""Metrics of embeddings, such as alignment and effective rank, and of their clusters, such as NMI."""

from typing import Annotated

import numpy as np

from tfdml.evaluation.metrics.base import ClusterMetric, EmbeddingMetric, class_means, group_sizes, pairs_of
from tfdml.evaluation.metrics.pairs import squared_pair_distances
from tfdml.neighbors.nearest import nearest_others, unit_length
from tfdml.registry import register
from tfdml.registry.arguments import Count, Positive, integer, number

# Number of rows for which deviations are computed at once.
ROWS = 8192


@register("metric", "alignment")
class Alignment(EmbeddingMetric):
    """Mean squared distance between L2-normalized embeddings of the same class: smaller is more compact.

    From "Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere" (ICML
    2020), with alpha = 2. The value is None if each class has only one image.
    """

    needs_classes = False

    def value(self, embeddings, labels):
        embeddings = unit_length(embeddings)
        means, sizes, numbers = class_means(embeddings, labels)
        # The squared distances of a class's pairs sum to the class size times the squared distances to the class mean.
        total = 0.0
        for start in range(0, len(embeddings), ROWS):
            rows = slice(start, start + ROWS)
            deviations = embeddings[rows] - means[numbers[rows]]
            total += np.einsum("n,nd,nd->", sizes[numbers[rows]], deviations, deviations, optimize=True)
        pairs = pairs_of(sizes)
        return float(total / pairs) if pairs else None


@register("metric", "uniformity")
class Uniformity(EmbeddingMetric):
    """Logarithm of the mean of exp(-t d^2) over all pairs of L2-normalized embeddings at distance d.

    From "Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere" (ICML
    2020). The value is between -4 t and 0: 0 for a collapsed embedding, and lower if embeddings are spread more evenly.
    It is None if there is only one image.

    Args:
        t: Float. With a larger value, near pairs dominate more. Defaults to `2.0`.
        rows: Integer. Number of rows to use. If there are more, this many are sampled, always the same. Defaults to
            `10_000`.
    """

    t: Positive = 2.0
    rows: Annotated[int, integer(2)] = 10_000

    needs_classes = False

    def value(self, embeddings, labels):
        if len(embeddings) > self.rows:
            embeddings = embeddings[np.random.default_rng(0).choice(len(embeddings), self.rows, replace=False)]
        pairs = pairs_of([len(embeddings)])
        total = sum(np.exp(-self.t * squared).sum() for squared in squared_pair_distances(unit_length(embeddings)))
        return float(np.log(total / pairs)) if pairs else None


@register("metric", "dead_dimensions")
class DeadDimensions(EmbeddingMetric):
    """Share of dimensions with a variance that is at most a fraction of the mean variance over dimensions.

    The value is 1 for a collapsed embedding.

    Args:
        fraction: Float between 0 and 1. Fraction of the mean variance. Defaults to `0.001`.
    """

    fraction: Annotated[float, number(above=0, below=1)] = 1e-3

    needs_classes = False

    def value(self, embeddings, labels):
        blocks = [slice(start, start + ROWS) for start in range(0, len(embeddings), ROWS)]
        # Relative to the first row, so that equal rows have a variance of exactly 0.
        origin = np.asarray(embeddings[0], np.float64)
        mean = sum(np.sum(embeddings[rows] - origin, axis=0) for rows in blocks) / len(embeddings)
        variances = sum(np.sum((embeddings[rows] - origin - mean) ** 2, axis=0) for rows in blocks)
        return float(np.mean(variances <= self.fraction * variances.mean()))


@register("metric", "effective_rank")
class EffectiveRank(EmbeddingMetric):
    """Effective number of dimensions: the exponential of the entropy of the normalized singular values.

    From "The Effective Rank: A Measure of Effective Dimensionality" (EUSIPCO 2007), applied to the matrix of embeddings
    without centering it. The value is between 1 and the dimension. It is None if all embeddings are zero.
    """

    needs_classes = False

    def value(self, embeddings, labels):
        # A matrix and its transpose have the same singular values. Use the smaller product, which has no extra zeros.
        points = embeddings if len(embeddings) >= embeddings.shape[1] else embeddings.T
        blocks = (np.asarray(points[start : start + ROWS], np.float64) for start in range(0, len(points), ROWS))
        # The eigenvalues of this matrix are the squares of the singular values.
        squares = np.linalg.eigvalsh(sum(block.T @ block for block in blocks))
        # Smaller eigenvalues are rounding errors of this product and of float32 embeddings.
        squares = squares[squares > len(squares) * np.finfo(np.float64).eps * squares.max()]
        if not len(squares):
            return None
        shares = np.sqrt(squares) / np.sum(np.sqrt(squares))
        return float(np.exp(-np.sum(shares * np.log(shares))))


@register("metric", "hubness")
class Hubness(EmbeddingMetric):
    """Skewness of how often each image is among the K nearest of others: large if a few images are near everything.

    From "Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data" (JMLR 2010). Neighbors are found by
    Euclidean distance, which ranks L2-normalized embeddings in the same order as cosine similarity. Ties are broken by
    row. The value is None if every image is a neighbor equally often, for example if there are only K other images.

    Args:
        k: Integer. Number of neighbors. Defaults to `10`.
    """

    k: Count = 10

    # It compares every image with all others, which is too slow for every evaluation.
    while_training = False

    needs_classes = False

    def value(self, embeddings, labels):
        rows = np.arange(len(embeddings))
        times = np.bincount(nearest_others(embeddings, rows, rows, self.k).ravel(), minlength=len(rows))
        deviations = times - times.mean()
        return float(np.mean(deviations**3) / times.std() ** 3) if times.std() else None


@register("metric", "inter_class_distance")
class InterClassDistance(EmbeddingMetric):
    """Mean Euclidean distance between the mean embeddings of two classes.

    From "Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" (ICML 2020). The value
    is None if there is only one class.
    """

    def value(self, embeddings, labels):
        means, _, _ = class_means(embeddings, labels)
        total = sum(np.sqrt(squared).sum() for squared in squared_pair_distances(means))
        return float(total / pairs_of([len(means)])) if len(means) > 1 else None


@register("metric", "intra_class_distance")
class IntraClassDistance(EmbeddingMetric):
    """Mean Euclidean distance between embeddings of the same class.

    From "Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" (ICML 2020). The value
    is None if each class has only one image.
    """

    def value(self, embeddings, labels):
        pairs = pairs_of(np.unique(labels, return_counts=True)[1])
        total = sum(np.sqrt(squared).sum() for squared in squared_pair_distances(embeddings, labels))
        return float(total / pairs) if pairs else None


@register("metric", "distance_ratio")
class DistanceRatio(EmbeddingMetric):
    """Embedding density: `intra_class_distance` divided by `inter_class_distance`.

    From "Revisiting Training Strategies and Generalization Performance in Deep Metric Learning" (ICML 2020), where
    models that generalize better to new classes have a larger ratio. The value is None if one of the distances is not
    defined, or if all classes have the same mean.
    """

    def value(self, embeddings, labels):
        return self.value_if_new({}, embeddings, labels)

    def value_if_new(self, known, embeddings, labels):
        distances = (IntraClassDistance(), InterClassDistance())
        intra, inter = (metric.value_if_new(known, embeddings, labels) for metric in distances)
        return None if intra is None or not inter else intra / inter


@register("metric", "neighbors_kept")
class NeighborsKept(EmbeddingMetric):
    """Fraction of an image's K nearest neighbors that remain its neighbors in a second view of all images.

    This metric needs no classes. Labels tell which two rows are views of the same image, as in the dataset `photos`.
    The value is None if any label does not have exactly two rows, or if there are only two images. A collapsed
    embedding has a value near 0, because ties are broken by row, in opposite orders for the two views.

    Args:
        k: Integer. Number of neighbors. With fewer than 2 K images, a third of the images is used instead. Defaults to
            `10`.
    """

    k: Count = 10

    larger_is_better = True
    needs_classes = False

    def value(self, embeddings, labels):
        order = np.argsort(labels, kind="stable")
        counts = np.unique(labels, return_counts=True)[1]
        if len(counts) < 3 or np.any(counts != 2):
            return None
        first, second = (embeddings[order[place::2]] for place in (0, 1))
        k = min(self.k, max(1, len(first) // 3)) if len(first) < 2 * self.k else self.k
        rows = np.arange(len(first))
        before = nearest_others(first, rows, rows, k)
        after = rows[::-1][nearest_others(second[::-1], rows, rows, k)[::-1]]
        return float(np.mean([np.isin(one, other).mean() for one, other in zip(before, after, strict=True)]))


@register("metric", "ami")
class AMI(ClusterMetric):
    """Adjusted mutual information of classes and clusters: 0 on average for random clusters."""

    def value(self, labels, clusters):
        # Imported here because it is slow to load.
        from sklearn.metrics import adjusted_mutual_info_score

        return float(adjusted_mutual_info_score(labels, clusters))


@register("metric", "ari")
class ARI(ClusterMetric):
    """Adjusted Rand index: fraction of image pairs on which classes and clusters agree, corrected for chance."""

    def value(self, labels, clusters):
        # Imported here because it is slow to load.
        from sklearn.metrics import adjusted_rand_score

        return float(adjusted_rand_score(labels, clusters))


@register("metric", "nmi")
class NMI(ClusterMetric):
    """Normalized mutual information of classes and clusters: 2 I / (H(classes) + H(clusters))."""

    def value(self, labels, clusters):
        def entropy(sizes):
            shares = sizes / sizes.sum()
            return max(-np.sum(shares * np.log(shares)), 0.0)

        of_both, of_labels, of_clusters = map(entropy, group_sizes(labels, clusters))
        if of_labels + of_clusters == 0:
            # One class and one cluster agree.
            return 1.0
        return float(max(2 * (of_labels + of_clusters - of_both) / (of_labels + of_clusters), 0.0))


@register("metric", "purity")
class Purity(ClusterMetric):
    """Fraction of images that belong to the most frequent class of their cluster."""

    def value(self, labels, clusters):
        pairs, sizes = np.unique(np.stack([clusters, labels], axis=1), axis=0, return_counts=True)
        first = np.unique(pairs[:, 0], return_index=True)[1]
        return float(np.maximum.reduceat(sizes, first).sum() / len(labels))


@register("metric", "f1")
class PairwiseF1(ClusterMetric):
    """Harmonic mean of precision and recall over image pairs. A pair is found if it shares a cluster.

    From "Deep Metric Learning via Lifted Structured Feature Embedding" (CVPR 2016), section 6.
    """

    def value(self, labels, clusters):
        both, classes, found = (pairs_of(sizes) for sizes in group_sizes(labels, clusters))
        return 2 * both / (classes + found) if both else 0.0
