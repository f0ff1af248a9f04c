"""Distances of losses that compare distances: functions of embeddings `[B, d]` that return `[B, B]`, larger if farther.

A distance is an argument of such a loss, as in `Triplet(distance="cosine")`. With `queries`, functions return the
distances `[queries, B]` of the first rows, and gradients move only these.
"""

from collections.abc import Callable
from typing import Annotated

from tfdml.functional.distances import (
    cosines,
    distances,
    dot_products,
    power_distances,
    signal_to_noise_distances,
    squared_distances,
)
from tfdml.registry import register
from tfdml.registry.arguments import Tensor, number

Measure = Callable[..., Tensor]


@register("distance", "euclidean")
def euclidean() -> Measure:
    """The Euclidean distance `|x - y|`."""
    return lambda embeddings, queries=None: distances(embeddings, queries=queries)


@register("distance", "squared_euclidean")
def squared_euclidean() -> Measure:
    """The squared Euclidean distance `|x - y|^2`."""
    return lambda embeddings, queries=None: squared_distances(embeddings, queries=queries)


@register("distance", "cosine")
def cosine() -> Measure:
    """The cosine distance, 1 minus the cosine of the angle between two embeddings of any length, from 0 to 2."""
    return lambda embeddings, queries=None: 1.0 - cosines(embeddings, queries)


@register("distance", "dot")
def dot() -> Measure:
    """The negative dot product `-x y`, which is lower than 0 for similar embeddings."""
    return lambda embeddings, queries=None: -dot_products(embeddings, queries)


@register("distance", "lp")
def lp(p: Annotated[float, number(at_least=1)] = 1.0, power: bool = False) -> Measure:
    """The Lp distance, the p-th root of the sum of `|x_i - y_i|^p`, or that sum if `power` is `True`."""

    def measure(embeddings, queries=None):
        return power_distances(embeddings, p, root=not power, queries=queries)

    return measure


@register("distance", "signal_to_noise")
def signal_to_noise() -> Measure:
    """The signal-to-noise distance, the variance of `x_i - y_i` over dimensions i divided by the variance of x_i.

    The anchor is x. It is from Yuan et al., Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning,
    2019.
    """
    return signal_to_noise_distances
