"""The base classes of metrics: rank, pair, cluster and embedding metrics."""

import logging
import math
import re
from collections.abc import Callable, MutableMapping

import numpy as np

from tfdml import registry
from tfdml.evaluation.ranks.ranks import PositiveRanks
from tfdml.evaluation.verification.pairs import PairCounts, RetrievalPairs
from tfdml.registry.specs import of_spec

# Papers write R@1 and P@1.
PRINTED = {"r": "recall", "p": "precision"}


class Metric(registry.Declared):
    """Base class of metrics, which measure embeddings with one number.

    To write your own metric, extend the class for what it is computed from: `RankMetric`, `PairMetric`, `ClusterMetric`
    or `EmbeddingMetric`. Then register it with `tfdml.registry.register("metric", name)`.
    """

    #: The name under which the metric is registered, which is its key in results.
    name = None
    #: Whether a run measures it at every evaluation. If False, only at the end.
    while_training = True
    #: Whether it needs classes. If False, it also works for images without classes, see the dataset `photos`.
    needs_classes = True
    #: Whether it uses all levels of a class hierarchy, if there is one.
    graded = False
    #: Whether it accepts multi-label images, booleans `[N, C]`.
    takes_several = False
    #: Whether a larger value means a better model. If False, it cannot select the best model.
    larger_is_better = True


def metric_of(spec):
    """Creates a metric from its spec.

    `recall_at_10` is short for `recall_at_k(k=10)`, and `tar_at_far_0.001` for `tar_at_far(rate=0.001)`.

    Args:
        spec: String. Spec of a metric.

    Returns:
        A `Metric`.

    Raises:
        ValueError: If no metric has this name, or if its arguments are invalid.

    Example:

    ```python
    tfdml.evaluation.metrics.metric_of("recall_at_10").k  # 10
    ```
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
    """Returns whether a string is the spec of a metric."""
    try:
        metric_of(spec)
    except ValueError:
        return False
    return True


def metrics_of(specs):
    """Creates metrics from a sequence of specs, or from one spec.

    Args:
        specs: Sequence of metric specs, or a single spec.

    Returns:
        List of `Metric` objects.

    Raises:
        ValueError: If a spec is invalid, or if two metrics have the same name.
    """
    metrics = [metric_of(spec) for spec in ((specs,) if isinstance(specs, str) else specs)]
    names = [metric.name for metric in metrics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Each metric must be listed only once. Received more than once: {', '.join(twice)}.")
    return metrics


class RankMetric(Metric):
    """Base class of metrics that are means over queries, computed from the ranks of each query's positives."""

    #: Whether the metric needs only the rank of the first positive.
    first_only = False

    def depth(self, positives: np.ndarray) -> np.ndarray | float:
        """Returns how many of the nearest images determine the value. The default is infinity, which means all.

        Args:
            positives: `[B]` number of positives of each query.
        """
        return math.inf

    def per_query(self, ranks: PositiveRanks) -> np.ndarray:
        """Returns the value `[B]` of each query.

        Args:
            ranks: `PositiveRanks` of a block of queries.
        """
        raise NotImplementedError


class PairMetric(Metric):
    """Base class of metrics over all pairs of a query and a gallery image, compared by similarity."""

    #: Whether `PairCounts` determine the value. If False, `value_of_pairs` and `of_draws` are overridden.
    of_counts = True
    #: The smallest number of pairs of different classes for which the value is meaningful.
    negatives_needed = 1

    def value(self, counts: PairCounts) -> float | None:
        """Returns the value of the metric.

        Args:
            counts: `PairCounts` with pairs of the same class and of different classes.
        """
        raise NotImplementedError

    def value_of_pairs(self, pairs: RetrievalPairs) -> float | None:
        """Returns the value of the metric. If there are too few pairs, warns and returns None."""
        return self.value(pairs.counts) if self.is_defined(pairs.counts) else None

    def of_draws(self, pairs: RetrievalPairs) -> Callable[[PairCounts, np.ndarray], float | None]:
        """Returns a function that computes the metric of a bootstrap resample of classes.

        Its arguments are the `PairCounts` of the resample, and how often each class is drawn, `[C]`.
        """
        return lambda counts, times: self.value(counts)

    def is_defined(self, counts: PairCounts) -> bool:
        """Returns whether there are enough pairs, and warns if not."""
        positives, negatives = counts.totals
        if positives and negatives >= self.negatives_needed:
            return True
        logging.getLogger(__name__).warning(
            f"{self.name} needs at least one pair of the same class and {self.negatives_needed:,} of different "
            f"classes. Found {positives:,} and {negatives:,}, so it is None."
        )
        return False


class ClusterMetric(Metric):
    """Base class of metrics of a K-means clustering with as many clusters as classes.

    The values do not depend on how the clusters are numbered.
    """

    # Clustering is slower than searching.
    while_training = False

    def value(self, labels: np.ndarray, clusters: np.ndarray) -> float:
        """Returns the value of the metric.

        Args:
            labels: `[N]` integer class labels.
            clusters: `[N]` integer cluster labels.
        """
        raise NotImplementedError


class EmbeddingMetric(Metric):
    """Base class of metrics that are computed from embeddings and labels, without ranks or clusters."""

    larger_is_better = False

    def value(self, embeddings: np.ndarray, labels: np.ndarray) -> float | None:
        """Returns the value of the metric, or None if it is not defined, for example if no class has two images.

        Args:
            embeddings: `[N, d]` float array. The rows are L2-normalized if the search is by cosine similarity.
            labels: `[N]` integer class labels.
        """
        raise NotImplementedError

    def value_if_new(
        self, known: MutableMapping[str, float | None], embeddings: np.ndarray, labels: np.ndarray
    ) -> float | None:
        """Returns the value of the metric and computes it only if it is not known yet.

        Metrics that are computed from other metrics override this method to share their values.

        Args:
            known: Dictionary from metric name to the value for these embeddings. Computed values are added to it.
            embeddings, labels: see `value`.
        """
        if self.name not in known:
            known[self.name] = self.value(embeddings, labels)
        return known[self.name]


def class_means(embeddings, labels):
    """Returns the mean embedding `[C, d]` (float64) and size `[C]` of each class, and each row's class `[N]`."""
    _, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    starts = np.cumsum(sizes) - sizes
    sums = np.add.reduceat(embeddings[np.argsort(numbers, kind="stable")], starts, axis=0, dtype=np.float64)
    return sums / sizes[:, None], sizes, numbers


def group_sizes(labels, clusters):
    """Returns the numbers of images in each non-empty pair of class and cluster, each class, and each cluster."""
    both = np.stack([labels, clusters], axis=1)
    return tuple(np.unique(each, axis=0, return_counts=True)[1] for each in (both, labels, clusters))


def pairs_of(sizes):
    """Returns the number of pairs within groups of these sizes."""
    sizes = np.asarray(sizes, np.int64)
    return int(np.sum(sizes * (sizes - 1)) // 2)
