"""Draws without replacement, as a pure function of a seed and the number of the draw.

The `size` members of a population are taken in rounds, each in its own random order; each draw takes the next `count`
of them. So every member comes once before any comes twice, and there is no state. A draw that reaches into the next
round takes members there that it does not have yet, so that no draw has a member twice.

All functions work on many draws at once. Arguments are int64 tensors that broadcast against each other.
"""

import tensorflow as tf

from pipelines.sampling.index_shuffle import shuffled_index_of_round


def draw(keys, number, size, count, width):
    """Returns the members of the draws.

    Args:
        keys: `[n]` uint64, one for each population's stream: `key_of(seed, class)`.
        number: `[n]`, number of earlier draws.
        size: `[n]`, members of each population.
        count: `[n]`, members to take, at most `size`.
        width: Python integer, the largest `count`.

    Returns:
        `[n, width]` members in `0 ... size - 1`; places from `count` on are meaningless.
    """
    return _drawn(*_columns(keys, number, size, count), width)


def fill(keys, number, size, width):
    """Draws `width` members, like `draw`, and repeats a smaller population: all as often as they fit, then some.

    Returns:
        `[n, width]` members in `0 ... size - 1`.
    """
    keys, number, size = _columns(keys, number, size)
    drawn = _drawn(keys, number, size, width % size, width)
    place = tf.range(width, dtype=tf.int64) + tf.zeros_like(drawn)
    whole = width // size * size
    rest = tf.gather(drawn, tf.maximum(place - whole, 0), batch_dims=1)
    return tf.where(place < whole, place % size, rest)


def times_drawn(keys, number, size, count, members, width):
    """Counts how often each of `members`, drawn with the same arguments, came in earlier draws."""
    keys, number, size, count = _columns(keys, number, size, count)
    leave_out = 2 * count > size
    streamed = tf.where(leave_out, size - count, count)
    position = number * streamed
    whole, part = position // size, position % size
    offset = tf.range(2 * width, dtype=tf.int64) + tf.zeros_like(position)
    begun = _round_members(keys, whole + tf.zeros_like(offset), whole, offset, size, streamed, width)
    came_again = _among(members, begun, offset < part)
    # In a stream that is drawn from, a member of the current draw came once in each round before its own.
    own_round = (position + tf.range(tf.shape(members)[1], dtype=tf.int64)) // size
    return tf.where(leave_out, number - (whole + came_again), own_round)


# Below, arguments that belong to a population are columns `[n, 1]`.


def _columns(*arguments):
    return [tf.expand_dims(argument, 1) for argument in arguments]


def _drawn(keys, number, size, count, width):
    """Returns what `draw` does."""
    # For more than half of the population, the members that are left out are drawn instead.
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
    """Returns the member at `offset` of a round (both `[n, m]`); `newest` is the last round that is read."""
    plain = shuffled_index_of_round(offset % size, keys, round_number, size)
    opening = _opening(keys, newest, size, count, width)
    repaired = tf.gather(opening, tf.minimum(offset, width - 1), batch_dims=1)
    opens = (offset < count) & (round_number == newest)
    return tf.where(opens, repaired, plain)


def _opening(keys, round_number, size, count, width):
    """Returns the first `count` members `[n, width]` of a round; members of the draw in which it begins come last."""
    place = tf.range(width, dtype=tf.int64)
    # The draw's places that belong to the round before; 0 in the very first round and where a draw ends with a round.
    shared = (round_number * size) % tf.maximum(count, 1)
    last_offset = size - shared + place
    earlier = shuffled_index_of_round(last_offset % size, keys, round_number - 1, size)
    first = shuffled_index_of_round(place % size, keys, round_number, size)
    drawn = _among(first, earlier, place < shared)
    unused = tf.cast(place >= count, tf.int64)
    # Unique keys that sort drawn members last and preserve the order otherwise.
    order = tf.argsort(place + width * drawn + 2 * width * unused, axis=1)
    return tf.gather(first, order, batch_dims=1)


def _others(left_out, left_out_count, size, width):
    """Returns the members `[n, width]` of `0 ... size - 1` that are not left out, where `size < 2 * width`."""
    member = tf.range(2 * width, dtype=tf.int64)
    counted = tf.range(width, dtype=tf.int64) < left_out_count
    out = _among(tf.expand_dims(member, 0), left_out, counted)
    out = tf.maximum(out, tf.cast(member >= size, tf.int64))
    return tf.cast(tf.argsort(member + 2 * width * out, axis=1)[:, :width], tf.int64)


def _among(members, others, counted):
    """Returns 1 where a member is one of the others that count, all `[n, ...]`, and 0 elsewhere."""
    same = (tf.expand_dims(members, 2) == tf.expand_dims(others, 1)) & tf.expand_dims(counted, 1)
    return tf.cast(tf.reduce_any(same, axis=2), tf.int64)
