"""`Metric`: what the measures of embeddings have in common."""

import re

from tfdml import registry
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
        return _metric_of(spec)


def _metric_of(spec):
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
    """Creates metrics from their specs, or from one spec; no two may have the same name.

    Args:
        specs: tuple of specs, or one spec.
    """
    metrics = [metric_of(spec) for spec in ((specs,) if isinstance(specs, str) else specs)]
    names = [metric.name for metric in metrics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Expected each metric once, received {', '.join(twice)} more than once.")
    return metrics
