"""The base classes of metrics: of ranks, pairs, clusters and embeddings."""

import logging
import math
import re
from collections.abc import Callable, MutableMapping

import numpy as np

from tfdml import registry
from tfdml.evaluation.ranks.ranks import PositiveRanks
from tfdml.evaluation.verification.pairs import PairCounts, RetrievalPairs
from tfdml.registry.specs import of_spec

# Names before the @ that papers print.
PRINTED = {"r": "recall", "p": "precision"}


class Metric(registry.Declared):
    """A measure of embeddings, a number.

    A metric extends one of the classes that say what it is computed from: `RankMetric`, `PairMetric`, `ClusterMetric`,
    `EmbeddingMetric`.
    """

    #: The key of its value in results: the name under which it is registered.
    name = None
    #: Whether a run measures it at every evaluation, not only at its end.
    while_training = True
    #: Whether it needs classes; others measure images without any, see the dataset `photos`.
    needs_classes = True
    #: Whether it takes all levels of a hierarchy of classes, where there is one.
    graded = False
    #: Whether it takes several labels an image, booleans `[N, C]`.
    takes_several = False
    #: Whether a larger value means a better model. Others cannot select a model.
    larger_is_better = True


def metric_of(spec):
    """Creates a metric from its spec.

    `recall_at_10` is short for `recall_at_k(k=10)`, and `tar_at_far_0.001` for `tar_at_far(rate=0.001)`.
    """
    with of_spec(spec):
        printed = re.fullmatch(r"(\w+)@(\w+)", spec.strip().lower())
        meant = f"{PRINTED.get(printed[1], printed[1])}_at_{printed[2]}" if printed else ""
        if {meant, re.sub(r"\d+$", "k", meant)} & set(registry.names("metric")):
            raise ValueError(f"Unknown metric {spec!r}. Did you mean {meant!r}?")
        of_rate = re.fullmatch(r"(tar_at_far|dir_at_far)_([\d.]+(?:e-\d+)?)", spec.strip())
        if of_rate:
            return registry.create("metric", f"{of_rate[1]}(rate={of_rate[2]})")
        short = re.fullmatch(r"(\w+_at)_(\d+)", spec.strip())
        return registry.create("metric", f"{short[1]}_k(k={int(short[2])})" if short else spec)


def is_metric(spec):
    """Whether text is the spec of a metric."""
    try:
        metric_of(spec)
    except ValueError:
        return False
    return True


def metrics_of(specs):
    """Creates metrics from their specs, or from one spec; no two may have the same name."""
    metrics = [metric_of(spec) for spec in ((specs,) if isinstance(specs, str) else specs)]
    names = [metric.name for metric in metrics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Expected each metric once, received {', '.join(twice)} more than once.")
    return metrics


class RankMetric(Metric):
    """A metric that is the mean of a value for each query, computed from the ranks of its positives."""

    #: Whether the rank of the first positive is enough.
    first_only = False

    def depth(self, positives: np.ndarray) -> np.ndarray | float:
        """Returns how many of the nearest images decide the value; infinity, as by default, for all.

        Args:
            positives: `[B]` number of positives of each query.
        """
        return math.inf

    def per_query(self, ranks: PositiveRanks) -> np.ndarray:
        """Returns the value of each query `[B]`.

        Args:
            ranks: `PositiveRanks` of a block of queries.
        """
        raise NotImplementedError


class PairMetric(Metric):
    """A metric of all pairs of a query and a gallery image, each pair once, by their similarity."""

    #: Whether `PairCounts` are enough; if not, it overrides `value_of_pairs` and `of_draws`.
    of_counts = True
    #: The least number of pairs of different classes that it means something for.
    negatives_needed = 1

    def value(self, counts: PairCounts) -> float | None:
        """Returns the metric.

        Args:
            counts: `PairCounts` with pairs of the same class and of different classes.
        """
        raise NotImplementedError

    def value_of_pairs(self, pairs: RetrievalPairs) -> float | None:
        """Returns the metric, or None, with a warning, where there are too few pairs."""
        return self.value(pairs.counts) if self.is_defined(pairs.counts) else None

    def of_draws(self, pairs: RetrievalPairs) -> Callable[[PairCounts, np.ndarray], float | None]:
        """Returns what gives the metric where classes are drawn, for intervals.

        It is a function of the `PairCounts` of those that are drawn, and how often each class is, `[C]`.
        """
        return lambda counts, times: self.value(counts)

    def is_defined(self, counts: PairCounts) -> bool:
        """Returns whether there are enough pairs, and warns if not."""
        positives, negatives = counts.totals
        if positives and negatives >= self.negatives_needed:
            return True
        logging.getLogger(__name__).warning(
            f"{self.name} needs a pair of the same class, and of different classes {self.negatives_needed:,} or more; "
            f"there are {positives:,} and {negatives:,}. It has no value."
        )
        return False


class ClusterMetric(Metric):
    """A metric of K-means with as many clusters as classes. Independent of the numbers that clusters have."""

    # Clustering takes longer than searching.
    while_training = False

    def value(self, labels: np.ndarray, clusters: np.ndarray) -> float:
        """Returns the metric.

        Args:
            labels: `[N]` class numbers.
            clusters: `[N]` cluster numbers.
        """
        raise NotImplementedError


class EmbeddingMetric(Metric):
    """A metric of embeddings and their classes, without ranks or clusters."""

    larger_is_better = False

    def value(self, embeddings: np.ndarray, labels: np.ndarray) -> float | None:
        """Returns the metric, or None if these embeddings have none, such as a distance of pairs without pairs.

        Args:
            embeddings: `[N, d]` float array: at unit length if the search is by cosine similarity.
            labels: `[N]` class numbers.
        """
        raise NotImplementedError

    def value_if_new(
        self, known: MutableMapping[str, float | None], embeddings: np.ndarray, labels: np.ndarray
    ) -> float | None:
        """Returns the metric, computed only if it is not known; for metrics that are computed from others.

        Args:
            known: metric name to its value for these embeddings; gets the values that are computed.
            embeddings, labels: as of `value`.
        """
        if self.name not in known:
            known[self.name] = self.value(embeddings, labels)
        return known[self.name]


def class_means(embeddings, labels):
    """Returns the mean embedding `[C, d]` of each class, in float64, their sizes `[C]`, and each row's class `[N]`."""
    _, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    starts = np.cumsum(sizes) - sizes
    sums = np.add.reduceat(embeddings[np.argsort(numbers, kind="stable")], starts, axis=0, dtype=np.float64)
    return sums / sizes[:, None], sizes, numbers


def group_sizes(labels, clusters):
    """Returns the numbers of images in each non-empty pair of class and cluster, in each class, and in each cluster."""
    both = np.stack([labels, clusters], axis=1)
    return tuple(np.unique(each, axis=0, return_counts=True)[1] for each in (both, labels, clusters))


def pairs_of(sizes):
    """Returns the number of pairs within groups of these sizes."""
    sizes = np.asarray(sizes, np.int64)
    return int(np.sum(sizes * (sizes - 1)) // 2)
