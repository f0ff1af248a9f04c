"""The frames of a GIF, counted before they are decoded: their sizes are their own, whatever the file's header says."""

import tensorflow as tf

# Bytes of the header, in which the last but two says how long a table of colours comes behind it.
HEADER, TABLE_FLAGS = 13, 10
EXTENSION, FRAME = 0x21, 0x2C
# Bytes of a frame's description with the one that comes behind its colours.
DESCRIPTION = 11


def gif_frames(contents):
    """Pixels of the largest frame of a GIF and of all together, int64 scalars.

    Args:
        contents: the file, a scalar string that begins with "GIF8".
    """
    length = tf.strings.length(contents)
    # A description may reach beyond the end of a file that is cut off.
    data = tf.cast(tf.io.decode_raw(tf.strings.join([contents, "\0" * HEADER]), tf.uint8), tf.int32)

    def step(place, in_chain, largest, together):
        """One block: of a chain of them, which its length begins and an empty one ends, or one that begins a chain."""
        first = data[place]
        description = data[place : place + DESCRIPTION]
        is_frame = ~in_chain & (first == FRAME)
        sides = tf.cast(description[5:9:2] + 256 * description[6:10:2], tf.int64)
        pixels = tf.where(is_frame, tf.reduce_prod(sides), 0)
        begins = is_frame | (~in_chain & (first == EXTENSION))
        ahead = tf.where(is_frame, DESCRIPTION + _table(description[-2]), 2)
        ahead = tf.where(in_chain, 1 + first, tf.where(begins, ahead, length))
        goes_on = tf.where(in_chain, first > 0, begins)
        return place + ahead, goes_on, tf.maximum(largest, pixels), together + pixels

    begin = HEADER + _table(data[TABLE_FLAGS])
    state = begin, tf.constant(False), tf.constant(0, tf.int64), tf.constant(0, tf.int64)
    return tf.while_loop(lambda place, *_: place < length, step, state, parallel_iterations=1)[2:]


def _table(flags):
    """Bytes of a table of colours."""
    colours = tf.bitwise.left_shift(2, tf.bitwise.bitwise_and(flags, 7))
    return tf.where(flags >= 128, 3 * colours, 0)
