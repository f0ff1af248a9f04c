"""`RetrievalTask`: which rows are queries, which form the gallery, and which pairs do not count."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np

from tfdml.registry.arguments import Embeddings, Labels, Rows


@dataclasses.dataclass(frozen=True)
class RetrievalTask:
    """Queries in a gallery.

    A query is never its own neighbor. A gallery image of the query's class counts neither as found nor as missed if it
    equals the query in any of the `apart` columns.

    Args:
        labels: `[N]` class numbers.
        queries: `[Q]` rows that are queries.
        gallery: `[G]` rows that are searched.
        apart: columns `[N]` of integers, such as cameras.
        pooling: `mean` or `max` of embeddings, for one query of all those that share class and `apart` columns; None:
            each is a query.
    """

    labels: np.ndarray
    queries: np.ndarray
    gallery: np.ndarray
    apart: tuple = ()
    pooling: str | None = None

    @classmethod
    def of(
        cls,
        labels: Labels,
        *,
        queries: Rows | None = None,
        gallery: Rows | None = None,
        apart: Sequence[Labels] = (),
        pooling: Literal["mean", "max"] | None = None,
    ) -> Self:
        """Creates a task from booleans `[N]`; None marks all rows.

        Args:
            labels: `[N]` class numbers.
            queries, gallery: `[N]` booleans, or None.
            apart: columns `[N]`.
            pooling: None, `mean` or `max`.
        """
        labels = flat_labels(labels)
        # Of floats NaN, and of objects, such as texts, NaN or None: neither is itself.
        may_miss = labels.tolist() if labels.dtype.kind in "fO" else []
        missing = [row for row, label in enumerate(may_miss) if label is None or label != label]
        if missing:
            raise ValueError(f"{len(missing)} of {len(labels)} labels are missing; the first is row {missing[0]}.")
        numbers = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        if len(labels) > 1 and not numbers.any():
            warnings.warn(
                f"All {len(labels)} labels are equal, so every neighbor is right: Recall@1 and the like are 1 for any "
                "embeddings.",
                stacklevel=3,
            )
        columns = tuple(_column(column, len(labels)) for column in apart)
        return cls(numbers, *(_rows(marks, len(labels)) for marks in (queries, gallery)), columns, pooling)

    def countable(self, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Returns booleans `[Q, R]`: whether a gallery row of a query's class counts as found.

        Args:
            queries: `[Q]` rows.
            rows: `[R]` rows of the gallery.
        """
        counted = queries[:, None] != rows
        for column in self.apart:
            counted &= column[queries][:, None] != column[rows]
        return counted

    def check(self, embeddings: Embeddings) -> None:
        """Raises a ValueError if embeddings are not `[N, d]` numbers."""
        if embeddings.ndim != 2 or not all(embeddings.shape) or embeddings.dtype.kind not in "fiu":
            raise ValueError(
                f"Expected embeddings [N, d] of numbers, received shape {embeddings.shape} and type {embeddings.dtype}."
            )
        if len(embeddings) != len(self.labels):
            raise ValueError(
                f"Expected an embedding for each label, received shapes {embeddings.shape} and {self.labels.shape}."
            )


def flat_labels(labels):
    """Returns labels as an array `[N]`; `[N, 1]`, as some datasets have them, become flat."""
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        return labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"Expected labels [N], one class number a row; received shape {labels.shape}.")
    return labels


def _column(column, count):
    column = np.asarray(column)
    if column.shape != (count,):
        raise ValueError(f"Expected one value for each of {count} rows, received shape {column.shape}.")
    return column


def _rows(marks, count):
    marks = np.ones(count, bool) if marks is None else np.asarray(marks, bool)
    if marks.shape != (count,):
        raise ValueError(f"Expected one boolean for each of {count} rows, received shape {marks.shape}.")
    return np.flatnonzero(marks)
