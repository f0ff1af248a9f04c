"""Groups the rows of a dataset by class."""

import numpy as np


def group_by_class(labels):
    """Returns int64 arrays `(rows [N], start [C], size [C])`: rows sorted by class, and the place of each class."""
    labels = np.asarray(labels)
    rows = np.argsort(labels, kind="stable").astype(np.int64)
    _, starts, sizes = np.unique(labels[rows], return_index=True, return_counts=True)
    return rows, starts.astype(np.int64), sizes.astype(np.int64)
