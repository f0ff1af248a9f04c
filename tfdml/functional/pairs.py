"""Masks `[B, B]` of positive and negative pairs of a batch, and their relevance, by labels.

Labels are one of these, and every function here takes each of them:

- `[B]`: a class number an image. Pairs of a class are positives, all others negatives.
- `[B, L]` integers: categories from coarse to fine. A positive is of the same finest category, and the relevance of a
  pair is the fraction of levels that it shares. Inside a batch also as `[B, 1, L]`, of any dtype.
- `[B, C]` booleans: several labels an image. The relevance is Jaccard's: how many labels both have, of those that one
  of them has. Of images without any label nothing is known.
- `[B, B]` floating point: the relevance of each pair from 0 to 1, below 0 where it is not known.

Of several labels and of given pairs, a positive has a relevance of a half or more, and a negative one of 0. Other pairs
are neither, as those are that are not known.

Where only some of the rows are anchors, `queries` is their number: they are the first, and masks are `[queries, B]`.
The other rows are constant to the gradient of distances and products.
"""

from keras import ops
from keras.backend import standardize_dtype

from tfdml.functional.checks import is_floating
from tfdml.registry.arguments import Tensor

# Dtypes that may be too small for the number of classes.
SMALL_INTEGERS = ("bool", "int8", "uint8", "int16", "uint16")
# Label of a row in no pair: an empty place of a gallery, or an image that is left out. For labels in int64.
NO_IMAGE = -(2**63)
# Relevance from which a pair is a positive, where relevance is graded.
POSITIVE_FROM = 0.5
# Relevance of pairs of which nothing is known.
UNKNOWN = -1.0


def positive_pairs(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of different rows of the same class; with `queries`, of images only."""
    if is_graded(labels):
        return ops.logical_and(relevance(labels, queries) >= POSITIVE_FROM, other_rows(labels, queries))
    labels = finest(labels)
    same = ops.logical_and(labels[:queries, None] == labels[None, :], other_rows(labels, queries))
    return same if queries is None else ops.logical_and(same, _of_images(labels, queries))


def negative_pairs(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of rows of different classes; with `queries`, of images only, see `NO_IMAGE`."""
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
    """Returns the relevance `[B, B]` of each pair, float32 from 0 to 1; 0 where it is not known, see `known_pairs`."""
    if not is_graded(labels):
        levels = levels_of(labels)
        return ops.mean(ops.cast(levels[:queries, None] == levels[None, :], "float32"), axis=-1)
    if _is_several(labels):
        both, either = _shared(labels, queries)
        return both / ops.maximum(either, 1.0)
    return ops.cast(ops.maximum(labels[:queries], 0), "float32")


def known_pairs(labels: Tensor, queries: int | None = None) -> Tensor:
    """Returns the mask `[B, B]` of pairs whose relevance is known."""
    if not is_graded(labels):
        labels = finest(labels)
        known = ops.ones_like(labels[:queries, None] == labels[None, :])
        return known if queries is None else ops.logical_and(known, _of_images(labels, queries))
    if _is_several(labels):
        has = ops.any(labels, axis=1)
        return ops.logical_and(has[:queries, None], has[None, :])
    return labels[:queries] >= 0


def _of_images(labels, queries):
    """The mask `[queries, B]` of pairs of two images, see `NO_IMAGE`."""
    images = labels != NO_IMAGE
    return ops.logical_and(images[:queries, None], images[None, :])


def is_graded(labels: Tensor) -> bool:
    """Whether labels say of a pair more than same or not: several labels an image, or given pairs."""
    return len(labels.shape) == 2 and not _is_integer(labels)


def levels_of(labels: Tensor) -> Tensor:
    """Returns the categories `[B, L]` of labels of levels, `[B, 1]` of class numbers."""
    if len(labels.shape) == 3:
        return labels[:, 0]
    return labels[:, None] if len(labels.shape) == 1 else labels


def finest(labels: Tensor) -> Tensor:
    """Returns the finest categories `[B]` of labels of levels; class numbers are their own."""
    return labels if len(labels.shape) == 1 else levels_of(labels)[:, -1]


def in_batch(labels: Tensor) -> Tensor:
    """Returns labels that say the same of a batch's pairs, in numbers that floating point represents exactly.

    Of a class number that is `batch_ids`; of levels `[B, 1, L]`, of the others the relevance `[B, B]`.
    """
    if len(labels.shape) == 1:
        return batch_ids(labels)
    if is_graded(labels):
        return ops.where(known_pairs(labels), relevance(labels), UNKNOWN)
    levels = levels_of(labels)
    return ops.stack([batch_ids(levels[:, level]) for level in range(levels.shape[1])], axis=1)[:, None]


def no_tree(labels: Tensor) -> Tensor:
    """Returns whether images of one category are of different ones at the level above it, for labels `[B, L]`."""
    levels = levels_of(labels)
    same = levels[:, None] == levels[None, :]
    return ops.any(ops.logical_and(same[..., 1:], ops.logical_not(same[..., :-1])))


def contradictory(labels: Tensor) -> Tensor:
    """Returns whether labels are no kind of labels, as one-hot numbers are not: no tree, or not the same both ways."""
    if is_graded(labels):
        return ops.any(labels != ops.transpose(labels)) if is_floating(labels) else ops.convert_to_tensor(False)
    return no_tree(labels)


def given_pairs(labels: Tensor, parts: int, other: int = 1) -> Tensor:
    """Returns the mask `[B, B]` of row i of the first of equal parts of the batch with row i of another part.

    Args:
        labels: `[B]`.
        parts: number of parts.
        other: number of the other part, from 1.
    """
    rows, size = ops.arange(ops.shape(labels)[0], dtype="int32"), ops.shape(labels)[0] // parts
    return ops.logical_and(rows[:, None] < size, rows[None, :] - rows[:, None] == other * size)


def batch_ids(labels: Tensor) -> Tensor:
    """Replaces each label with the index of the first row of its class, which is a small integer.

    Floating point represents it exactly, unlike labels above 2^24.
    """
    same = ops.cast(labels[:, None] == labels[None, :], "int32")
    return ops.argmax(same, axis=1)


def class_mask(labels: Tensor, classes: int) -> Tensor:
    """Returns the mask `[B, C]` of each row's own class; all False if its label is not from 0 to C - 1."""
    return ops.cast(labels, "int32")[:, None] == ops.arange(classes, dtype="int32")[None, :]


def nan_outside(labels: Tensor, classes: int, values: Tensor) -> Tensor:
    """Returns the values `[B]`, with NaN where a label is not from 0 to C - 1.

    A compiled function cannot raise an error, and any number would be wrong.
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
    """How many labels both rows of a pair have, and how many one of them has, `[B, B]`."""
    has = ops.cast(labels, "float32")
    count, both = ops.sum(has, axis=1), ops.matmul(has[:queries], ops.transpose(has))
    return both, count[:queries, None] + count[None, :] - both
