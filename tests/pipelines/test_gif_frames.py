"""Frames of GIFs, written block by block, and GIFs that are refused for them."""

import struct

import numpy as np
import pytest
import tensorflow as tf

from pipelines import image_headers
from pipelines.decoding import decode
from pipelines.gif_frames import gif_frames
from pipelines.verification import reason_of
from tests.pipelines.image_files import encoded, moving, noise

COMMENT = b"\x21\xfe" + b"\x05hello\x02, \x00"
CONTROL = b"\x21\xf9\x04\x00\x0a\x00\x00\x00"
TRAILER = b"\x3b"


def header(table=None):
    """The screen is of one pixel; of the table of colours the size is given as the file has it."""
    flags = 0 if table is None else 0x80 | table
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, flags, 0, 0) + colours(table)


def frame(width, height, table=None, data=(b"\x02\x16",)):
    """What its data are does not matter, as they are not decoded here; among them are what begins other blocks."""
    flags = 0 if table is None else 0x80 | table
    chain = b"".join(bytes([len(block)]) + block for block in data) + b"\x00"
    return b"\x2c" + struct.pack("<HHHHB", 3, 4, width, height, flags) + colours(table) + b"\x02" + chain


def colours(table):
    return b"" if table is None else b"\x2c" * (3 * 2 ** (table + 1))


MISLEADING = (b"\x2c" * 255, b"\x21\xfe\x3b", b"\x00" * 9)
FILES = {
    "one frame": (header() + frame(7, 5) + TRAILER, 35, 35),
    "colours of all": (header(7) + frame(7, 5) + TRAILER, 35, 35),
    "colours of a frame": (header(0) + frame(7, 5, table=3) + frame(2, 2) + TRAILER, 35, 39),
    "extensions": (header() + COMMENT + CONTROL + frame(2, 3) + CONTROL + frame(4, 5) + COMMENT + TRAILER, 20, 26),
    "misleading data": (header() + frame(2, 3, data=MISLEADING) + frame(300, 5) + TRAILER, 1500, 1506),
    "large": (header() + frame(65535, 65535) * 3 + TRAILER, 65535**2, 3 * 65535**2),
    "no frame": (header() + COMMENT + TRAILER, 0, 0),
    "rubbish behind": (header() + frame(2, 3) + b"\x99" + frame(9, 9), 6, 6),
    "no end": (header() + frame(2, 3), 6, 6),
    "cut off in a chain": (header() + frame(2, 3, data=MISLEADING)[:-200], 6, 6),
    "cut off in a description": (header() + frame(2, 3) + frame(9, 9)[:6], 6, 6),
    "cut off in the header": (b"GIF89a\x01", 0, 0),
}


@pytest.mark.parametrize("file, largest, together", FILES.values(), ids=FILES)
def test_frames_are_counted_by_their_own_sizes(file, largest, together):
    assert [int(number) for number in gif_frames(tf.constant(file))] == [largest, together]


def test_frames_of_another_writer():
    frames = [noise(30, 20, seed) for seed in range(4)]
    assert [int(number) for number in gif_frames(tf.constant(moving("GIF", frames)))] == [600, 2400]


def test_a_frame_larger_than_the_screen_is_judged_by_its_own_size():
    file = bytearray(encoded(noise(4, 4), "GIF"))
    place = file.index(struct.pack("<BHHHH", 0x2C, 0, 0, 4, 4))
    file[place + 5 : place + 9] = struct.pack("<HH", 60000, 50000)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(tf.constant(bytes(file)))
    assert "This GIF has a frame of more than 100000000 pixels" in reason_of(error.value)


def test_frames_are_judged_together(monkeypatch):
    frames = [noise(30, 20, seed) for seed in range(4)]
    monkeypatch.setattr(image_headers, "MOST_GIF_PIXELS", 2400)
    np.testing.assert_array_equal(decode(tf.constant(moving("GIF", frames))).shape, (30, 20, 3))
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        decode(tf.constant(moving("GIF", [*frames, noise(30, 20, 9)])))
    assert "The frames of this GIF have more than 2400 pixels together" in reason_of(error.value)
