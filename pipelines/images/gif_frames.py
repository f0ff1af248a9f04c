"""The frames of a GIF, counted before they are decoded: their sizes are their own, whatever the file's header says."""

import collections

import tensorflow as tf

# Bytes of the header; which of them tells how long a table of colours comes behind it.
HEADER, TABLE_FLAGS = 13, 10
EXTENSION, FRAME = 0x21, 0x2C
# Bytes of a frame's description with the one that comes behind its colours.
DESCRIPTION = 11
# Bytes of the longest block of a chain, of which most are made, with the one that tells its length.
BLOCK = 256
# So many of them are passed over at once.
BLOCKS = 64
# Pieces of a file that are looked at: a frame needs six or so.
MOST_PIECES = 20_000

# Height and width of the canvas on which TensorFlow decodes all frames, int64; left and top of the first frame, added,
# int32; the pixels of all frames, int64; and whether the file was looked at to its end.
GifFrames = collections.namedtuple("GifFrames", ["height", "width", "corner", "together", "complete"])


def gif_frames(contents):
    """The `GifFrames` of a file, a scalar string that begins with "GIF8"."""
    length = tf.strings.length(contents)
    # A description may reach beyond the end of a file that is cut off.
    data = tf.io.decode_raw(tf.strings.join([contents, "\0" * HEADER]), tf.uint8)

    def step(place, in_chain, canvas, corner, together):
        """One piece: a description, or blocks of the chain behind one, whose lengths begin them and 0 ends it."""
        description = tf.cast(tf.slice(data, [place], [DESCRIPTION]), tf.int32)
        first = description[0]
        # Long blocks are passed over together.
        lengths = data[place : place + BLOCKS * BLOCK : BLOCK]
        full = tf.reduce_sum(tf.math.cumprod(tf.cast(lengths == BLOCK - 1, tf.int32)))
        along = tf.where(full > 0, BLOCK * full, 1 + first)
        is_frame = ~in_chain & (first == FRAME)
        begins = is_frame | (~in_chain & (first == EXTENSION))
        left, top, width, height = tf.unstack(description[1:9:2] + 256 * description[2:9:2])
        sides = tf.where(is_frame, tf.cast(tf.stack([height, width]), tf.int64), 0)
        is_first = is_frame & (together == 0)
        behind = tf.where(is_frame, DESCRIPTION + _table(description[9]), 2)
        return (
            place + tf.where(in_chain, along, tf.where(begins, behind, length)),
            tf.where(in_chain, first > 0, begins),
            tf.maximum(canvas, sides),
            tf.where(is_first, left + top, corner),
            together + tf.reduce_prod(sides),
        )

    begin = HEADER + _table(tf.cast(data[TABLE_FLAGS], tf.int32))
    state = begin, tf.constant(False), tf.zeros([2], tf.int64), 0, tf.zeros([], tf.int64)
    place, _, canvas, corner, together = tf.while_loop(
        lambda place, *_: place < length, step, state, parallel_iterations=1, maximum_iterations=MOST_PIECES
    )
    return GifFrames(canvas[0], canvas[1], corner, together, place >= length)


def _table(flags):
    """Bytes of a table of colours."""
    colours = tf.bitwise.left_shift(2, tf.bitwise.bitwise_and(flags, 7))
    return tf.where(flags >= 128, 3 * colours, 0)
