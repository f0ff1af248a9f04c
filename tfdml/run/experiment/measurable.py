"""Which metrics a dataset without classes has."""

import logging

from tfdml.evaluation.metrics import PairMetric, metric_of


def measurable(dataset, metrics):
    """Returns those metric specs that the dataset can be measured by, and says which are left out.

    Args:
        dataset: the `Dataset`.
        metrics: metric specs; empty: the protocol's own.
    """
    if dataset.has_classes:
        return metrics
    left_out = [spec for spec in metrics if not _has(dataset, metric_of(spec))]
    if left_out:
        logging.getLogger(__name__).warning(
            "%s has no classes, so these metrics are left out: %s.", dataset.name, ", ".join(left_out)
        )
    return [spec for spec in metrics if spec not in left_out]


def _has(dataset, metric):
    """Whether it needs no classes, or only what is given in their place: pairs, or several labels."""
    if dataset.test.attributes is not None and metric.takes_several:
        return True
    has_relations = dataset.test.relations is not None
    return not metric.needs_classes or (has_relations and isinstance(metric, PairMetric) and metric.of_counts)
