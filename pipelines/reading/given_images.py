"""Images that a user gives: paths, contents of files, or arrays of pixels, one or several."""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf

from pipelines.datasets.split import Split

# Types of an image file: its path, or its contents.
FILES = str | Path | bytes | bytearray


def listed(images):
    """Converts images to a list or array of single images."""
    if isinstance(images, FILES):
        return [images]
    if tf.is_tensor(images) and images.dtype == tf.string:
        return texts_of(images)
    images = images.numpy() if tf.is_tensor(images) else images
    if isinstance(images, np.ndarray):
        return images[None] if images.ndim == 3 and images.dtype.kind not in "OSU" else list(images)
    if isinstance(images, Iterable) and not isinstance(images, dict):
        return list(images)
    image = np.asarray(images)  # Of Pillow.
    if image.ndim < 2:
        raise ValueError(f"Expected paths, contents of files, or arrays of pixels; received {type(images).__name__}.")
    return [image]


def are_files(images):
    """Whether images are paths or contents of files, one or several, and not pixels."""
    if tf.is_tensor(images):
        return images.dtype == tf.string
    several = isinstance(images, list | tuple | np.ndarray) and len(images) > 0
    return isinstance(images[0] if several else images, FILES)


def texts_of(tensor):
    """Paths or contents of files, of a tensor of texts, which are bytes: contents have a zero byte, as no path has."""
    if tensor.shape.rank > 1:
        raise ValueError(f"Expected paths or contents of files [N], received shape {tuple(tensor.shape)}.")
    texts = np.atleast_1d(tensor.numpy()).tolist()
    return [text if b"\0" in text else os.fsdecode(text) for text in texts]


def split_of(files):
    """Returns the split of image files or their contents, after looking whether they are there."""
    if isinstance(files[0], bytes | bytearray):
        return _contents(files)
    for position, path in enumerate(files):
        if not isinstance(path, str | Path):
            raise ValueError(f"Expected paths only, received {type(path).__name__} at position {position}.")
        if not Path(path).is_file():
            what = "is a folder; give its image files" if Path(path).is_dir() else "does not exist"
            raise FileNotFoundError(f"Image {position}, {str(path):.200}, {what}.")
    return Split(np.array([str(path) for path in files], dtype=object), np.zeros(len(files), np.int64))


def _contents(files):
    for position, contents in enumerate(files):
        if not isinstance(contents, bytes | bytearray):
            kind = type(contents).__name__
            raise ValueError(f"Expected contents of files only, received {kind} at position {position}.")
        if b"\0" not in contents and os.path.exists(contents):
            raise ValueError(
                f"Image {position} is the path {bytes(contents)!r} in bytes. Give it as text: os.fsdecode(...)."
            )
    return Split(np.array([bytes(each) for each in files], dtype=object), np.zeros(len(files), np.int64))
