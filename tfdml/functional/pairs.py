"""Pairs of a batch: masks by label, mining of negatives and positives, sums of exponentials over masked rows."""

import math
from collections.abc import Callable
from typing import Annotated, Any

from keras import ops
from keras.backend import backend, standardize_dtype

from tfdml.functional.checks import is_floating
from tfdml.functional.distances import known_gradient
from tfdml.registry.arguments import Positive, Tensor, number, optional, or_tensor
from tfdml.registry.fields import declared

# Dtypes that may be too small for the number of classes.
SMALL_INTEGERS = ("bool", "int8", "uint8", "int16", "uint16")
# Label of a row that is in no pair: an empty place of a gallery, or an excluded image. JAX has no int64 by default.
NO_IMAGE = -(2**31 if backend() == "jax" else 2**63)
# Minimum relevance of a positive pair, if relevance is graded.
POSITIVE_FROM = 0.5
# Relevance of pairs with an unknown relevance.
UNKNOWN = -1.0


def positive_pairs(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of different rows of one class. With `queries`, rows `NO_IMAGE` have no pairs."""
    if is_graded(labels):
        return ops.logical_and(relevance(labels, queries) >= POSITIVE_FROM, other_rows(labels, queries))
    labels = finest(labels)
    same = ops.logical_and(labels[:queries, None] == labels[None, :], other_rows(labels, queries))
    return same if queries is None else ops.logical_and(same, _of_images(labels, queries))


def negative_pairs(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of rows with different classes. With `queries`, rows `NO_IMAGE` have no pairs."""
    if is_graded(labels):
        differ = ops.logical_and(known_pairs(labels, queries), relevance(labels, queries) == 0.0)
        return ops.logical_and(differ, other_rows(labels, queries))
    labels = finest(labels)
    different = labels[:queries, None] != labels[None, :]
    return different if queries is None else ops.logical_and(different, _of_images(labels, queries))


def other_rows(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of pairs of different rows."""
    rows = ops.arange(ops.shape(labels)[0], dtype="int32")
    return rows[:queries, None] != rows[None, :]


def relevance(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the relevance `[B, B]` of each pair, float32 from 0 to 1, or 0 if it is unknown; see `known_pairs`."""
    if not is_graded(labels):
        levels = levels_of(labels)
        return ops.mean(ops.cast(levels[:queries, None] == levels[None, :], "float32"), axis=-1)
    if _is_several(labels):
        both, either = _shared(labels, queries)
        return both / ops.maximum(either, 1.0)
    return ops.cast(ops.maximum(labels[:queries], 0), "float32")


def known_pairs(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of pairs with a known relevance."""
    if not is_graded(labels):
        labels = finest(labels)
        known = ops.ones_like(labels[:queries, None] == labels[None, :])
        return known if queries is None else ops.logical_and(known, _of_images(labels, queries))
    if _is_several(labels):
        has = ops.any(labels, axis=1)
        return ops.logical_and(has[:queries, None], has[None, :])
    return labels[:queries] >= 0


def _of_images(labels, queries):
    """Returns the mask `[queries, B]` of pairs without `NO_IMAGE`."""
    images = labels != NO_IMAGE
    return ops.logical_and(images[:queries, None], images[None, :])


def is_graded(labels: Tensor) -> bool:
    """Whether pairs have more than two grades, as for several labels per image, or for explicit pairs."""
    return len(labels.shape) == 2 and not _is_integer(labels)


def levels_of(labels: Tensor) -> Tensor:
    """Returns the categories `[B, L]` of hierarchical labels, or `[B, 1]` for class labels."""
    if len(labels.shape) == 3:
        return labels[:, 0]
    return labels[:, None] if len(labels.shape) == 1 else labels


def finest(labels: Tensor) -> Tensor:
    """Returns the finest categories `[B]` of hierarchical labels. Class labels are returned unchanged."""
    return labels if len(labels.shape) == 1 else levels_of(labels)[:, -1]


def in_batch(labels: Tensor) -> Tensor:
    """Returns labels that define the same pairs in a batch, as numbers that floating point represents exactly.

    For class labels, these are `batch_ids`; for hierarchical labels, the ids of each level, `[B, 1, L]`; for other
    kinds, the relevance `[B, B]`.
    """
    if len(labels.shape) == 1:
        return batch_ids(labels)
    if is_graded(labels):
        return ops.where(known_pairs(labels), relevance(labels), UNKNOWN)
    levels = levels_of(labels)
    return ops.stack([batch_ids(levels[:, level]) for level in range(levels.shape[1])], axis=1)[:, None]


def no_tree(labels: Tensor) -> Tensor:
    """Whether images of one category belong to different categories at the level above, for labels `[B, L]`."""
    levels = levels_of(labels)
    same = levels[:, None] == levels[None, :]
    return ops.any(ops.logical_and(same[..., 1:], ops.logical_not(same[..., :-1])))


def contradictory(labels: Tensor) -> Tensor:
    """Whether the label values are invalid, as for one-hot labels: not a tree, or not a symmetric relevance."""
    if is_graded(labels):
        return ops.any(labels != ops.transpose(labels)) if is_floating(labels) else ops.convert_to_tensor(False)
    return no_tree(labels)


def given_pairs(labels: Tensor, parts: int, other: int = 1) -> Tensor:
    """Returns the mask `[B, B]` of pairs of row i of the first part of a batch with row i of another part.

    Args:
        labels: `[B]`.
        parts: number of equal parts of the batch.
        other: index of the other part, from 1.
    """
    rows, size = ops.arange(ops.shape(labels)[0], dtype="int32"), ops.shape(labels)[0] // parts
    return ops.logical_and(rows[:, None] < size, rows[None, :] - rows[:, None] == other * size)


def batch_ids(labels: Tensor) -> Tensor:
    """Replaces each label with the index of the first row of its class.

    Floating point represents this small integer exactly, unlike labels above 2^24.
    """
    same = ops.cast(labels[:, None] == labels[None, :], "int32")
    return ops.argmax(same, axis=1)


def places_in_class(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the number of earlier rows of each row's class, `[B]`, and the number of all rows of its class, `[B]`."""
    same = labels[:, None] == labels[None, :]
    rows = ops.arange(ops.shape(labels)[0])
    before = ops.logical_and(same, rows[None, :] < rows[:, None])
    return ops.sum(ops.cast(before, "int32"), axis=1), ops.sum(ops.cast(same, "int32"), axis=1)


def class_mask(labels: Tensor, classes: int) -> Tensor:
    """Returns the mask `[B, C]` of each row's own class. It is all False if a label is not from 0 to C - 1."""
    return ops.cast(labels, "int32")[:, None] == ops.arange(classes, dtype="int32")[None, :]


def nan_outside(labels: Tensor, classes: int, values: Tensor) -> Tensor:
    """Returns the values `[B]`, or NaN for rows with a label that is not from 0 to C - 1.

    A compiled function cannot raise an error, and any other value would be wrong.
    """
    if standardize_dtype(labels.dtype) in SMALL_INTEGERS:
        labels = ops.cast(labels, "int32")
    inside = ops.logical_and(labels >= 0, labels < classes)
    return ops.where(inside, values, float("nan"))


def _is_integer(labels):
    return "int" in standardize_dtype(labels.dtype)


def _is_several(labels):
    return standardize_dtype(labels.dtype) == "bool"


def _shared(labels, queries):
    """Returns the number of labels that both rows of a pair have, and the number that any of them has, `[B, B]`."""
    has = ops.cast(labels, "float32")
    count, both = ops.sum(has, axis=1), ops.matmul(has[:queries], ops.transpose(has))
    return both, count[:queries, None] + count[None, :] - both


def partner_weights(labels: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
    """Returns equal weights `[B, B]` of each row's positives that sum to 1, and the mask `[B]` of rows that have any.

    Args:
        labels: any kind of labels; see `tfdml.functional.checks.check_kind`.
        dtype: dtype of the weights.
    """
    positives = ops.cast(positive_pairs(labels), dtype)
    count = ops.sum(positives, axis=1)
    return positives / ops.maximum(count, 1.0)[:, None], count > 0.0


def centered(rows: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Returns rows `[B, d]` minus the mean of the rows that count, 0 for other rows, and their number, at least 1."""
    mask = ops.cast(counts, rows.dtype)
    number = ops.maximum(ops.sum(mask), 1.0)
    mean = ops.sum(mask[:, None] * rows, axis=0) / number
    return ops.where(counts[:, None], rows - mean, 0.0), number


def sorted_negatives(distances: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the distances `[B, B]` to negatives in ascending order, and their number `[B]`.

    Elements after the last negative have a value above every distance.
    """
    beyond = ops.max(distances) + 1.0
    return ops.sort(ops.where(negatives, distances, beyond), axis=1), ops.sum(ops.cast(negatives, "int32"), axis=1)


def count_at_most(sorted_values: Tensor, thresholds: Tensor, strictly: bool = False) -> Tensor:
    """Counts, for each row and threshold `[B, B]`, the row's ascending values `[B, B]` up to the threshold.

    Values equal to a threshold count unless `strictly` is True.
    """
    side = "left" if strictly else "right"
    # One binary search per threshold in the values of its row.
    return ops.vectorized_map(lambda row: ops.searchsorted(*row, side=side), (sorted_values, thresholds))


def hardest_negative(distances: Tensor, negatives: Tensor) -> Tensor:
    """Returns the distance `[B]` to each anchor's nearest negative, or an arbitrary value if it has none."""
    beyond = ops.max(distances) + 1.0
    return ops.min(ops.where(negatives, distances, beyond), axis=1)


def semi_hard_negative(distances: Tensor, negatives: Tensor) -> Tensor:
    """Returns, for each anchor and other row `[B, B]`, the distance to the nearest negative farther than that row.

    If no negative is farther, it is the distance to the farthest negative.
    """
    ascending, count = sorted_negatives(distances, negatives)
    farther = count_at_most(ascending, distances)
    last = ops.maximum(count - 1, 0)[:, None]
    return ops.take_along_axis(ascending, ops.minimum(farther, last), axis=1)


def nearest_beyond(distances: Tensor, negatives: Tensor, count: Tensor, cutoff: float) -> Tensor:
    """Returns the mask `[B, B]` of each anchor's `count` `[B, 1]` nearest negatives from distance `cutoff` on."""
    far = ops.logical_and(negatives, distances >= cutoff)
    beyond = ops.max(distances) + 1.0
    # Sorting twice yields the rank of each row by distance.
    rank = ops.argsort(ops.argsort(ops.where(far, distances, beyond), axis=1), axis=1)
    return ops.logical_and(far, rank < ops.cast(count, rank.dtype))


def over_positives(positives: Tensor, add: Callable[[Tensor, Any], Any], start: Any) -> Any:
    """Returns the last sums of `sums = add(own, sums)`, where `own [B, B]` is 1 at one positive of each row in turn.

    The number of calls is the largest number of positives in a row. Rows with fewer positives are 0 in later calls.
    Gradients do not pass through the loop.

    Args:
        positives: mask or weights `[B, N]`.
        add: see above.
        start: first sums, a tensor or a structure of tensors.
    """
    dtype = start[0].dtype
    # A mask cannot be compared with a number on every backend.
    mask = ops.cast(positives, dtype) > 0.0
    place = ops.cumsum(ops.cast(mask, "int32"), axis=1)

    def step(number, sums):
        return add(ops.cast(ops.logical_and(mask, place == number + 1), dtype), sums)

    return ops.fori_loop(0, ops.max(place), step, start)


def hardest_pairs(values: Tensor, pairs: Tensor, count: Tensor) -> Tensor:
    """Returns the mask `[B, B]` of the pairs with the `count` largest values. Pairs with equal values stay together.

    Args:
        values: `[B, B]`.
        pairs: mask `[B, B]` of the pairs that are compared. If there are fewer than `count`, the result has all.
        count: how many, a scalar. If 0, the result has none.
    """
    values = ops.where(pairs, values, -math.inf)
    ascending = ops.sort(ops.reshape(values, (-1,)))
    size = ops.cast(ops.shape(ascending)[0], "int32")
    least = ops.take(ascending, ops.clip(size - ops.cast(count, "int32"), 0, size - 1))
    return ops.logical_and(ops.logical_and(pairs, values >= least), count > 0)


def log_one_plus_sum_exp(mask: Tensor, exponents: Tensor) -> Tensor:
    """Computes `log(1 + sum exp(exponents))` `[B]` over the elements of each row `[B, N]` inside the mask."""

    @known_gradient
    def log_sum(exponents):
        highest, exponentials, total = _sum_exp(mask, exponents, at_least=0.0)
        below_one = ops.expm1(-highest)

        def gradient(upstream):
            return exponentials * (upstream / (1.0 + below_one + total))[:, None]

        # In this form, a sum far below 1 is not lost to rounding.
        return highest + ops.log1p(below_one + total), gradient

    return log_sum(exponents)


def log_sum_exp(mask: Tensor, exponents: Tensor) -> Tensor:
    """Computes `log(sum exp(exponents))` `[B]` over each row's elements inside the mask, or 0 if there are none."""

    @known_gradient
    def log_sum(exponents):
        highest, exponentials, total = _sum_exp(mask, exponents)
        # The total is 0 without any element, and at least 1 otherwise.
        total = ops.where(total == 0.0, 1.0, total)

        def gradient(upstream):
            return exponentials * (upstream / total)[:, None]

        return highest + ops.log(total), gradient

    return log_sum(exponents)


def masked_softmax(mask: Tensor, exponents: Tensor) -> Tensor:
    """Computes the softmax `[B, N]` of each row over its elements inside the mask. Other elements are 0."""
    _, exponentials, total = _sum_exp(mask, exponents)
    return exponentials / ops.where(total == 0.0, 1.0, total)[:, None]


def _sum_exp(mask, exponents, at_least=-math.inf):
    """Returns the highest exponent h `[B]`, `exp(exponents - h)` `[B, N]` (0 outside of the mask), and their sums."""
    # Excluded elements could overflow, so they are removed before the exponential and not after it.
    masked = ops.where(mask, exponents, -math.inf)
    # The highest exponent cancels out of the results, so it needs no gradient.
    highest = ops.stop_gradient(ops.maximum(ops.max(masked, axis=1), at_least))
    highest = ops.where(highest == -math.inf, 0.0, highest)
    exponentials = ops.exp(masked - highest[:, None])
    return highest, exponentials, ops.sum(exponentials, axis=1)


Cutoff = Annotated[float, number(above=0, below=2)]
LossCutoff = Positive | None
# The arguments of a function can be tensors without values while a graph is traced.
TracedCutoff = Annotated[float, or_tensor(number(above=0, below=2))]
TracedLossCutoff = Annotated[float | None, or_tensor(optional(number(above=0)))]
# Minimum of 1 - d^2 / 4, which is 0 for opposite points.
LEAST_REMAINDER = 1e-6


@declared
def negative_weights(
    distances: Tensor,
    negatives: Tensor,
    dim: int,
    *,
    cutoff: TracedCutoff = 0.5,
    nonzero_loss_cutoff: TracedLossCutoff = 1.4,
) -> Tensor:
    """Computes the probability `[B, B]` that each anchor samples each row as its negative.

    Distances d of random points on the unit sphere in n dimensions have the density
    `q(d) ~ d^(n - 2) (1 - d^2 / 4)^((n - 3) / 2)`. A negative is sampled in proportion to `1 / q(d)`, so that no
    distance is sampled more often only because more points have it.

    Args:
        distances: `[B, B]` Euclidean distances of L2-normalized embeddings. Distances above 2 count as 2.
        negatives: `[B, B]` mask.
        dim: number of dimensions of the embeddings.
        cutoff: smaller distances count as this distance, which limits their weight.
        nonzero_loss_cutoff: negatives at this distance or farther are not sampled, because their loss would be 0. If an
            anchor has only such negatives, all of them are equally likely. If None, there is no limit.

    Returns:
        `[B, B]`, without gradients. Each row sums to 1, or to 0 if the anchor has no negative.
    """
    check_cutoffs(cutoff, nonzero_loss_cutoff)
    distances = ops.stop_gradient(distances)
    log_weights = -_log_density(ops.clip(distances, cutoff, 2.0), dim)
    near = negatives
    if nonzero_loss_cutoff is not None:
        near = ops.logical_and(negatives, distances < nonzero_loss_cutoff)
    has_near = ops.any(near, axis=1, keepdims=True)
    drawn = ops.where(has_near, near, negatives)
    return masked_softmax(drawn, ops.where(has_near, log_weights, 0.0))


def check_cutoffs(cutoff: float, nonzero_loss_cutoff: float | None) -> None:
    """Raises a ValueError if no distance is between the two cutoffs."""
    if nonzero_loss_cutoff is not None and not nonzero_loss_cutoff > cutoff:
        raise ValueError(
            f"nonzero_loss_cutoff must be None or above the cutoff of {cutoff}. Received: "
            f"nonzero_loss_cutoff={nonzero_loss_cutoff}."
        )


def _log_density(distances, dim):
    # With hundreds of dimensions, the density exceeds the range of floating point, so its logarithm is used.
    dim = ops.cast(dim, distances.dtype)
    remainder = ops.maximum(1.0 - ops.square(distances) / 4.0, LEAST_REMAINDER)
    return (dim - 2.0) * ops.log(distances) + (dim - 3.0) / 2.0 * ops.log(remainder)
