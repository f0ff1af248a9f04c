"""Sizes of classes, of clusters, and of what they share."""

import numpy as np


def group_sizes(labels, clusters):
    """Returns the numbers of images in each non-empty pair of class and cluster, in each class, and in each cluster."""
    both = np.stack([labels, clusters], axis=1)
    return tuple(np.unique(each, axis=0, return_counts=True)[1] for each in (both, labels, clusters))


def pairs_of(sizes):
    """Returns the number of pairs within groups of these sizes."""
    sizes = np.asarray(sizes, np.int64)
    return int(np.sum(sizes * (sizes - 1)) // 2)
