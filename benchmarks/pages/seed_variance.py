"""Variance between seeds, from the recorded rows with several seeds, for intervals of rows with one seed."""

import functools
from collections import defaultdict
from pathlib import Path

import numpy as np

from tfdml.run.study.records import read


class SeedVariances:
    """The variance between seeds of each file of records, on each set of test classes.

    It depends on the length of training and on the learning rate, so studies are not pooled: on cars, rows of 1,600
    steps vary much more than rows of 3,200. Rows of one file are pooled, except for closed forms, which hardly depend
    on a seed.

    Args:
        folder: Folder with files of records.
    """

    def __init__(self, folder):
        self._found = {}
        for file in sorted(Path(folder).glob("*.jsonl")):
            rows = defaultdict(lambda: defaultdict(dict))
            for run, record in read_once(file).items():
                row, _, seed = run.rpartition("-seed")
                if "queries" in record.get("measured", {}) and not is_closed_form(record):
                    rows[_classes(record["measured"])][row][seed] = record["measured"]
            for classes, of_classes in rows.items():
                variance, degrees = _pooled(classes, of_classes.values())
                if degrees:
                    self._found[file.stem, classes] = variance, degrees

    def of(self, measured, file):
        """Returns the variance of a row's Recall@1, a fraction, between seeds, and its degrees of freedom.

        It comes from rows with several seeds of the same file and with the same test classes. If there are none, it is
        the largest of other files with these test classes, or of all. It is None if no row has several seeds.

        Args:
            measured: The entry `measured` of one of the row's records.
            file: Name of its file of records, without the ending.
        """
        classes = _classes(measured)
        if (file, classes) in self._found:
            return self._found[file, classes]
        same = [found for (_, others), found in self._found.items() if others == classes]
        return max(same or self._found.values(), default=None)


def is_closed_form(record):
    """Returns whether a run has a single step, which changes no weight: its embedding is computed, not trained."""
    return record.get("result", {}).get("step") == 1


def variance_between_seeds(queries, right):
    """Returns the variance between seeds of a row's Recall@1, and its degrees of freedom.

    A difference between two rows changes with the seed for two reasons. Some classes are easier with one seed and
    others with another, which resamples of the classes of a single seed contain already. The other part is common to
    all classes and is what such resamples miss. It is the residual variance of rows and seeds, minus the part that the
    residuals of single classes explain. Twice the result is the variance of a difference.

    Args:
        queries: Number of queries of each class or group, `[classes]`.
        right: Number of correct queries, `[rows, seeds, classes]`, with the same seeds for all rows.
    """
    rows, seeds, classes = right.shape
    recalls = right.sum(axis=2) / queries.sum()
    # How much each class adds to the error of a resample of classes.
    deviations = (right - recalls[..., None] * queries) / queries.mean()
    degrees = (rows - 1) * (seeds - 1)
    if not degrees:
        return 0.0, 0
    of_classes = np.sum(_residuals(deviations) ** 2) / (degrees * (classes - 1) * classes)
    return np.sum(_residuals(recalls) ** 2) / degrees - of_classes, degrees


def _residuals(values):
    """Returns what remains of values `[rows, seeds, ...]` without the means of rows and of seeds."""
    mean = values.mean(axis=(0, 1), keepdims=True)
    return values - values.mean(axis=0, keepdims=True) - values.mean(axis=1, keepdims=True) + mean


def _pooled(classes, rows):
    """Returns the mean variance of rows, weighted by degrees of freedom; rows with the same seeds are one group."""
    queries, groups = map(np.array, classes)
    by_seeds = defaultdict(list)
    for row in rows:
        by_seeds[tuple(sorted(row))].append([row[seed]["right"] for seed in sorted(row)])
    if groups.size:
        of_group = np.eye(groups.max() + 1)[groups]
        queries = queries @ of_group
        by_seeds = {seeds: np.array(right) @ of_group for seeds, right in by_seeds.items()}
    found = [variance_between_seeds(queries, np.array(right)) for right in by_seeds.values()]
    degrees = sum(each for _, each in found)
    return (max(0.0, sum(variance * each for variance, each in found) / degrees) if degrees else 0.0), degrees


def _classes(measured):
    return tuple(measured["queries"]), tuple(measured.get("groups", ()))


read_once = functools.cache(read)
