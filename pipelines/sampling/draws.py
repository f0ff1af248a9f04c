"""Draws without replacement, as a pure function of a seed and the number of the draw.

A population of `size` members is gone through in rounds, each in an order of its own; draw after draw takes the next
`count` of them. So every member comes once before any comes twice, for ever, and no state is kept. Where a draw
reaches over the end of a round, the new round begins with members that the draw does not hold yet, so that a draw
never holds one twice.

All functions work on many draws at once. Arguments are int64 tensors that broadcast against each other.
"""

import tensorflow as tf

from pipelines.sampling.index_shuffle import key_of, shuffled_index


def draw(keys, number, size, count, width):
    """Members of the draws.

    Args:
        keys: `[n]` uint64, what tells one population's stream from another's: `key_of(seed, class)`.
        number: `[n]`, how many draws came before.
        size: `[n]`, members of each population.
        count: `[n]`, how many to take, at most `size`.
        width: Python integer, the largest `count`.

    Returns:
        `[n, width]` members in `0 ... size - 1`; places from `count` on are meaningless.
    """
    # A draw of more than half of the population is easier told by what it leaves out.
    leave_out = 2 * count > size
    streamed = tf.where(leave_out, size - count, count)
    members = _stream(keys, number, size, streamed, width)
    return tf.cond(
        tf.reduce_any(leave_out),
        lambda: tf.where(leave_out[:, None], _others(members, streamed, size, width), members),
        lambda: members,
    )


def fill(keys, number, size, width):
    """Like `draw` of `width` members, also where a population is smaller: it gives all as often as they fit, then some.

    Returns:
        `[n, width]` members in `0 ... size - 1`.
    """
    drawn = draw(keys, number, size, width % size, width)
    place = tf.range(width, dtype=tf.int64)[None, :] + tf.zeros_like(drawn)
    whole = (width // size * size)[:, None]
    rest = tf.gather(drawn, tf.maximum(place - whole, 0), batch_dims=1)
    return tf.where(place < whole, place % size[:, None], rest)


def times_drawn(keys, number, size, count, members, width):
    """How often each of `members`, what `draw` gave for the same arguments, came in the draws before it."""
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
    """Members number `number * count ...` of the endless stream of rounds; needs `2 * count <= size`."""
    position = number[:, None] * count[:, None] + tf.range(width, dtype=tf.int64)[None, :]
    last = (number * count + tf.maximum(count, 1) - 1) // size
    return _round_members(keys, position // size[:, None], last, position % size[:, None], size, count, width)


def _round_members(keys, round_number, newest, offset, size, count, width):
    """Which member stands at `offset` of a round (both `[n, m]`); `newest` `[n]` is the last round that is read."""
    plain = _shuffled(keys, round_number, offset % size[:, None], size)
    opening = _opening(keys, newest, size, count, width)
    repaired = tf.gather(opening, tf.minimum(offset, width - 1), batch_dims=1)
    opens = (offset < count[:, None]) & (round_number == newest[:, None])
    return tf.where(opens, repaired, plain)


def _opening(keys, round_number, size, count, width):
    """The first `count` members `[n, width]` of a round: those that the draw in which it begins lacks come first."""
    place = tf.range(width, dtype=tf.int64)[None, :]
    # The draw's places that belong to the round before; 0 in the very first round and where a draw ends with a round.
    shared = (round_number * size) % tf.maximum(count, 1)
    last_offset = (size - shared)[:, None] + place
    earlier = _shuffled(keys, round_number[:, None] - 1 + tf.zeros_like(last_offset), last_offset % size[:, None], size)
    first = _shuffled(keys, round_number[:, None] + tf.zeros_like(last_offset), place % size[:, None], size)
    held = (first[:, :, None] == earlier[:, None, :]) & (place < shared[:, None])[:, None, :]
    held = tf.cast(tf.reduce_any(held, axis=2), tf.int64)
    beyond = tf.cast(place >= count[:, None], tf.int64)
    # Unique keys that put the held ones last and keep the order otherwise.
    order = tf.argsort(place + width * held + 2 * width * beyond, axis=1)
    return tf.gather(first, order, batch_dims=1)


def _others(left_out, left_out_count, size, width):
    """The members `[n, width]` of `0 ... size - 1` that are not left out, where `size < 2 * width`."""
    member = tf.range(2 * width, dtype=tf.int64)[None, :]
    counted = tf.range(width, dtype=tf.int64)[None, :] < left_out_count[:, None]
    out = tf.reduce_any((member[:, :, None] == left_out[:, None, :]) & counted[:, None, :], axis=2)
    out = tf.cast(out | (member >= size[:, None]), tf.int64)
    return tf.cast(tf.argsort(member + 2 * width * out, axis=1)[:, :width], tf.int64)


def _shuffled(keys, round_number, offset, size):
    """The member at `offset` `[n, m]` of a random order of `0 ... size - 1`, one order for each key and round."""
    key = key_of(keys[:, None], round_number)
    return shuffled_index(offset, key, size[:, None] + tf.zeros_like(offset))
