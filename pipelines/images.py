"""Encoded images to what a network takes: decode, transform, normalise.

Training, evaluation and serving all prepare images here, so that they agree in every pixel. A transform is a chain
of steps, written as `random_resized_crop(area=(0.5, 1.0))|flip`; `pipelines.transforms` has them.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from pipelines import affine, blur, colours, compression, erasing, keras_layers, rand_augment, transforms  # noqa: F401
from pipelines.decoding import decode
from pipelines.preparation import Preparation
from pipelines.sampling import group_by_class
from tfdml.registry import create_chain

# Images that are looked at at once, in search of one that cannot be read.
THREADS = 8


def preparation(transform, *, image_size, mean, std, channels="rgb", shrink=False):
    """Makes the function `(contents, seed) -> image` of a transform.

    Args:
        transform: chain of transform specs; their `size` is `image_size` where they do not set it.
        image_size: side of the square that the chain ends with, pixels.
        mean, std: per-channel numbers; the result is `(pixels - mean) / std` with pixels from 0 to 255.
        channels: "rgb" or "bgr", the order of the result's channels and of `mean` and `std`.
        shrink: decode JPEGs at 1/2, 1/4 or 1/8 where they are resized to that or less: faster, other pixels.

    Returns:
        A function of an encoded image (scalar string), a seed (`[2]` int64) and where wanted a box that the image is
        cropped to first (`[4]`, see `decode`), which gives float32 `[image_size, image_size, 3]`; a `Preparation`.
    """
    if channels not in ("rgb", "bgr"):
        raise ValueError(f"Expected channels in the order 'rgb' or 'bgr', received {channels!r}.")
    steps = create_chain("transform", transform, size=image_size)
    shape = (image_size, image_size, 3)
    # As large as the image: where TensorFlow must repeat three numbers it takes five times as long.
    mean, std = (np.broadcast_to(np.asarray(numbers, np.float32), shape).copy() for numbers in (mean, std))

    def normalise(image):
        if image.shape != shape:
            raise ValueError(
                f"The transform {transform!r} ends with images of shape {tuple(image.shape)}; expected "
                f"({image_size}, {image_size}, 3). End it with a crop, or with warp."
            )
        if channels == "bgr":
            image = tf.reverse(image, axis=[2])
        return (image - mean) / std

    return Preparation(steps, normalise, shape=shape, shrink=shrink, name=f"{transform} {image_size} {shrink}")


def thumbnail(split, row, side):
    """A small picture of a row, uint8 `[side, side, 3]`, aspect kept."""
    resized = tf.image.resize_with_pad(_image_of(split, row), side, side, antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8).numpy()


def find_unreadable(split):
    """The first row of a split that cannot be read or decoded and why, `(row, reason)`, or None."""
    return _first(range(len(split)), lambda row: why_unreadable(split, row))


def find_unreadable_class(split):
    """The rows of the first class without an image that can be read and why, `(rows, reason)`, or None."""
    rows, starts, sizes = group_by_class(split.labels)

    def why(group):
        reason = why_unreadable(split, group[0])
        return reason if reason and all(why_unreadable(split, row) for row in group[1:]) else None

    return _first([rows[start : start + size] for start, size in zip(starts, sizes, strict=True)], why)


def _first(items, why):
    """The first item that there is a reason against, and the reason; None where there is none."""
    threads = ThreadPoolExecutor(THREADS)
    try:
        found = zip(items, threads.map(why, items), strict=True)
        return next(((item, reason) for item, reason in found if reason), None)
    finally:
        threads.shutdown(cancel_futures=True)


def why_unreadable(split, row):
    """Why a row cannot be read or decoded, or None."""
    try:
        _image_of(split, row)
    except tf.errors.OpError as error:
        return reason_of(error)
    return None


# Lines of an error that come before what it says: headings, and a stack of files.
BEFORE_REASON = re.compile(
    r"Graph execution error|Detected at node|\d+ root error|<stack traces unavailable>|\s+File \"|\t? *\[\[\{\{"
)


def reason_of(error):
    """What an error of TensorFlow says, without the names of its function in front and its operation behind.

    Of an error in a graph it stands behind where the operation was defined, if it does at all.
    """
    lines = [line for line in error.message.split("\n") if line.strip() and not BEFORE_REASON.match(line)]
    message = re.sub(r"^\s*\(\d+\) *\w+:|\{\{.*?\}\}|\[Op:.*", "", (lines or [error.message])[0]).strip()
    checked = re.fullmatch(r"assertion failed: (.*)", message)
    return " ".join(re.findall(r"\[*([^][]+)\]*", checked[1])) if checked else message


def _image_of(split, row):
    contents = tf.constant(split.images[row]) if split.encoded else tf.io.read_file(split.images[row])
    return decode(contents, None if split.boxes is None else split.boxes[row])
