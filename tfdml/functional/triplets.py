"""Triplets that a miner selects in a batch, in loops over the positives of all anchors, so that none is ever listed."""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from tfdml.functional.distances import known_gradient
from tfdml.functional.pairs import count_at_most, hardest_negative, over_positives
from tfdml.functional.statistics import pair_histograms
from tfdml.registry.arguments import Tensor

# Differences of distances at unit length are in this range. The histogram of a dynamic margin has this number of steps.
WIDEST_GAP, STEPS = 2.0, 10

Cost = Callable[[Tensor], tuple[Tensor, Tensor]]


class Mined(NamedTuple):
    """The pairs and triplets that a miner selects. Each row is an anchor.

    Args:
        positives, negatives: `[B, B]` masks, or weights of at least 0. Every positive of an anchor forms a triplet with
            every negative of the anchor, and the triplet's weight is the product of theirs.
        negative: `[B, 1]` or `[B, B]`, the distance to the only negative of each positive pair, or None if pairs have
            several negatives.
        chosen: Function that returns the weights `[B, B]` of the negatives of a single positive of each anchor, or None
            if an anchor's positives do not differ in their negatives. Its argument `[B, B]` is 1 at the positives.
    """

    positives: Tensor
    negatives: Tensor
    negative: Tensor | None = None
    chosen: Callable[[Tensor], Tensor] | None = None

    def pairs(self, dtype: str) -> tuple[Tensor, Tensor]:
        """Returns the selected positive and negative pairs: masks or weights `[B, B]`.

        If the negatives depend on the positive, a pair's weight is the number of triplets with this pair.
        """
        if self.chosen is None:
            return self.positives, self.negatives

        def add(own, sums):
            weights = self.weights_of(own)
            return sums[0] + own * ops.sum(weights, axis=1, keepdims=True), sums[1] + weights

        none = ops.zeros_like(self.positives, dtype=dtype)
        return over_positives(self.positives, add, (none, none))

    def weights_of(self, own: Tensor) -> Tensor:
        """Returns the weights `[B, B]` of the triplets of one positive of each anchor, at which `own` is 1."""
        weights = ops.cast(self.negatives, own.dtype)
        if self.chosen is not None:
            weights = weights * ops.cast(self.chosen(own), own.dtype)
        return ops.sum(own * ops.cast(self.positives, own.dtype), axis=1, keepdims=True) * weights


class TripletSums(NamedTuple):
    """Sums `[B]` over the triplets of each anchor.

    Args:
        total: sums of weighted costs.
        count, nonzero: sums of the weights of all triplets, and of triplets with a positive cost.
    """

    total: Tensor
    count: Tensor
    nonzero: Tensor


def to_positive(own: Tensor, distance: Tensor) -> Tensor:
    """Returns the distance `[B, 1]` of each anchor to one of its positives, at which `own [B, B]` is 1."""
    return ops.sum(own * distance, axis=1, keepdims=True)


def from_positive(own: Tensor, distance: Tensor) -> Tensor:
    """Returns the distances `[B, B]` to all rows from one positive of each anchor, at which `own` is 1."""
    return ops.take(distance, ops.argmax(own, axis=1), axis=0)


def hinge(margin: float) -> Cost:
    """Returns the cost `max(0, gap + margin)` of the gap between the distances to a positive and to a negative."""

    def cost(gap):
        slopes = ops.cast(gap + margin > 0.0, gap.dtype)
        return slopes * (gap + margin), slopes

    return cost


def softplus(margin: float) -> Cost:
    """Returns the cost `log(1 + exp(gap + margin))`."""
    return lambda gap: (ops.softplus(gap + margin), ops.sigmoid(gap + margin))


def dynamic(distance: Tensor, mined: Mined) -> Cost:
    """Returns the cost of a gap as the gap times the share of triplets with a smaller gap, from a histogram."""

    def add(own, sums):
        gaps = to_positive(own, distance) - distance
        weights = mined.weights_of(own)
        counted, _ = pair_histograms(gaps, weights > 0, ops.zeros_like(weights > 0), -WIDEST_GAP, WIDEST_GAP, STEPS)
        return (sums[0] + ops.sum(counted, axis=0),)

    distance = ops.stop_gradient(distance)
    (counts,) = over_positives(mined.positives, add, (ops.zeros((STEPS + 1,), dtype=distance.dtype),))
    shares = ops.cumsum(counts) / ops.maximum(ops.sum(counts), 1.0)

    def cost(gap):
        places = ops.cast(ops.floor((gap + WIDEST_GAP) * (STEPS / (2.0 * WIDEST_GAP))), "int32")
        slopes = ops.take(shares, ops.clip(places, 0, STEPS))
        return slopes * gap, slopes

    return cost


def triplet_sums(distance: Tensor, mined: Mined, cost: Cost, swap: bool = False) -> TripletSums:
    """Sums the costs of all selected triplets. Memory grows with `B^2`, time with `B^2` times the most positives.

    Args:
        distance: `[B, B]`, or `[queries, B]`.
        mined: see `Mined`.
        cost: function that returns the cost of gaps `[B, B]` and its derivative.
        swap: whether the nearer of anchor and positive is compared with the negative. It needs all rows as anchors.
    """

    @known_gradient
    def compute(distance):
        fixed = ops.stop_gradient(distance)

        def add(own, sums):
            weights, (costs, _), _ = _costs(own, fixed, mined, cost, swap)
            each = weights * costs, weights, ops.where(costs > 0.0, weights, 0.0)
            return (sums[0] + ops.stack([ops.sum(values, axis=1) for values in each]),)

        def gradient(upstream):
            def pull(own, slopes):
                weights, (_, derivatives), across = _costs(own, fixed, mined, cost, swap)
                pulls = upstream[0][:, None] * weights * derivatives
                slopes, pushes = slopes[0] + own * ops.sum(pulls, axis=1, keepdims=True), pulls
                if swap:
                    pushes = ops.where(across < fixed, 0.0, pulls)
                    rows = ops.shape(fixed)[0]
                    slopes = slopes - ops.segment_sum(pulls - pushes, ops.argmax(own, axis=1), num_segments=rows)
                return (slopes - pushes,)

            return over_positives(mined.positives, pull, (ops.zeros_like(fixed),))[0]

        rows = ops.zeros_like(fixed[:, 0])
        return over_positives(mined.positives, add, (ops.stack([rows, rows, rows]),))[0], gradient

    return TripletSums(*ops.unstack(compute(distance), 3, axis=0))


def _costs(own, distance, mined, cost, swap):
    """Returns the weights of one positive's triplets, their costs with derivatives, and distances from the positive."""
    weights = mined.weights_of(own)
    across = from_positive(own, distance) if swap else None
    gaps = to_positive(own, distance) - (ops.minimum(distance, across) if swap else distance)
    return weights, [ops.where(weights > 0.0, values, 0.0) for values in cost(gaps)], across


def costly_positives(distance: Tensor, mined: Mined, cost: Cost, swap: bool = False) -> Tensor:
    """Returns the mask `[B, B]` of positives in a triplet with a positive cost; see `triplet_sums`."""
    if mined.chosen is None and not swap:
        nearest = hardest_negative(distance, ops.cast(mined.negatives, "bool"))[:, None]
        has = ops.any(ops.cast(mined.negatives, "bool"), axis=1, keepdims=True)
        costs = cost(distance - (nearest if mined.negative is None else mined.negative))[0]
        return ops.logical_and(ops.logical_and(ops.cast(mined.positives, "bool"), has), costs > 0.0)

    def add(own, found):
        weights, (costs, _), _ = _costs(own, distance, mined, cost, swap)
        costs = ops.any(ops.logical_and(weights > 0.0, costs > 0.0), axis=1)
        return (found[0] + own * ops.cast(costs, own.dtype)[:, None],)

    return over_positives(mined.positives, add, (ops.zeros_like(distance),))[0] > 0.0


def one_negative_sums(distance: Tensor, mined: Mined, cost: Cost) -> TripletSums:
    """Sums the costs of triplets if each positive pair has a single negative, `mined.negative`; see `triplet_sums`."""
    weights = ops.cast(mined.positives, distance.dtype)
    costs = ops.where(weights > 0.0, weights * cost(distance - mined.negative)[0], 0.0)
    return TripletSums(*(ops.sum(each, axis=1) for each in (costs, weights, ops.where(costs > 0.0, weights, 0.0))))


def hinge_sums(distance: Tensor, mined: Mined, margin: float) -> TripletSums:
    """Sums hinges over every positive with every negative, from running sums along sorted distances.

    It is `triplet_sums(distance, mined, hinge(margin))` if all positives have the same negatives. Its time does not
    depend on the number of positives.
    """
    order = ops.argsort(distance, axis=1)
    ascending = ops.take_along_axis(distance, order, axis=1)
    weights = ops.take_along_axis(ops.cast(mined.negatives, distance.dtype), order, axis=1)
    threshold = distance + margin
    closer = count_at_most(ascending, threshold, strictly=True)
    near = ops.cast(mined.positives, distance.dtype)
    counts = _sum_of_first(closer, weights)
    costs = ops.where(near > 0.0, near * (threshold * counts - _sum_of_first(closer, weights * ascending)), 0.0)
    nonzero = ops.where(near > 0.0, near * counts, 0.0)
    every = ops.sum(near, axis=1) * ops.sum(weights, axis=1)
    return TripletSums(ops.sum(costs, axis=1), every, ops.sum(nonzero, axis=1))


def _sum_of_first(counts, values):
    """Returns, for each count `[B, B]`, the sum of that many first values of the row."""
    running = ops.cumsum(values, axis=1)
    running = ops.concatenate([ops.zeros_like(running[:, :1]), running], axis=1)
    return ops.take_along_axis(running, counts, axis=1)
