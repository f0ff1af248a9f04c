"""`evaluate`: metrics of embeddings and labels, wherever they come from."""

from collections.abc import Sequence
from typing import Any

from tfdml import registry
from tfdml.evaluation.measure import measure
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.search import RetrievalTask
from tfdml.registry.arguments import Distance, Embeddings, Labels, Rows

METRICS = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8")


def evaluate(
    embeddings: Embeddings,
    labels: Labels,
    metrics: str | Sequence[str] = METRICS,
    *,
    queries: Rows | None = None,
    gallery: Rows | None = None,
    apart: Sequence[Labels] = (),
    distance: Distance = "cosine",
    index: str = "exact",
    seed: int = 0,
) -> dict[str, Any]:
    """Computes metrics of queries in a gallery; by default, of every image among all others.

    A query is excluded from its own neighbors by row. Images of other classes that are as similar as one of the query's
    class rank before it, so a collapsed embedding scores near 0. Queries whose class has no other image in the gallery
    are left out.

    Example: `evaluate(embeddings, labels, ("recall_at_1", "map_at_r", "nmi"))`.

    Args:
        embeddings: `[N, d]` array, finite.
        labels: `[N]` class numbers.
        metrics: tuple of metric specs, or one spec.
        queries: `[N]` booleans, the rows that are queries; None for all.
        gallery: `[N]` booleans, the rows that are in the gallery; None for all.
        apart: arrays `[N]` of integers, such as cameras. A gallery image of the query's class counts neither as found
            nor as missed if it equals the query in any of them.
        distance: `cosine` or `euclidean`.
        index: spec of an index, such as `ivf`, that finds the nearest images of large galleries approximately.
        seed: determines the initial centroids of K-means.

    Returns:
        `{"recall_at_1": fraction, ..., "queries": number of queries}`; with an approximate index also `index_recall`
        and `index_short_lists`.
    """
    task = RetrievalTask.of(labels, queries=queries, gallery=gallery, apart=apart)
    index = registry.create("index", index)
    return measure(embeddings, task, metrics_of(metrics), distance=distance, index=index, seed=seed).summary()
