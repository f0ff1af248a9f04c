"""Uniformity."""

from typing import Annotated

import numpy as np

from tfdml.evaluation.metrics.embedding_metric import EmbeddingMetric
from tfdml.evaluation.metrics.group_sizes import pairs_of
from tfdml.evaluation.metrics.pair_distances import squared_pair_distances
from tfdml.neighbors.nearest import unit_length
from tfdml.registry import register
from tfdml.registry.arguments import Positive, integer


@register("metric", "uniformity")
class Uniformity(EmbeddingMetric):
    """The logarithm of the mean of exp(-t d^2) over all pairs, at distance d, of embeddings scaled to unit length.

    From "Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere" (ICML
    2020). Between -4 t and 0, the value of a collapsed embedding. None if there is one image.

    Args:
        t: how fast a pair's weight falls with its distance.
        rows: number of rows whose pairs are averaged; if there are more, so many are drawn, always the same.
    """

    t: Positive = 2.0
    rows: Annotated[int, integer(2)] = 10_000

    needs_classes = False

    def value(self, embeddings, labels):
        if len(embeddings) > self.rows:
            embeddings = embeddings[np.random.default_rng(0).choice(len(embeddings), self.rows, replace=False)]
        pairs = pairs_of([len(embeddings)])
        total = sum(np.exp(-self.t * squared).sum() for squared in squared_pair_distances(unit_length(embeddings)))
        return float(np.log(total / pairs)) if pairs else None
