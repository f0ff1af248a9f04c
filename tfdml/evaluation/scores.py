"""`Scores`: what metrics give for a retrieval task, for each query too."""

import csv
import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from tfdml.evaluation.indexes.index import IndexReport
from tfdml.files.checked import naming
from tfdml.registry.arguments import FilePath, Labels


@dataclasses.dataclass(frozen=True)
class Scores:
    """The values of metrics.

    Args:
        values: metric name to value, a fraction or number; None where it is not defined.
        queries: `[Q]` rows of the queries that have a positive in the gallery, ascending; None if no metric is a mean
            over queries.
        per_query: metric name to values `[Q]`, for metrics that are means over queries.
        query_count: number of queries of a task; the mean over several tasks.
        index: `IndexReport` of ranks that are approximate; None if they are exact.
    """

    values: dict
    queries: np.ndarray | None = None
    per_query: dict = dataclasses.field(default_factory=dict)
    query_count: int | None = None
    index: IndexReport | None = None

    def summary(self) -> dict[str, Any]:
        """Returns the values, the number of queries, and how good the index was that found approximate ranks."""
        queries = {} if self.queries is None else {"queries": self.query_count}
        return {**self.values, **queries, **({} if self.index is None else self.index.summary())}

    def per_class(self, labels: Labels) -> dict[Any, dict[str, Any]]:
        """Returns the mean over the queries of each class: class number to `{metric name: mean, "queries": number}`."""
        self._check_queries()
        classes = np.asarray(labels)[self.queries]
        known, places, counts = np.unique(classes, return_inverse=True, return_counts=True)
        sums = {name: np.bincount(places, weights=values) for name, values in self.per_query.items()}
        return {
            label: {**{name: float(each[place] / count) for name, each in sums.items()}, "queries": int(count)}
            for place, (label, count) in enumerate(zip(known.tolist(), counts, strict=True))
        }

    def write_per_query(self, path: FilePath) -> None:
        """Writes a CSV file with the row of each query and its value of each metric that is a mean over queries."""
        self._check_queries()
        with naming(path), open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["row", *self.per_query])
            writer.writerows(
                zip(self.queries.tolist(), *(each.tolist() for each in self.per_query.values()), strict=True)
            )

    def _check_queries(self):
        if self.queries is None:
            raise ValueError("None of the metrics is a mean over queries; add one, such as recall_at_1.")

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Returns the mean of scores of the same metrics; a query's value is its mean over the tasks it is in."""
        if len(several) == 1:
            return several[0]
        values = {}
        for name in several[0].values:
            known = [scores.values[name] for scores in several if scores.values[name] is not None]
            values[name] = float(np.mean(known)) if known else None
        if several[0].queries is None:
            return cls(values)
        queries = np.unique(np.concatenate([scores.queries for scores in several]))
        places = np.concatenate([np.searchsorted(queries, scores.queries) for scores in several])
        times = np.bincount(places)
        per_query = {}
        for name in several[0].per_query:
            values_of_all = np.concatenate([scores.per_query[name] for scores in several])
            per_query[name] = np.bincount(places, values_of_all) / times
        count = round(np.mean([scores.query_count for scores in several]))
        index = None if several[0].index is None else IndexReport.mean([scores.index for scores in several])
        return cls(values, queries, per_query, count, index)
