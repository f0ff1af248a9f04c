"""Retrieval protocols: all images, queries in a gallery, and random galleries."""

import copy
import dataclasses
import warnings
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

# Type of the argument `metrics` of every protocol.
MetricSpecs = Annotated[str | Sequence[str], either(text(), several(text()))]


class Protocol:
    """Base class of protocols, which define queries, gallery and metrics of an evaluation.

    Rows are a `pipelines.datasets.Split`, or any object with its columns: `labels`, `cameras`, `groups`, `is_query` and
    `is_gallery`, and optionally `class_names`.

    Args:
        metrics: Metric spec or sequence of specs.
        distance: `"cosine"` or `"euclidean"`.
        reranking: Spec of a reranking. If `None`, images are ranked by similarity. Defaults to `None`.
        index: Spec of an index. Defaults to `"exact"`.

    Raises:
        ValueError: If a spec is invalid, or if `reranking` is combined with Euclidean distance or an approximate index.

    Example:

    ```python
    from types import SimpleNamespace

    from tfdml.evaluation.protocols import protocol_of

    rows = SimpleNamespace(labels=np.array([0, 0, 1, 1]))
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    protocol_of("self_retrieval(metrics='recall_at_1')")(embeddings, rows)  # {'recall_at_1': 0.5, 'queries': 4}
    ```
    """

    # Whether the embeddings of captions are measured as well.
    takes_texts = False

    def __init__(self, metrics: MetricSpecs, distance: Distance, reranking: Text | None = None, index: Text = "exact"):
        self.metrics = metrics_of(metrics)
        self.distance = distance
        self.reranking = None if reranking is None else registry.create("reranking", reranking)
        if reranking and distance != "cosine":
            raise ValueError(f"reranking={reranking!r} needs cosine similarity. Received: distance={distance!r}.")
        self.index = self._index_of(index)

    def tasks(self, rows: Any) -> list[RetrievalTask]:
        """Returns the list of `RetrievalTask` objects to average over. By default, one task with all rows."""
        return [RetrievalTask.of(rows.labels)]

    def scores(
        self, embeddings: Embeddings, rows: Any, metrics: Sequence[Metric] | None = None, workers: Workers = ALONE
    ) -> Scores:
        """Returns the `Scores` of embeddings `[N, d]`.

        Args:
            embeddings: `[N, d]` array.
            rows: A `Split`, or an object with its columns.
            metrics: List of `Metric` objects. If `None`, the protocol's metrics are used. Defaults to `None`.
            workers: The `Workers` that measure together. All of them pass the same arguments and receive the same
                result. Defaults to a single process.
        """
        metrics = self.metrics if metrics is None else metrics
        options = {"distance": self.distance, "reranking": self.reranking, "index": self.index}
        several = [measure(embeddings, task, metrics, workers=workers, **options) for task in self.tasks(rows)]
        return Scores.mean(several)

    def scores_in_gallery(
        self,
        embeddings: Embeddings,
        gallery: Embeddings,
        rows: Any,
        metrics: Sequence[Metric] | None = None,
        workers: Workers = ALONE,
    ) -> Scores:
        """Returns the `Scores` of queries that one model embeds, in a gallery that another model embeds.

        Both models must share a space, as a student and its teacher can (asymmetric retrieval). As in `scores`, an
        image is not searched for itself.

        Args:
            embeddings: `[N, d]` array, of which the queries are used.
            gallery: `[N, d]` array of the same images, of which the gallery is used.
            rows, metrics, workers: see `scores`.
        """
        metrics = self.metrics if metrics is None else metrics
        both, count = np.concatenate([embeddings, gallery]), len(embeddings)
        images = np.tile(np.arange(count), 2)
        options = {"distance": self.distance, "reranking": self.reranking, "index": self.index}
        several = []
        for task in self.tasks(rows):
            # Equal images count as of one camera, so that the gallery's copy of a query is ignored.
            apart = (*(np.tile(column, 2) for column in task.apart), *([] if task.pooling else [images]))
            twice = dataclasses.replace(task, labels=np.tile(task.labels, 2), gallery=count + task.gallery, apart=apart)
            several.append(measure(both, twice, metrics, workers=workers, **options))
        return Scores.mean(several)

    def pairs(self, embeddings: Embeddings, rows: Any) -> RetrievalPairs:
        """Returns the `RetrievalPairs` of queries and gallery.

        If there are several tasks, the pairs are of all rows.

        Args:
            embeddings: `[N, d]` array.
            rows: A `Split`, or an object with its columns.
        """
        tasks = self.tasks(rows)
        task = tasks[0] if len(tasks) == 1 else RetrievalTask.of(rows.labels)
        return pairs_of_task(embeddings, task, self.distance)

    def __call__(self, embeddings: Embeddings, rows: Any, metrics: Sequence[Metric] | None = None) -> dict[str, Any]:
        """Returns the metrics by name, and the number of queries; for the arguments, see `scores`."""
        return self.scores(embeddings, rows, metrics).summary()

    def with_metrics(self, specs: str | Sequence[str]) -> Self:
        """Returns a copy of the protocol with metrics of other specs."""
        changed = copy.copy(self)
        changed.metrics = metrics_of(specs)
        return changed

    def with_index(self, spec: str) -> Self:
        """Returns a copy of the protocol with an index of another spec."""
        changed = copy.copy(self)
        changed.index = self._index_of(spec)
        return changed

    def _index_of(self, spec):
        index = registry.create("index", spec)
        if index.is_approximate and self.reranking is not None:
            raise ValueError(f"A reranking needs the whole gallery, not index={spec!r}. Remove one of the two.")
        return index

    @property
    def while_training(self) -> list[Metric]:
        """The metrics that a run measures at every evaluation."""
        return [metric for metric in self.metrics if metric.while_training]

    def selecting(self, name: str) -> str:
        """Checks and returns the name of the metric that selects the best model.

        Args:
            name: String. Name of one of the metrics. If empty, the first metric that can select a model is used.
        """
        able = [metric.name for metric in self.while_training if metric.larger_is_better]
        if not able or name not in ("", *able):
            raise ValueError(
                f"--select_by={name or '...'} must be a metric of the protocol that is measured during training and is "
                f"larger for better models: {', '.join(able) or 'it has none, so add recall_at_1 to --metrics'}."
            )
        return name or able[0]


def protocol_of(spec, metrics=(), index=""):
    """Creates a protocol from its spec.

    Args:
        spec: String. Protocol spec.
        metrics: Sequence of metric specs that replace the protocol's metrics. If empty, they are kept. Defaults to
            `()`.
        index: String. Spec of an index that replaces the protocol's index. If empty, it is kept. Defaults to `""`.

    Returns:
        A `Protocol`.

    Raises:
        ValueError: If a spec is invalid, or if the index cannot find what a metric needs.
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
    """Searches every image among all others, as for CUB-200-2011, Cars196 and Stanford Online Products.

    Args:
        metrics: Metric spec or sequence of specs. Defaults to `("recall_at_1", "recall_at_2", "recall_at_4",
            "recall_at_8", "r_precision", "map_at_r", "nmi", "f1")`.
        distance: `"cosine"`, or `"euclidean"` if the lengths of embeddings have a meaning. Defaults to `"cosine"`.
        reranking: Spec of a reranking for rank metrics, such as `"query_expansion(k=5)"`. If `None`, images are ranked
            by similarity. Defaults to `None`.
        index: `"exact"`, or the spec of an approximate index for galleries with millions of images, such as `"ivf"` or
            `"hnsw(ef_search=200)"`. Defaults to `"exact"`.
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
    """Searches queries in a gallery and ignores images of the query's class from the same camera or group.

    This is the protocol of person and vehicle re-identification, such as Market-1501. If no rows are marked as queries
    or gallery, as in validation splits, every row is searched among all others.

    Args:
        metrics: Metric spec or sequence of specs. Defaults to `("recall_at_1", "recall_at_5", "recall_at_10", "map")`.
        distance: `"cosine"`, or `"euclidean"` if the lengths of embeddings have a meaning. Defaults to `"cosine"`.
        junk: Integer or `None`. Class of images to remove before searching, such as `-1`. It is compared with class
            names, such as the labels in a table, and with integer labels if classes have no names. If `None`, no image
            is removed. Distractors, which count as wrong, need no mark, because their class has no query. Defaults to
            `None`.
        reranking: Spec of a reranking for rank metrics, such as `"query_expansion(k=5)"`. If `None`, images are ranked
            by similarity. Defaults to `None`.
        index: `"exact"`, or the spec of an approximate index for galleries with millions of images, such as `"ivf"` or
            `"hnsw(ef_search=200)"`. Defaults to `"exact"`.
        pooling: `"mean"` or `"max"`. How to combine the embeddings of queries with the same class and camera or group
            into one query: by their mean, or by the maximum of each component. If `None`, each query is searched on its
            own. Defaults to `None`.
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
                f"pooling={self.pooling!r} combines queries with the same class and camera or group, but these images "
                "have neither cameras nor groups. Add such a column, or remove pooling."
            )
        queries, gallery = rows.is_query, rows.is_gallery
        if self.junk is not None:
            counted = ~self._is_junk(rows)
            if counted.all() and not (queries is None and gallery is None):
                warnings.warn(f"junk={self.junk} removes no image, because no class has this name.", stacklevel=2)
            queries, gallery = (counted if marks is None else counted & marks for marks in (queries, gallery))
        return [RetrievalTask.of(rows.labels, queries=queries, gallery=gallery, apart=apart, pooling=self.pooling)]

    def _is_junk(self, rows):
        """Returns booleans `[N]`. Most datasets number their classes from 0, so their names are compared."""
        # Rows that are not a `Split` may have labels alone.
        labels, names = np.asarray(rows.labels), getattr(rows, "class_names", None) or {}
        return np.isin(labels, [each for each in set(labels.tolist()) if str(names.get(each, each)) == str(self.junk)])


RANDOM_GALLERY_METRICS = ("recall_at_1", "recall_at_5", "map")


@register("protocol", "random_gallery")
class RandomGallery(Protocol):
    """Searches images in a gallery of one random image per class and averages several draws, as for VehicleID.

    Args:
        draws: Integer. Number of random galleries. Defaults to `10`.
        seed: Integer. Determines the galleries. Defaults to `0`.
        metrics: Metric spec or sequence of specs. Defaults to `("recall_at_1", "recall_at_5", "map")`.
        distance: `"cosine"`, or `"euclidean"` if the lengths of embeddings have a meaning. Defaults to `"cosine"`.
        reranking: Spec of a reranking for rank metrics, such as `"query_expansion(k=5)"`. If `None`, images are ranked
            by similarity. Defaults to `None`.
        index: `"exact"`, or the spec of an approximate index for galleries with millions of images, such as `"ivf"` or
            `"hnsw(ef_search=200)"`. Defaults to `"exact"`.
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
