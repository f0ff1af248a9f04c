"""Which metrics a dataset without classes has."""

from absl import logging

from tfdml.evaluation.metrics import metric_of


def measurable(dataset, metrics):
    """Returns those metric specs that the dataset can be measured by, and says which are left out.

    Args:
        dataset: the `Dataset`.
        metrics: metric specs; empty: the protocol's own.
    """
    if not dataset.measured_as:
        return metrics
    left_out = [spec for spec in metrics if metric_of(spec).needs_classes]
    if left_out:
        logging.warning("%s has no classes, so these metrics are left out: %s.", dataset.name, ", ".join(left_out))
    return [spec for spec in metrics if spec not in left_out]
