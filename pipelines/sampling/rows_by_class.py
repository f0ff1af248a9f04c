"""Groups the rows of a dataset by class."""

import numpy as np

from tfdml.registry.arguments import Labels


def each_alone(labels: Labels) -> bool:
    """Whether no two rows are of one class, so that classes tell nothing of them."""
    return len(np.unique(labels)) == len(labels)


def group_by_class(labels: Labels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns int64 arrays `(rows [N], start [C], size [C])`: rows sorted by class, and the place of each class."""
    labels = np.asarray(labels)
    rows = np.argsort(labels, kind="stable").astype(np.int64)
    ordered = labels[rows]
    # They are sorted already, so that nothing has to be sorted again.
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(rows)])
    return rows, starts, np.diff(np.append(starts, len(rows)))
