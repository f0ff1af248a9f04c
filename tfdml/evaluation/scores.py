"""`Scores`: the values of metrics for a retrieval task, overall and per query."""

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
    """The values of metrics for a retrieval task, overall and per query.

    Args:
        values: Dictionary from metric name to value, a fraction or a number. The value is `None` if the metric is not
            defined for these embeddings.
        queries: `[Q]` ascending rows of the queries that have a positive in the gallery. `None` if no metric is a mean
            over queries. Defaults to `None`.
        per_query: Dictionary from metric name to values `[Q]`, for metrics that are means over queries. Defaults to
            `{}`.
        query_count: Integer. Number of queries of a task, or its mean over several tasks. Defaults to `None`.
        index: `IndexReport` if an index approximated the ranks, or `None` if they are exact. Defaults to `None`.
    """

    values: dict
    queries: np.ndarray | None = None
    per_query: dict = dataclasses.field(default_factory=dict)
    query_count: int | None = None
    index: IndexReport | None = None

    def summary(self) -> dict[str, Any]:
        """Returns the values, the number of queries, and the accuracy of the index if ranks are approximate."""
        queries = {} if self.queries is None else {"queries": self.query_count}
        return {**self.values, **queries, **({} if self.index is None else self.index.summary())}

    def per_class(self, labels: Labels) -> dict[Any, dict[str, Any]]:
        """Returns the means over the queries of each class: class label to `{metric name: mean, "queries": number}`."""
        self._check_queries()
        classes = np.asarray(labels)[self.queries]
        known, places, counts = np.unique(classes, return_inverse=True, return_counts=True)
        sums = {name: np.bincount(places, weights=values) for name, values in self.per_query.items()}
        return {
            label: {**{name: float(each[place] / count) for name, each in sums.items()}, "queries": int(count)}
            for place, (label, count) in enumerate(zip(known.tolist(), counts, strict=True))
        }

    def write_per_query(self, path: FilePath) -> None:
        """Writes a CSV file with the row of each query and its values of the metrics that are means over queries."""
        self._check_queries()
        with naming(path), open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["row", *self.per_query])
            writer.writerows(
                zip(self.queries.tolist(), *(each.tolist() for each in self.per_query.values()), strict=True)
            )

    def _check_queries(self):
        if self.queries is None:
            raise ValueError("None of the metrics is a mean over queries. Add one, such as recall_at_1.")

    @classmethod
    def mean(cls, several: Sequence[Self]) -> Self:
        """Returns the mean of several scores with the same metrics.

        The value of a query is its mean over the tasks in which it is a query.
        """
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
