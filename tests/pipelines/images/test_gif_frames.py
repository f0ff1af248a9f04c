"""Frames of GIFs, written block by block, and GIFs that are refused for them."""

import struct

import numpy as np
import pytest
import tensorflow as tf

import pipelines.images.gif_frames
from pipelines.images import image_headers
from pipelines.images.decoding import decode
from pipelines.images.errors import reason_of
from pipelines.images.gif_frames import gif_frames
from tests.pipelines.image_files import encoded, moving, noise

COMMENT = b"\x21\xfe" + b"\x05hello\x02, \x00"
CONTROL = b"\x21\xf9\x04\x00\x0a\x00\x00\x00"
TRAILER = b"\x3b"


def header(table=None):
    """The screen is of one pixel; of the table of colours the size is given as the file has it."""
    flags = 0 if table is None else 0x80 | table
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, flags, 0, 0) + colours(table)


def frame(width, height, *, left=0, top=0, table=None, data=(b"\x02\x16",)):
    """What its data are does not matter, as they are not decoded here; among them are what begins other blocks."""
    flags = 0 if table is None else 0x80 | table
    chain = b"".join(bytes([len(block)]) + block for block in data) + b"\x00"
    return b"\x2c" + struct.pack("<HHHHB", left, top, width, height, flags) + colours(table) + b"\x02" + chain


def colours(table):
    return b"" if table is None else b"\x2c" * (3 * 2 ** (table + 1))


MISLEADING = (b"\x2c" * 255, b"\x21\xfe\x3b", b"\x00" * 9)
FULL = (b"\x2c" * 255,) * 70
# Name: the file; height and width of the canvas, the corner of the first frame, pixels of all frames.
FILES = {
    "one frame": (header() + frame(7, 5) + TRAILER, 5, 7, 0, 35),
    "colours of all": (header(7) + frame(7, 5) + TRAILER, 5, 7, 0, 35),
    "colours of a frame": (header(0) + frame(7, 5, table=3) + frame(2, 2) + TRAILER, 5, 7, 0, 39),
    "extensions": (header() + COMMENT + CONTROL + frame(2, 3) + CONTROL + frame(4, 5) + COMMENT, 5, 4, 0, 26),
    "high and wide": (header() + frame(1, 60000) + frame(60000, 1) + TRAILER, 60000, 60000, 0, 120000),
    "moved": (header() + frame(2, 3, left=3, top=4) + frame(2, 3, left=9) + TRAILER, 3, 2, 7, 12),
    "moved later": (header() + frame(2, 3) + frame(2, 3, left=3, top=4) + TRAILER, 3, 2, 0, 12),
    "misleading data": (header() + frame(2, 3, data=MISLEADING) + frame(300, 5) + TRAILER, 5, 300, 0, 1506),
    "long chain": (header() + frame(2, 3, data=FULL + MISLEADING + FULL) + frame(4, 4), 4, 4, 0, 22),
    "full to its end": (header() + frame(2, 3, data=FULL) + frame(4, 4), 4, 4, 0, 22),
    "large": (header() + frame(65535, 65535) * 3 + TRAILER, 65535, 65535, 0, 3 * 65535**2),
    "no frame": (header() + COMMENT + TRAILER, 0, 0, 0, 0),
    "rubbish behind": (header() + frame(2, 3) + b"\x99" + frame(9, 9), 3, 2, 0, 6),
    "no end": (header() + frame(2, 3), 3, 2, 0, 6),
    "cut off in a chain": (header() + frame(2, 3, data=MISLEADING)[:-200], 3, 2, 0, 6),
    "cut off in a description": (header() + frame(2, 3) + frame(9, 9)[:6], 3, 9, 0, 6),
    "cut off in the header": (b"GIF89a\x01", 0, 0, 0, 0),
}


@pytest.mark.parametrize("file, height, width, corner, together", FILES.values(), ids=FILES)
def test_frames_are_counted_by_their_own_sizes(file, height, width, corner, together):
    found = gif_frames(tf.constant(file))
    assert [int(number) for number in found] == [height, width, corner, together, True]


def test_frames_of_another_writer():
    frames = [noise(30, 20, seed) for seed in range(4)]
    found = gif_frames(tf.constant(moving("GIF", frames)))
    assert [int(number) for number in found] == [30, 20, 0, 2400, True]


def test_looking_comes_to_an_end(monkeypatch):
    monkeypatch.setattr(pipelines.images.gif_frames, "MOST_PIECES", 20)
    assert gif_frames(tf.constant(header() + frame(2, 3, data=(b"\x2c",) * 10) + TRAILER)).complete
    file = tf.constant(header() + frame(2, 3, data=(b"\x2c",) * 30) + TRAILER)
    assert not gif_frames(file).complete
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(file)
    assert "The frames of this GIF are too many" in reason_of(error.value)


def test_a_first_frame_out_of_the_corner_is_refused():
    file = bytearray(encoded(noise(4, 4), "GIF"))
    place = file.index(struct.pack("<BHHHH", 0x2C, 0, 0, 4, 4))
    file[place + 1] = 2
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(tf.constant(bytes(file)))
    assert "The first frame of this GIF is not in the corner. Save one picture of it." in reason_of(error.value)


def test_frames_are_judged_together(monkeypatch):
    frames = [noise(30, 20, seed) for seed in range(4)]
    monkeypatch.setattr(image_headers, "MOST_GIF_PIXELS", 2400)
    np.testing.assert_array_equal(decode(tf.constant(moving("GIF", frames))).shape, (30, 20, 3))
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(tf.constant(moving("GIF", [*frames, noise(30, 20, 9)])))
    assert "or have more than 2400 pixels together" in reason_of(error.value)
