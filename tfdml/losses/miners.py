"""Miners, which select the pairs and triplets of a batch that a loss learns from.

A miner is an argument of a loss on pairs, such as `Triplet(mining="easy_hard(positives='easy')")`. It compares the
distances of the loss, or 1 minus the cosine if the loss is defined by cosine similarities. It returns masks or weights
`[B, B]`, so it runs on every backend, also in compiled functions, and never lists triplets.
"""

import functools
import math
from typing import Annotated, Any, ClassVar, Literal

from keras import ops

from tfdml import registry
from tfdml.functional.distances import distances, squared_distances
from tfdml.functional.pairs import (
    UNKNOWN,
    Cutoff,
    LossCutoff,
    check_cutoffs,
    given_pairs,
    hardest_negative,
    nearest_beyond,
    negative_weights,
    semi_hard_negative,
)
from tfdml.functional.triplets import Mined, from_positive, to_positive
from tfdml.registry import register
from tfdml.registry.arguments import Count, Expected, NotNegative, Tensor, number
from tfdml.registry.fields import Value
from tfdml.registry.specs import written

Strategy = Literal["all", "easy", "semi_hard", "hard"]
Share = Annotated[float, number(above=0, at_most=1)]
# A share of pairs is found by halving the interval of their distances, to below the precision of float32.
HALVINGS = 32


class Miner(Value):
    """Base class of miners.

    To write your own miner, register a subclass and override `mine`:

    ```python
    @tfdml.registry.register("miner", "near")
    class Near(tfdml.losses.miners.Miner):
        most: float = 1.0

        def mine(self, embeddings, distance, positives, negatives):
            return Mined(positives, ops.logical_and(negatives, distance < self.most))
    ```
    """

    # The name in specs, which `register` sets.
    name: ClassVar[str | None] = None
    # Number of equal parts of a batch; see `LossHooks.batch_parts`.
    batch_parts: ClassVar[int] = 1
    # Whether masks are weights, which only losses that sum up pairs can use.
    weighs: ClassVar[bool] = False
    # Whether each row must be an anchor, which excludes cross-batch memory.
    needs_all_anchors: ClassVar[bool] = False

    def mine(self, embeddings: Tensor, distance: Tensor, positives: Tensor, negatives: Tensor) -> Mined:
        """Returns the selected pairs and triplets.

        Args:
            embeddings: `[B, d]`.
            distance: `[B, B]` distances of the loss, or `[queries, B]`.
            positives, negatives: masks of all pairs, with the same shape.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement mine(embeddings, distance, ...).")


def _spec_of(miner):
    if not isinstance(miner, str | Miner) or not miner:
        raise ValueError(miner)
    return miner if isinstance(miner, str) else written(miner.name, miner.own_config())


Mining = Annotated[str | Miner, Expected("a miner or its spec", _spec_of)]


@register("miner", "all")
class All(Miner):
    """Selects every positive with every negative."""

    def mine(self, embeddings, distance, positives, negatives):
        return Mined(positives, negatives)


@register("miner", "hard")
class Hard(Miner):
    """Selects every positive with the nearest negative."""

    def mine(self, embeddings, distance, positives, negatives):
        return EasyHard("all", "hard").mine(embeddings, distance, positives, negatives)


@register("miner", "batch_hard")
class BatchHard(Miner):
    """Selects the farthest positive with the nearest negative of each anchor.

    It is from Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017.
    """

    def mine(self, embeddings, distance, positives, negatives):
        return EasyHard("hard", "hard").mine(embeddings, distance, positives, negatives)


@register("miner", "semi_hard")
class SemiHard(Miner):
    """Selects, for every positive, the nearest negative farther away than it, or else the farthest negative.

    It is from Schroff et al., FaceNet: A Unified Embedding for Face Recognition and Clustering, 2015.
    """

    def mine(self, embeddings, distance, positives, negatives):
        fixed = ops.stop_gradient(distance)

        def chosen(own):
            farther = ops.logical_and(negatives, fixed > to_positive(own, fixed))
            has = ops.any(farther, axis=1, keepdims=True)
            found = ops.cast(ops.where(has, _nearest(fixed, farther), _farthest(fixed, negatives)), fixed.dtype)
            return found / ops.maximum(ops.sum(found, axis=1, keepdims=True), 1.0)

        positives = ops.logical_and(positives, ops.any(negatives, axis=1, keepdims=True))
        return Mined(positives, negatives, semi_hard_negative(distance, negatives), chosen)


@register("miner", "easy_hard")
class EasyHard(Miner):
    """Selects the easiest, hardest or semi-hard positives and negatives of each anchor, or all of them.

    A positive is hard if it is far away, a negative if it is near. A semi-hard negative is the nearest one that is
    farther away than the selected positive. A semi-hard positive is the farthest one that is nearer than the selected
    negative. Easy positives are from Xuan et al., Improved Embeddings with Easy Positive Triplet Mining, 2020.

    Args:
        positives: `"all"`, `"easy"`, `"semi_hard"` or `"hard"`. Defaults to `"easy"`.
        negatives: `"all"`, `"easy"`, `"semi_hard"` or `"hard"`. Defaults to `"semi_hard"`.
        fallback: Boolean. Whether an anchor without a semi-hard negative uses its farthest negative. If `False`, the
            anchor has no triplet. Defaults to `False`.

    Raises:
        ValueError: If one is `"semi_hard"` and the other is `"semi_hard"` or `"all"`.
    """

    positives: Strategy = "easy"
    negatives: Strategy = "semi_hard"
    fallback: bool = False

    def check_arguments(self):
        both = {self.positives, self.negatives}
        if "semi_hard" in both and (len(both) == 1 or "all" in both):
            raise ValueError(
                "semi_hard needs 'easy' or 'hard' on the other side. Received: "
                f"positives={self.positives!r}, negatives={self.negatives!r}. For all positives with their own "
                "semi-hard negatives, use the miner 'semi_hard'."
            )

    def mine(self, embeddings, distance, positives, negatives):
        fixed, every = ops.stop_gradient(distance), negatives
        if self.positives == "semi_hard":
            negatives = _selected(self.negatives == "hard", fixed, negatives)
            limit = hardest_negative(fixed, negatives)[:, None]
            positives = _farthest(fixed, ops.logical_and(positives, fixed < limit))
        elif self.positives != "all":
            positives = _selected(self.positives == "easy", fixed, positives)
        if self.negatives == "semi_hard":
            limit = -hardest_negative(-fixed, positives)[:, None]
            farther = ops.logical_and(negatives, fixed > limit)
            negatives = _nearest(fixed, farther)
            if self.fallback:
                missing = ops.logical_not(ops.any(farther, axis=1, keepdims=True))
                negatives = ops.where(missing, _farthest(fixed, every), negatives)
        elif self.negatives != "all" and self.positives != "semi_hard":
            negatives = _selected(self.negatives == "hard", fixed, negatives)
        positives = ops.logical_and(positives, ops.any(negatives, axis=1, keepdims=True))
        # Several negatives at the same distance count as one.
        one = None if self.negatives == "all" else hardest_negative(distance, negatives)[:, None]
        return Mined(positives, negatives, one)


@register("miner", "triplet_margin")
class TripletMargin(Miner):
    """Selects triplets by how much farther away the negative is than the positive.

    Args:
        margin: Float. Defaults to `0.2`.
        kind: `"all"` for triplets in which the negative is farther away by at most `margin`; `"hard"` for those in
            which it is not farther away at all; `"semi_hard"` for the other triplets of `"all"`; `"easy"` for triplets
            in which it is farther away by more than `margin`. Defaults to `"all"`.
    """

    margin: NotNegative = 0.2
    kind: Strategy = "all"

    def mine(self, embeddings, distance, positives, negatives):
        low = {"easy": self.margin, "semi_hard": 0.0}.get(self.kind, -math.inf)
        high = {"easy": math.inf, "hard": 0.0}.get(self.kind, self.margin)

        fixed = ops.stop_gradient(distance)

        def chosen(own):
            gap = fixed - to_positive(own, fixed)
            return ops.logical_and(gap > low, gap <= high)

        return Mined(positives, negatives, chosen=chosen)


@register("miner", "angular")
class AngularTriplets(Miner):
    """Selects triplets in which the negative sees the positive pair at a large angle.

    The angle at the negative n is `atan(|a - p| / (2 |n - c|))`, where c is the center of the anchor a and the positive
    p, and distances are Euclidean. It is from Wang et al., Deep Metric Learning with Angular Loss, 2017.

    Args:
        angle: Float from 0 to 90. Minimum angle in degrees. Defaults to `20.0`.
    """

    angle: Annotated[float, number(at_least=0, at_most=90, noun="angle in degrees")] = 20.0

    needs_all_anchors = True

    def mine(self, embeddings, distance, positives, negatives):
        squared = ops.stop_gradient(squared_distances(embeddings))
        tangent = math.tan(math.radians(self.angle))

        def chosen(own):
            side = to_positive(own, squared)
            # The squared length of the median from the negative to the center of the pair.
            median = ops.maximum((squared + from_positive(own, squared)) / 2.0 - side / 4.0, 0.0)
            return ops.sqrt(side) > 2.0 * tangent * ops.sqrt(median)

        return Mined(positives, negatives, chosen=chosen)


@register("miner", "hdc")
class HardAware(Miner):
    """Selects the hardest share of the positive pairs and of the negative pairs of the batch.

    It is from Yuan et al., Hard-Aware Deeply Cascaded Embedding, 2017. Pairs at the same distance as the last selected
    pair are selected as well.

    Args:
        share: Float above 0 and at most 1. Share of the pairs. Defaults to `0.5`.
    """

    share: Share = 0.5

    def mine(self, embeddings, distance, positives, negatives):
        fixed = ops.stop_gradient(distance)
        return Mined(
            ops.logical_and(positives, -fixed <= _share_limit(-fixed, positives, self.share)),
            ops.logical_and(negatives, fixed <= _share_limit(fixed, negatives, self.share)),
        )


@register("miner", "distance_weighted")
class DistanceWeighted(Miner):
    """Weights each negative by the probability that distance-weighted sampling draws it, for unit-length embeddings.

    It is from Wu et al., Sampling Matters in Deep Embedding Learning, 2017. Nothing is actually sampled.

    Args:
        cutoff: Float. Distances below this count as this distance, which limits the weight of very near negatives.
            Defaults to `0.5`.
        nonzero_loss_cutoff: Float or `None`. Negatives at this distance or farther are not sampled, unless an anchor
            has no others. If `None`, any distance is allowed. Defaults to `1.4`.

    Raises:
        ValueError: If `nonzero_loss_cutoff` is not above `cutoff`.
    """

    cutoff: Cutoff = 0.5
    nonzero_loss_cutoff: LossCutoff = 1.4

    weighs = True

    def check_arguments(self):
        check_cutoffs(self.cutoff, self.nonzero_loss_cutoff)

    def mine(self, embeddings, distance, positives, negatives):
        rows, columns = distance.shape
        plain = distances(embeddings, queries=None if rows == columns else rows)
        return Mined(positives, negative_weights(plain, negatives, ops.shape(embeddings)[1], **self.own_config()))


@register("miner", "nearest")
class Nearest(Miner):
    """Selects as many negatives as an anchor has positives: the nearest ones from a minimum distance on.

    Each positive counts with one negative, or in proportion if there are fewer such negatives than positives.

    Args:
        cutoff: Float. Minimum distance. Defaults to `0.5`.
    """

    cutoff: Cutoff = 0.5

    weighs = True

    def mine(self, embeddings, distance, positives, negatives):
        count = ops.sum(ops.cast(positives, distance.dtype), axis=1, keepdims=True)
        nearest = nearest_beyond(distance, negatives, count, self.cutoff)
        return Mined(positives, ops.cast(nearest, distance.dtype) / ops.maximum(count, 1.0))


@register("miner", "uniform_histogram")
class UniformHistogram(Miner):
    """Weights pairs so that each range of distances between them counts the same.

    The distances of positive pairs are divided into ranges of equal width, and so are the distances of negative pairs.
    Each range with a pair has the same weight, divided among its pairs. Drawing a number of pairs from each range
    yields the same on average.

    Args:
        bins: Integer. Number of ranges. Defaults to `100`.
    """

    bins: Count = 100

    weighs = True

    def mine(self, embeddings, distance, positives, negatives):
        fixed = ops.stop_gradient(distance)
        return Mined(*(_uniform_weights(fixed, pairs, self.bins) for pairs in (positives, negatives)))


@register("miner", "pair_margin")
class PairMargin(Miner):
    """Selects positive pairs beyond a distance and negative pairs within a distance.

    Args:
        positive_margin: Float. Nearer positive pairs are left out. Defaults to `0.2`.
        negative_margin: Float. Farther negative pairs are left out. Defaults to `0.8`.
    """

    positive_margin: float = 0.2
    negative_margin: float = 0.8

    def mine(self, embeddings, distance, positives, negatives):
        return Mined(
            ops.logical_and(positives, distance > self.positive_margin),
            ops.logical_and(negatives, distance < self.negative_margin),
        )


@register("miner", "multi_similarity")
class MultiSimilarityPairs(Miner):
    """Selects pairs that are harder than the anchor's hardest pair of the other kind, up to a tolerance.

    These are positives farther away than the nearest negative, and negatives nearer than the farthest positive. It is
    from Wang et al., Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning, 2019.

    Args:
        epsilon: Float. How much easier a pair may be and still be selected. Defaults to `0.1`.
    """

    epsilon: float = 0.1

    def mine(self, embeddings, distance, positives, negatives):
        beyond = ops.max(distance) + 1.0 + abs(self.epsilon)
        nearest = ops.min(ops.where(negatives, distance, beyond), axis=1, keepdims=True)
        below = ops.min(distance) - 1.0 - abs(self.epsilon)
        farthest = ops.max(ops.where(positives, distance, below), axis=1, keepdims=True)
        # Comparisons with NaN are False, so pairs with NaN are kept and the loss is NaN.
        easy_positives = distance <= nearest - self.epsilon
        easy_negatives = distance >= farthest + self.epsilon
        return Mined(
            ops.logical_and(positives, ops.logical_not(easy_positives)),
            ops.logical_and(negatives, ops.logical_not(easy_negatives)),
        )


@register("miner", "maximum_loss")
class MaximumLoss(Miner):
    """Selects all pairs of the anchors for which another loss is highest, as in online hard example mining.

    It is from Shrivastava et al., Training Region-based Object Detectors with Online Hard Example Mining, 2016.

    Args:
        loss: String. Spec of a loss on pairs without variables. Defaults to `"triplet"`.
        share: Float above 0 and at most 1. Share of the anchors with a loss. Defaults to `0.5`.

    Raises:
        ValueError: If `loss` has variables, as losses on proxies do.
    """

    loss: str = "triplet"
    share: Share = 0.5

    needs_all_anchors = True

    def check_arguments(self):
        if self.of_anchors.make_layer() is not None:
            raise ValueError(
                f"loss must be a loss on pairs without variables, such as 'triplet'. Received: loss={self.loss!r}."
            )

    @functools.cached_property
    def of_anchors(self) -> Any:
        """The other loss."""
        return registry.create("loss", self.loss, classes=2)

    def mine(self, embeddings, distance, positives, negatives):
        relevance = ops.where(positives, 1.0, ops.where(negatives, 0.0, UNKNOWN))
        values = ops.stop_gradient(self.of_anchors.call(relevance, embeddings))
        selected = -values <= _share_limit(-values[None], (values > 0.0)[None], self.share)
        return Mined(*(ops.logical_and(pairs, selected[:, None]) for pairs in (positives, negatives)))


@register("miner", "given")
class Given(Miner):
    """Selects the triplets that the sampler `triplets` drew: row i of each third of the batch.

    The anchor is row i of the first third, the positive is row i of the second third, and the negative is row i of the
    last third.
    """

    batch_parts = 3
    needs_all_anchors = True

    def mine(self, embeddings, distance, positives, negatives):
        near, far = (
            ops.logical_and(pairs, given_pairs(embeddings, 3, part))
            for part, pairs in enumerate((positives, negatives), 1)
        )
        negative = ops.sum(ops.where(far, distance, 0.0), axis=1, keepdims=True)
        return Mined(ops.logical_and(near, ops.any(far, axis=1, keepdims=True)), far, negative)


def _nearest(distance, mask):
    """Returns the mask of each row's nearest elements inside a mask, which are several if distances are equal."""
    return ops.logical_and(mask, distance == hardest_negative(distance, mask)[:, None])


def _farthest(distance, mask):
    """Returns the mask of each row's farthest elements inside a mask."""
    return _nearest(-distance, mask)


def _selected(nearest, distance, mask):
    return _nearest(distance, mask) if nearest else _farthest(distance, mask)


def _share_limit(values, mask, share):
    """Returns the smallest value such that at least a share of the values inside the mask are at most this value."""
    low, high = (ops.min(ops.where(mask, values, math.inf)), ops.max(ops.where(mask, values, -math.inf)))
    wanted = share * ops.sum(ops.cast(mask, values.dtype))

    def halve(_, limits):
        low, high = limits
        middle = low + (high - low) / 2.0
        enough = ops.sum(ops.cast(ops.logical_and(mask, values <= middle), values.dtype)) >= wanted
        return ops.where(enough, low, middle), ops.where(enough, middle, high)

    return ops.fori_loop(0, HALVINGS, halve, (low, high))[1]


def _uniform_weights(distance, mask, bins):
    """Returns weights `[B, B]` with which each range of distances that has a pair counts 1."""
    low, high = (ops.min(ops.where(mask, distance, math.inf)), ops.max(ops.where(mask, distance, -math.inf)))
    width = ops.maximum((high - low) / bins, 1e-12)
    place = ops.clip(ops.cast(ops.floor((ops.where(mask, distance, low) - low) / width), "int32"), 0, bins - 1)
    ones = ops.reshape(ops.cast(mask, distance.dtype), (-1,))
    counts = ops.segment_sum(ones, ops.reshape(place, (-1,)), num_segments=bins)
    return ops.where(mask, 1.0 / ops.maximum(ops.take(counts, place), 1.0), 0.0)
