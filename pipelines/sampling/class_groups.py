"""Rows of a dataset, class by class."""

import numpy as np


def group_by_class(labels):
    """Flat arrays of rows by class: `(rows [N], first place of each class [C], size of each class [C])`, int64."""
    labels = np.asarray(labels)
    rows = np.argsort(labels, kind="stable").astype(np.int64)
    _, starts, sizes = np.unique(labels[rows], return_index=True, return_counts=True)
    return rows, starts.astype(np.int64), sizes.astype(np.int64)
