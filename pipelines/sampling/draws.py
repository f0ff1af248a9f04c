"""Random draws that are pure functions of a seed and a step."""

import enum

import numpy as np

from pipelines.operations import tf
from tfdml.registry import register
from tfdml.registry.arguments import Labels
from tfdml.registry.fields import Value

# Rounds of the Feistel network. Four rounds make a random-looking permutation of many indices (Luby and Rackoff). For
# the few indices of a small class, four rounds favor some indices by 7%, and eight rounds by 1%.
ROUNDS = 8
# Sums and products of 64 bits wrap around, about which NumPy would warn.
WRAPS = np.errstate(over="ignore")
_GOLDEN = 0x9E3779B97F4A7C15


@WRAPS
def key_of(*parts):
    """Hashes integer tensors, which are broadcast against each other, to a uint64 key."""
    key = tf.zeros([], tf.uint64)
    for part in parts:
        key = _mixed(key + tf.cast(part, tf.uint64) + tf.constant(_GOLDEN, tf.uint64))
    return key


def shuffled_index(index, key, size):
    """Returns the member at `index`, `0 <= index < size`, of the permutation that `key`, from `key_of`, selects."""
    return tf.ensure_shape(_shuffled_index(index, key, size), index.shape)


def shuffled_index_of_round(index, key, round_number, size):
    """Returns the member at `index` of the permutation that `key_of(key, round_number)` selects.

    Unlike in `shuffled_index`, the other arguments are broadcast against `index`.
    """
    return tf.ensure_shape(_shuffled_index_of_round(index, key, round_number, size), index.shape)


# All calls share one function that is not inlined, because TensorFlow rebuilds the graph at the start of every epoch.
def _one_function(*dtypes):
    return tf.function(
        input_signature=[tf.TensorSpec(None, dtype) for dtype in dtypes],
        autograph=False,
        experimental_attributes={"_noinline": True},
    )


@_one_function(tf.int64, tf.uint64, tf.int64, tf.int64)
def _shuffled_index_of_round(index, key, round_number, size):
    same = tf.zeros_like(index)
    return _permuted_index(index, key_of(key, round_number + same), size + same)


@_one_function(tf.int64, tf.uint64, tf.int64)
def _shuffled_index(index, key, size):
    return _permuted_index(index, key, size)


def _permuted_index(index, key, size):
    side = _side(size)

    # The network permutes a square of indices. An index of `size` or more is permuted again until it is below `size`,
    # which keeps the mapping one-to-one.
    def walk(place, outside):
        place = tf.where(outside, _permuted(place, key, side), place)
        return place, place >= size

    return tf.while_loop(lambda _, outside: tf.reduce_any(outside), walk, [index, tf.ones_like(index, tf.bool)])[0]


@WRAPS
def _permuted(place, key, side):
    left, right = place // side, place % side
    for number in range(ROUNDS):
        step = _mixed(key + tf.constant(_GOLDEN * (number + 1) % 2**64, tf.uint64) + tf.cast(right, tf.uint64))
        step = tf.cast(tf.bitwise.right_shift(step, tf.constant(1, tf.uint64)), tf.int64)
        left, right = right, (left + step) % side
    return left * side + right


def _side(size):
    """Returns the side of the smallest square of at least `size` indices."""
    root = tf.cast(tf.sqrt(tf.cast(size, tf.float64)), tf.int64)
    return tf.where(root * root < size, root + 1, root)


@WRAPS
def _mixed(value):
    """Applies the finalizer of splitmix64: every bit of the result depends on every bit of the value."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(shift, tf.uint64)))
        value *= tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(value, tf.bitwise.right_shift(value, tf.constant(31, tf.uint64)))


def draw(keys, number, size, count, width):
    """Returns the members `[n, width]` of draws, in `0 ... size - 1`. Positions from `count` on are meaningless.

    All arguments except `width` are `[n]`: `keys`, such as `key_of(seed, class)`, one for each population's stream, the
    `number` of earlier draws, the `size` of each population, and the `count` of members to draw, at most `size`.
    `width` is the largest `count`.
    """
    return _drawn(*_columns(keys, number, size, count), width)


def fill(keys, number, size, width):
    """Draws `width` members, like `draw`. A smaller population is repeated as often as it fits, then some members."""
    keys, number, size = _columns(keys, number, size)
    drawn = _drawn(keys, number, size, width % size, width)
    place = tf.range(width, dtype=tf.int64) + tf.zeros_like(drawn)
    whole = width // size * size
    rest = tf.gather(drawn, tf.maximum(place - whole, 0), batch_dims=1)
    return tf.where(place < whole, place % size, rest)


def times_drawn(keys, number, size, count, members, width):
    """Counts how often each of `members`, drawn with the same arguments, was in earlier draws."""
    keys, number, size, count = _columns(keys, number, size, count)
    leave_out = 2 * count > size
    streamed = tf.where(leave_out, size - count, count)
    position = number * streamed
    whole, part = position // size, position % size
    offset = tf.range(2 * width, dtype=tf.int64) + tf.zeros_like(position)
    begun = _round_members(keys, whole + tf.zeros_like(offset), whole, offset, size, streamed, width)
    came_again = _among(members, begun, offset < part)
    # If members are drawn and not left out, a member of the current draw was in each earlier round once.
    own_round = (position + tf.range(tf.shape(members)[1], dtype=tf.int64)) // size
    return tf.where(leave_out, number - (whole + came_again), own_round)


# In the functions below, arguments of a population are columns `[n, 1]`.


def _columns(*arguments):
    return [tf.expand_dims(argument, 1) for argument in arguments]


def _drawn(keys, number, size, count, width):
    # If more than half of the population is drawn, the members to leave out are drawn instead.
    leave_out = 2 * count > size
    streamed = tf.where(leave_out, size - count, count)
    members = _stream(keys, number, size, streamed, width)
    return tf.cond(
        tf.reduce_any(leave_out),
        lambda: tf.where(leave_out, _others(members, streamed, size, width), members),
        lambda: members,
    )


def _stream(keys, number, size, count, width):
    """Returns members `number * count ...` of the endless stream of rounds; requires `2 * count <= size`."""
    first = number * count
    position = first + tf.range(width, dtype=tf.int64)
    last = (first + tf.maximum(count, 1) - 1) // size
    return _round_members(keys, position // size, last, position % size, size, count, width)


def _round_members(keys, round_number, newest, offset, size, count, width):
    """Returns the member at `offset` of a round (both `[n, m]`). `newest` is the last round of the draw."""
    plain = shuffled_index_of_round(offset % size, keys, round_number, size)
    opening = _opening(keys, newest, size, count, width)
    repaired = tf.gather(opening, tf.minimum(offset, width - 1), batch_dims=1)
    opens = (offset < count) & (round_number == newest)
    return tf.where(opens, repaired, plain)


def _opening(keys, round_number, size, count, width):
    """Returns the first `count` members `[n, width]` of a round, with those that are already in the same draw last."""
    place = tf.range(width, dtype=tf.int64)
    # The draw's positions in the round before. There are none in the first round, or if a draw ends with a round.
    shared = (round_number * size) % tf.maximum(count, 1)
    last_offset = size - shared + place
    earlier = shuffled_index_of_round(last_offset % size, keys, round_number - 1, size)
    first = shuffled_index_of_round(place % size, keys, round_number, size)
    drawn = _among(first, earlier, place < shared)
    unused = tf.cast(place >= count, tf.int64)
    # These unique keys sort drawn members last and preserve the order otherwise.
    order = tf.argsort(place + width * drawn + 2 * width * unused, axis=1)
    return tf.gather(first, order, batch_dims=1)


def _others(left_out, left_out_count, size, width):
    """Returns the members `[n, width]` of `0 ... size - 1` that are not left out; requires `size < 2 * width`."""
    member = tf.range(2 * width, dtype=tf.int64)
    counted = tf.range(width, dtype=tf.int64) < left_out_count
    out = _among(tf.expand_dims(member, 0), left_out, counted)
    out = tf.maximum(out, tf.cast(member >= size, tf.int64))
    return tf.cast(tf.argsort(member + 2 * width * out, axis=1)[:, :width], tf.int64)


def _among(members, others, counted):
    """Returns 1 for members that are among the counted others, all `[n, ...]`, and 0 for all other members."""
    same = (tf.expand_dims(members, 2) == tf.expand_dims(others, 1)) & tf.expand_dims(counted, 1)
    return tf.cast(tf.reduce_any(same, axis=2), tf.int64)


def each_alone(labels: Labels) -> bool:
    """Returns whether all rows have different labels, so that the labels carry no information.

    Args:
        labels: `[N]` integer class labels.

    Example:

    ```python
    from pipelines.sampling import each_alone

    each_alone([3, 1, 2])  # True
    ```
    """
    return len(np.unique(labels)) == len(labels)


def group_by_class(labels: Labels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the rows sorted by class, and the start and the size of each class among them.

    Args:
        labels: `[N]` integer class labels.

    Returns:
        Three int64 arrays: `rows` `[N]`, `starts` `[C]` and `sizes` `[C]`.

    Example:

    ```python
    from pipelines.sampling import group_by_class

    rows, starts, sizes = group_by_class([7, 5, 7])
    rows.tolist(), starts.tolist(), sizes.tolist()  # ([1, 0, 2], [0, 1], [1, 2])
    ```
    """
    labels = np.asarray(labels)
    rows = np.argsort(labels, kind="stable").astype(np.int64)
    ordered = labels[rows]
    # np.unique would sort the labels again.
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(rows)])
    return rows, starts, np.diff(np.append(starts, len(rows)))


@register("labels", "images")
class ImageNumbers(Value):
    """Labels that treat each training image as its own class, for self-supervised learning with the sampler views.

    Example:

    ```python
    from pipelines.sampling import ImageNumbers

    ImageNumbers().first(np.array([5, 5, 7]), seed=0)  # [0, 1, 2]
    ```
    """

    def first(self, labels: Labels, seed: int) -> np.ndarray:
        """Returns the new labels of the training images: their row numbers."""
        del seed
        return np.arange(len(labels))


class Stream(enum.IntEnum):
    """Purposes of random numbers. They are negative, because draws of rows within a class use the class label."""

    CLASSES = -1
    CLUSTERS = -2
    PARTNERS = -3
    ORDER = -4
    SUBSTITUTES = -5
    LEARNERS = -6
    NEIGHBORS = -7
    GROUPS = -8


# The learner of batches if all rows form one cluster.
EVERYTHING = -1


def stream_key(seed, stream, *parts):
    """Returns the key of a stream and of further integers (tensors that are broadcast against each other)."""
    return key_of(seed, tf.constant(int(stream), tf.int64), *parts)


def stream_keys(seed, steps, stream=Stream.CLASSES):
    """Returns the key of a stream for each of the steps, `[n]`."""
    return tf.fill(tf.shape(steps), stream_key(seed, stream))


def as_long_as(steps, *scalars):
    """Repeats each scalar for each of the steps, `[n]`."""
    return [tf.fill(tf.shape(steps), scalar) for scalar in scalars]
