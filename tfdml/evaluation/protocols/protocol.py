"""The protocols of retrieval: all images, queries in a gallery, and random galleries."""

import copy
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np

from tfdml import registry
from tfdml.evaluation.evaluate import measure, pairs_of_task
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.metrics.base import Metric
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.verification.pairs import RetrievalPairs
from tfdml.registry import register
from tfdml.registry.arguments import Count, Distance, Embeddings, Seed, Text, either, several, text
from tfdml.runtime.workers import ALONE, Workers

# Arguments of every protocol.
MetricSpecs = Annotated[str | Sequence[str], either(text(), several(text()))]


class Protocol:
    """Which images are queries, which are the gallery, and what is measured.

    Rows are a `pipelines.datasets.Split`, or anything with its columns: `labels`, `cameras`, `groups`, `is_query`,
    `is_gallery`.

    Args:
        metrics: tuple of metric specs, or one spec.
        distance: `cosine` or `euclidean`.
        reranking: spec of a reranking, or None.
        index: spec of an index.
    """

    def __init__(self, metrics: MetricSpecs, distance: Distance, reranking: Text | None = None, index: Text = "exact"):
        self.metrics = metrics_of(metrics)
        self.distance = distance
        self.reranking = None if reranking is None else registry.create("reranking", reranking)
        if reranking and distance != "cosine":
            raise ValueError(f"reranking={reranking!r} is by cosine similarity; received distance={distance!r}.")
        self.index = self._index_of(index)

    def tasks(self, rows: Any) -> list[RetrievalTask]:
        """Returns the list of `RetrievalTask` that rows give, over which metrics are means; by default all in all."""
        return [RetrievalTask.of(rows.labels)]

    def scores(
        self, embeddings: Embeddings, rows: Any, metrics: Sequence[Metric] | None = None, workers: Workers = ALONE
    ) -> Scores:
        """Returns the `Scores` of embeddings `[N, d]`.

        Args:
            embeddings: `[N, d]` array.
            rows: a `Split`, or its columns.
            metrics: list of `Metric`; None for those of the protocol.
            workers: the `Workers` that measure together, with the same arguments and results.
        """
        metrics = self.metrics if metrics is None else metrics
        options = {"distance": self.distance, "reranking": self.reranking, "index": self.index}
        several = [measure(embeddings, task, metrics, workers=workers, **options) for task in self.tasks(rows)]
        return Scores.mean(several)

    def pairs(self, embeddings: Embeddings, rows: Any) -> RetrievalPairs:
        """Returns the `RetrievalPairs` of queries and gallery; where there are several tasks, of all rows.

        Args:
            embeddings: `[N, d]` array.
            rows: a `Split`, or its columns.
        """
        tasks = self.tasks(rows)
        task = tasks[0] if len(tasks) == 1 else RetrievalTask.of(rows.labels)
        return pairs_of_task(embeddings, task, self.distance)

    def __call__(self, embeddings: Embeddings, rows: Any, metrics: Sequence[Metric] | None = None) -> dict[str, Any]:
        """Returns the values of the metrics by name, and the number of queries; arguments as of `scores`."""
        return self.scores(embeddings, rows, metrics).summary()

    def with_metrics(self, specs: str | Sequence[str]) -> Self:
        """Returns the protocol with metrics of other specs."""
        changed = copy.copy(self)
        changed.metrics = metrics_of(specs)
        return changed

    def with_index(self, spec: str) -> Self:
        """Returns the protocol with the index of another spec."""
        changed = copy.copy(self)
        changed.index = self._index_of(spec)
        return changed

    def _index_of(self, spec):
        index = registry.create("index", spec)
        if index.is_approximate and self.reranking is not None:
            raise ValueError(f"A reranking needs the whole gallery, not index={spec!r}. Leave one of the two out.")
        return index

    @property
    def while_training(self) -> list[Metric]:
        """The metrics that are measured at every evaluation."""
        return [metric for metric in self.metrics if metric.while_training]

    def selecting(self, name: str) -> str:
        """Returns the name of the metric that selects the best model, after checking it.

        Args:
            name: name of one of the metrics; empty for the first that can.
        """
        able = [metric.name for metric in self.while_training if metric.larger_is_better]
        if not able or name not in ("", *able):
            raise ValueError(
                f"--select_by={name or '...'} expects a metric of the protocol that is measured while training, and "
                f"larger for better models: {', '.join(able) or 'it has none, add recall_at_1 to --metrics'}."
            )
        return name or able[0]


def protocol_of(spec, metrics=(), index=""):
    """Creates a protocol from its spec.

    Args:
        spec: protocol spec.
        metrics: metric specs to measure instead of the protocol's own; empty for its own.
        index: spec of the index to search by instead of the protocol's own; empty for its own.
    """
    protocol = registry.create("protocol", spec)
    protocol = protocol.with_metrics(metrics) if metrics else protocol
    protocol = protocol.with_index(index) if index else protocol
    protocol.index.check(protocol.metrics)
    return protocol


SELF_RETRIEVAL_METRICS = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8")
SELF_RETRIEVAL_METRICS += ("r_precision", "map_at_r", "nmi", "f1")


@register("protocol", "self_retrieval")
class SelfRetrieval(Protocol):
    """Searches every image among all others (CUB, Cars, SOP).

    Args:
        metrics: metric specs, such as ("recall_at_1", "map_at_r").
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
        reranking: a spec such as "query_expansion(k=5)", for metrics of ranks; None ranks by similarity.
        index: "exact", or for galleries in the millions a spec such as "ivf" or "hnsw(ef_search=200)".
    """

    def __init__(
        self,
        metrics: MetricSpecs = SELF_RETRIEVAL_METRICS,
        distance: Distance = "cosine",
        reranking: Text | None = None,
        index: Text = "exact",
    ):
        super().__init__(metrics, distance, reranking, index)


QUERY_GALLERY_METRICS = ("recall_at_1", "recall_at_5", "recall_at_10", "map")


@register("protocol", "query_gallery")
class QueryGallery(Protocol):
    """Searches queries in a gallery, without images that share class and camera, or class and group.

    If no rows are marked as queries or gallery, as in validation splits, every row is searched among all others.

    Args:
        metrics: metric specs, such as ("recall_at_1", "map").
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
        reranking: a spec such as "query_expansion(k=5)", for metrics of ranks; None ranks by similarity.
        index: "exact", or for galleries in the millions a spec such as "ivf" or "hnsw(ef_search=200)".
        junk: class number of gallery images that are removed before searching, such as -1; None removes none.
            Distractors, which count as wrong, need no mark: their class has no query.
        pooling: "mean" or "max" to search for several queries of a class and camera as one: their embeddings are
            averaged, or the largest of each component is taken. None searches for each.
    """

    def __init__(
        self,
        metrics: MetricSpecs = QUERY_GALLERY_METRICS,
        distance: Distance = "cosine",
        junk: int | None = None,
        reranking: Text | None = None,
        index: Text = "exact",
        pooling: Literal["mean", "max"] | None = None,
    ):
        super().__init__(metrics, distance, reranking, index)
        self.junk, self.pooling = junk, pooling

    def tasks(self, rows):
        apart = [column for column in (rows.cameras, rows.groups) if column is not None]
        if self.pooling and not apart:
            raise ValueError(
                f"pooling={self.pooling!r} is for queries that share class and camera, or class and group, but these "
                "images have no cameras and no groups. Add such a column, or leave out pooling."
            )
        queries, gallery = rows.is_query, rows.is_gallery
        if self.junk is not None:
            counted = np.asarray(rows.labels) != self.junk
            queries, gallery = (counted if marks is None else counted & marks for marks in (queries, gallery))
        return [RetrievalTask.of(rows.labels, queries=queries, gallery=gallery, apart=apart, pooling=self.pooling)]


RANDOM_GALLERY_METRICS = ("recall_at_1", "recall_at_5", "map")


@register("protocol", "random_gallery")
class RandomGallery(Protocol):
    """Searches all images in a gallery of one random image per class; the mean of several draws (VehicleID).

    Args:
        draws: number of random galleries.
        seed: determines the galleries.
        metrics: metric specs, such as ("recall_at_1", "map").
        distance: "cosine", or "euclidean" for embeddings whose length has a meaning.
        reranking: a spec such as "query_expansion(k=5)", for metrics of ranks; None ranks by similarity.
        index: "exact", or for galleries in the millions a spec such as "ivf" or "hnsw(ef_search=200)".
    """

    def __init__(
        self,
        draws: Count = 10,
        seed: Seed = 0,
        metrics: MetricSpecs = RANDOM_GALLERY_METRICS,
        distance: Distance = "cosine",
        reranking: Text | None = None,
        index: Text = "exact",
    ):
        super().__init__(metrics, distance, reranking, index)
        self.draws, self.seed = draws, seed

    def tasks(self, rows):
        galleries = [one_of_each(rows.labels, np.random.default_rng([self.seed, draw])) for draw in range(self.draws)]
        return [RetrievalTask.of(rows.labels, queries=~gallery, gallery=gallery) for gallery in galleries]


def one_of_each(labels, random):
    """Returns booleans `[N]` that mark one random row of each class."""
    order = random.permutation(len(labels))
    _, first = np.unique(np.asarray(labels)[order], return_index=True)
    chosen = np.zeros(len(labels), bool)
    chosen[order[first]] = True
    return chosen
