"""Queries are searched in a gallery."""

from typing import Literal

import numpy as np

from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.search import RetrievalTask
from tfdml.registry import register
from tfdml.registry.arguments import Distance, Text

METRICS = ("recall_at_1", "recall_at_5", "recall_at_10", "map")


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
        metrics: MetricSpecs = METRICS,
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
