"""Small files that take long to decode are found before they are decoded; ordinary ones are not."""

import io
import zlib

import numpy as np
import pytest
import tensorflow as tf

from pipelines import checks
from pipelines.checks import MOST_PARTS, MOST_PIXELS, is_quick, wrong_header
from pipelines.datasets import Split
from pipelines.images import decoding
from pipelines.images.decoding import decode, jpeg_scans, why_costly
from pipelines.reading.unreadable import verify
from tests.pipelines.image_files import chunk, encoded, noise, png, with_scans
from tfdml.console.startup import tensorflow_reason

TEXT = b"about\0\0" + zlib.compress(bytes(1000))
PIXELS = bytes(25 * 8)
# So many bytes and pixels that scans are counted.
SIDE, REST = 990, bytes(20_000)
TOO_MANY_SCANS = with_scans(1001, SIDE) + REST


def sequential(count):
    """A JPEG that is not progressive, with a scan for each color, the last one repeated."""
    file = encoded(np.full((SIDE, SIDE, 3), 7), "JPEG", subsampling=0)
    start = file.index(b"\xff\xda")
    data = file[start + 14 : -2]
    scans = [b"\xff\xda\x00\x08\x01" + bytes((color, 0, 0, 63, 0)) + data for color in (1, 2, 3)]
    return file[:start] + b"".join(scans) + scans[-1][:10] * (count - 3) + file[-2:]


# Name: the file, and what is said of it by its bytes, and inside a model.
COSTLY = {
    "scans": (TOO_MANY_SCANS, "has 1,001 scans, more than 1,000", "more scans than allowed for its size"),
    "scans of a large image": (with_scans(110, 3200), "has 110 scans, more than 97", "more scans than"),
    "sequential scans": (sequential(1001) + REST, "has 1,001 scans", "more scans than"),
    "texts before the pixels": (
        png(PIXELS, 8, 8, before=chunk(b"zTXt", TEXT) * 21),
        "has 21 compressed texts",
        "more than 20 compressed texts",
    ),
    "texts after the pixels": (
        png(PIXELS, 8, 8, after=chunk(b"iTXt", b"k\0\1\0\0\0" + TEXT) * 21),
        "has 21 compressed texts",
        "more than 20 compressed texts",
    ),
}
FINE = {
    "JPEG": encoded(noise(40, 30), "JPEG"),
    "progressive": encoded(noise(40, 30), "JPEG", progressive=True),
    "as many scans as are allowed": with_scans(1000, SIDE) + REST,
    "more, of few pixels": with_scans(2000, 32),
    # The film of a phone's photo, by chance with what looks like scans.
    "film behind a photo": encoded(noise(40, 30), "JPEG") + b"\xff\xda\x11" * 5000,
    "texts": png(PIXELS, 8, 8, before=chunk(b"zTXt", TEXT) * 10, after=chunk(b"zTXt", TEXT) * 10),
    "WebP": encoded(noise(40, 30), "WebP"),
}


@pytest.mark.parametrize("file, by_bytes, in_graph", COSTLY.values(), ids=COSTLY)
def test_a_costly_file_is_refused_by_name(file, by_bytes, in_graph):
    assert by_bytes in why_costly(file)
    for decoded in (decode, tf.function(decode, input_signature=[tf.TensorSpec([], tf.string)])):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            decoded(tf.constant(file))
        assert in_graph in tensorflow_reason(error.value)


@pytest.mark.parametrize("file", FINE.values(), ids=FINE)
def test_others_are_decoded(file):
    assert why_costly(file) is None
    assert wrong_header(io.BytesIO(file)) is None
    assert decode(tf.constant(file)).shape[2] == 3


@pytest.mark.parametrize("file", [b"", b"\x89PNG", b"\x89PNG\r\n\x1a\n" + b"\xff" * 40, b"text"])
def test_what_is_no_image_is_not_its_business(file):
    assert why_costly(file) is None


def test_a_jpeg_that_ends_in_its_header_is_not_decoded():
    file = encoded(noise(40, 30), "JPEG")
    assert why_costly(file[: file.index(b"\xff\xda")]) == "ends before its pixels" and why_costly(file) is None


def test_only_small_images_are_quick():
    small, thumbnail = encoded(noise(40, 30), "JPEG"), b"\xff\xe0\x00\x15" + b"\xff\xc0\x00\x11\x08\x00\x05\x00\x05"
    quick = {
        "JPEG": small,
        "progressive": encoded(noise(40, 30), "JPEG", progressive=True),
        "PNG": encoded(noise(40, 30), "PNG"),
    }
    slow = {
        "large JPEG": with_scans(10, 3000),
        "large, with a small one in its header": small[:2] + thumbnail.ljust(23) + with_scans(10, 3000)[2:],
        "scans": with_scans(26, 32),
        "large PNG": png(PIXELS, 3000, 3000),
        "packed PNG": png(bytes(2**25), 8, 8),
        "WebP": encoded(noise(40, 30), "WebP"),
        "cut JPEG": small[:20],
        "text": b"text",
        "nothing": b"",
    }
    assert {name: is_quick(file) for name, file in {**quick, **slow}.items()} == {
        **dict.fromkeys(quick, True),
        **dict.fromkeys(slow, False),
    }


def most_scans(pixels):
    return int(jpeg_scans(b"", [1, pixels])[1])


def test_scripts_of_encoders_pass_at_any_size():
    """The longest that a known encoder writes has 23 scans; a photo of a phone has 12 megapixels."""
    assert most_scans(MOST_PIXELS) >= 23 and most_scans(12_000_000) >= 80 and most_scans(500 * 375) == 1000


def test_what_is_not_unpacked_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(checks, "SPARE_BYTES", 2**20)
    file = png(bytes(2**25), 8, 8)
    assert "compressed data that is not part of its pixels" in why_costly(file)
    # It has the pixels that it claims.
    assert why_costly(png(bytes(2**25 + 2**15), 8, 2**25 // 25)) is None
    unpacked = checks._unpacked(file, 2**20)
    assert 2**20 < unpacked <= 2**21 + 1


@pytest.mark.parametrize(
    "before, file",
    [
        (b"\xff\xd8", lambda parts: b"\xff\xd8" + b"\xff\xfe\0\2" * parts + FINE["JPEG"][2:]),
        (b"\xff\xd8", lambda parts: b"\xff\xd8" + b"\xff" * parts + FINE["JPEG"][2:]),
        (b"\x89PNG", lambda parts: png(PIXELS, 8, 8, before=chunk(b"abCd", b"") * parts)),
    ],
    ids=["segments", "filling", "chunks"],
)
def test_pillow_does_not_read_a_header_without_end(before, file, tmp_path):
    assert wrong_header(io.BytesIO(file(MOST_PARTS // 2))) is None
    (tmp_path / "image").write_bytes(file(MOST_PARTS + 1))
    assert "more than 5,000 parts before its pixels" in wrong_header(tmp_path / "image")


def test_the_checks_of_bytes_and_of_graphs_are_the_same():
    for side in (1, 90, 500, 1000, 5000, 10_000):
        size = encoded(np.zeros((1, 1, 3)), "JPEG")
        at = size.index(b"\xff\xc0") + 5
        claims = size[:at] + 2 * side.to_bytes(2, "big") + size[at + 4 :]
        padded = claims + bytes(decoding.FREE // max(side**2, decoding.LEAST_PIXELS))
        scan = decoding.SCANS[0]
        enough, more = (padded + scan * (most_scans(side**2) - count) for count in (1, 0))
        assert why_costly(enough) is None and "scans" in why_costly(more)
        assert decoding.jpeg_size(tf.constant(enough)).numpy().tolist() == [side, side]
        with pytest.raises(tf.errors.InvalidArgumentError, match="more scans than"):
            decoding.jpeg_size(tf.constant(more))


def test_a_check_of_a_dataset_tells_it():
    split = Split(np.array([FINE["JPEG"], TOO_MANY_SCANS], dtype=object), np.zeros(2, np.int64))
    good, bad = verify(split, min_side=1, threads=1)
    assert good.reason is None and "1,001 scans" in bad.reason
