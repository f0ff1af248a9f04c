"""Draws without replacement, as a pure function of a seed and the number of the draw.

The `size` members of a population are taken in rounds, each in its own random order; each draw takes the next `count`
of them. So every member comes once before any comes twice, and there is no state. A draw that reaches into the next
round takes members there that it does not have yet, so that no draw has a member twice.

All functions work on many draws at once. Arguments are int64 tensors that broadcast against each other.
"""

import tensorflow as tf

from pipelines.sampling.index_shuffle import key_of, shuffled_index


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
    # For more than half of the population, the members that are left out are drawn instead.
    leave_out = 2 * count > size
    streamed = tf.where(leave_out, size - count, count)
    members = _stream(keys, number, size, streamed, width)
    return tf.cond(
        tf.reduce_any(leave_out),
        lambda: tf.where(leave_out[:, None], _others(members, streamed, size, width), members),
        lambda: members,
    )


def fill(keys, number, size, width):
    """Draws `width` members, like `draw`, and repeats a smaller population: all as often as they fit, then some.

    Returns:
        `[n, width]` members in `0 ... size - 1`.
    """
    drawn = draw(keys, number, size, width % size, width)
    place = tf.range(width, dtype=tf.int64)[None, :] + tf.zeros_like(drawn)
    whole = (width // size * size)[:, None]
    rest = tf.gather(drawn, tf.maximum(place - whole, 0), batch_dims=1)
    return tf.where(place < whole, place % size[:, None], rest)


def times_drawn(keys, number, size, count, members, width):
    """Counts how often each of `members`, drawn with the same arguments, came in earlier draws."""
    leave_out = 2 * count > size
    streamed = tf.where(leave_out, size - count, count)
    position = number * streamed
    whole, part = position // size, position % size
    offset = tf.range(2 * width, dtype=tf.int64)[None, :] + tf.zeros_like(position)[:, None]
    begun = _round_members(keys, whole[:, None] + tf.zeros_like(offset), whole, offset, size, streamed, width)
    in_part = offset < part[:, None]
    came_again = tf.reduce_any((members[:, :, None] == begun[:, None, :]) & in_part[:, None, :], axis=2)
    left_out = whole[:, None] + tf.cast(came_again, tf.int64)
    # In a stream that is drawn from, a member of the current draw came once in each round before its own.
    own_round = (position[:, None] + tf.range(tf.shape(members)[1], dtype=tf.int64)[None, :]) // size[:, None]
    return tf.where(leave_out[:, None], number[:, None] - left_out, own_round)


def _stream(keys, number, size, count, width):
    """Returns members `number * count ...` of the endless stream of rounds; requires `2 * count <= size`."""
    position = number[:, None] * count[:, None] + tf.range(width, dtype=tf.int64)[None, :]
    last = (number * count + tf.maximum(count, 1) - 1) // size
    return _round_members(keys, position // size[:, None], last, position % size[:, None], size, count, width)


def _round_members(keys, round_number, newest, offset, size, count, width):
    """Returns the member at `offset` of a round (both `[n, m]`); `newest` `[n]` is the last round that is read."""
    plain = _shuffled(keys, round_number, offset % size[:, None], size)
    opening = _opening(keys, newest, size, count, width)
    repaired = tf.gather(opening, tf.minimum(offset, width - 1), batch_dims=1)
    opens = (offset < count[:, None]) & (round_number == newest[:, None])
    return tf.where(opens, repaired, plain)


def _opening(keys, round_number, size, count, width):
    """Returns the first `count` members `[n, width]` of a round; members of the draw in which it begins come last."""
    place = tf.range(width, dtype=tf.int64)[None, :]
    # The draw's places that belong to the round before; 0 in the very first round and where a draw ends with a round.
    shared = (round_number * size) % tf.maximum(count, 1)
    last_offset = (size - shared)[:, None] + place
    earlier = _shuffled(keys, round_number[:, None] - 1 + tf.zeros_like(last_offset), last_offset % size[:, None], size)
    first = _shuffled(keys, round_number[:, None] + tf.zeros_like(last_offset), place % size[:, None], size)
    drawn = (first[:, :, None] == earlier[:, None, :]) & (place < shared[:, None])[:, None, :]
    drawn = tf.cast(tf.reduce_any(drawn, axis=2), tf.int64)
    unused = tf.cast(place >= count[:, None], tf.int64)
    # Unique keys that sort drawn members last and preserve the order otherwise.
    order = tf.argsort(place + width * drawn + 2 * width * unused, axis=1)
    return tf.gather(first, order, batch_dims=1)


def _others(left_out, left_out_count, size, width):
    """Returns the members `[n, width]` of `0 ... size - 1` that are not left out, where `size < 2 * width`."""
    member = tf.range(2 * width, dtype=tf.int64)[None, :]
    counted = tf.range(width, dtype=tf.int64)[None, :] < left_out_count[:, None]
    out = tf.reduce_any((member[:, :, None] == left_out[:, None, :]) & counted[:, None, :], axis=2)
    out = tf.cast(out | (member >= size[:, None]), tf.int64)
    return tf.cast(tf.argsort(member + 2 * width * out, axis=1)[:, :width], tf.int64)


def _shuffled(keys, round_number, offset, size):
    """Returns the member at `offset` `[n, m]` of a random order of `0 ... size - 1`, one for each key and round."""
    key = key_of(keys[:, None], round_number)
    return shuffled_index(offset, key, size[:, None] + tf.zeros_like(offset))
