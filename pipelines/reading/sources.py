"""Images from files, arrays, datasets or functions, by row number."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from pipelines.dataset import SHOWN, Split
from pipelines.datasets.loading import check_headers, missing_files
from pipelines.images.decoding import converted, read_image
from pipelines.operations import tf
from tfdml.registry.arguments import FilePath, Tensor
from tfdml.runtime.backends import uses_tensorflow

# An image: its path, the contents of its file, or its pixels `[H, W, 3]` from 0 to 255.
AnImage: TypeAlias = FilePath | bytes | bytearray | np.ndarray
# One or several images, an array `[N, H, W, 3]`, or a dataset.
if TYPE_CHECKING:
    Images: TypeAlias = AnImage | Sequence[AnImage] | tf.Tensor | tf.data.Dataset
else:
    # NumPy operations have neither of TensorFlow's types.
    Images = Tensor
# What `tf.data.Dataset.cardinality` returns for an infinite dataset.
INFINITE = -1
ONE_HOT = "Convert one-hot labels with np.argmax(labels, axis=-1)."


class Source(NamedTuple):
    """Images by row."""

    # Function from a row number (int64 scalar) to an image or to the contents of its file.
    read: Callable
    # Whether `read` returns the contents of files.
    encoded: bool
    # Number of rows, or None if it is unknown.
    count: int | None


def source_of(images):
    """Returns the `Source` of paths, file contents, an array, a list of arrays, or a function of a row number."""
    if callable(images):
        return _function(images)
    if isinstance(images, np.ndarray | tf.Tensor) and images.dtype not in (object, tf.string):
        array = np.asarray(images)
        if array.dtype.kind not in "SU":
            return _array(array)
    rows = listed(images)
    if not rows:
        raise ValueError("images is empty. Expected at least one image.")
    if all(isinstance(row, str | os.PathLike | bytes) for row in rows):
        # A dataset contains paths as bytes. Unlike the contents of an image file, a path has no zero byte.
        if any(isinstance(row, bytes) and b"\0" in row for row in rows):
            with tf.device("CPU"):
                contents = tf.constant([os.fsencode(row) for row in rows])
            return Source(lambda row: converted(contents[row]), True, len(rows))
        return _files([os.path.expanduser(os.fsdecode(row)) for row in rows])
    return _arrays([np.asarray(row) for row in rows])


def read_dataset(dataset):
    """Reads a `tf.data.Dataset` of (image, label), batched or not, into memory; returns `(images, labels)`.

    Samplers need any row at any time, which a stream cannot provide.
    """
    spec = dataset.element_spec
    if not (isinstance(spec, tuple) and len(spec) == 2):
        raise ValueError(f"The dataset must have elements (image, label). Received: elements {spec}.")
    if int(dataset.cardinality()) == INFINITE:
        raise ValueError("The dataset is infinite, so it cannot be read into memory. Remove repeat().")
    image, label = spec
    single = 0 if image.dtype.name == "string" else 3
    if label.shape.rank == 1 and image.shape.rank != single:
        dataset = dataset.unbatch()
    elif label.shape.rank != 0:
        raise ValueError(
            f"Expected one integer class label per image. Received: labels of shape {label.shape}. {ONE_HOT}"
        )
    rows = list(dataset.as_numpy_iterator())
    return [image for image, _ in rows], np.array([label for _, label in rows])


def class_numbers(labels):
    """Converts labels to int64 `[N]`. Strings, and integers above int64, become their index among sorted labels."""
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"Expected one label per image. Received: labels of shape {labels.shape}. {ONE_HOT}")
    if labels.dtype.kind in "iu":
        large = len(labels) and labels.max() > np.iinfo(np.int64).max
        return np.unique(labels, return_inverse=True)[1] if large else labels.astype(np.int64)
    if labels.dtype.kind in "SUO" and all(isinstance(label, str | bytes) for label in labels.tolist()):
        texts = [os.fsdecode(label) for label in labels.tolist()]
        # In an array of text, each element would need as much memory as the longest one.
        places = {text: place for place, text in enumerate(sorted(set(texts)))}
        return np.array([places[text] for text in texts], np.int64)
    raise ValueError(f"labels must be integers or strings. Received: dtype={labels.dtype}.")


def _files(paths):
    missing = [paths[row] for row in missing_files(paths)]
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} of {len(paths)} image files are missing: {', '.join(map(repr, missing[:SHOWN]))}. "
            f"Relative paths start from the working directory, {os.getcwd()}."
        )
    check_headers(paths)
    with tf.device("CPU"):
        names = tf.constant(paths)
    return Source(lambda row: read_image(names[row]), True, len(paths))


def _array(images):
    # The memory of a GPU is reserved for the model.
    with tf.device("CPU"):
        tensor = tf.constant(images)
    return Source(lambda row: tensor[row], False, len(images))


def _arrays(images):
    """Returns the source of arrays of different sizes, which one tensor can only contain as strings."""
    types, ranks = {image.dtype for image in images}, {image.ndim for image in images}
    if len(types) > 1 or len(ranks) > 1 or np.dtype(object) in types:
        raise ValueError(
            "images must be paths, contents of files, or arrays with one dtype and rank. Received: arrays of "
            f"{', '.join(sorted(map(str, types)))} with ranks {', '.join(map(str, sorted(ranks)))}."
        )
    if len({image.shape for image in images}) == 1:
        return _array(np.stack(images))
    if not uses_tensorflow():
        return Source(images.__getitem__, False, len(images))
    with tf.device("CPU"):
        serialized = tf.stack([tf.io.serialize_tensor(image) for image in images])
    dtype, shape = tf.as_dtype(images[0].dtype), _any_size(images[0].shape)
    return Source(lambda row: tf.ensure_shape(tf.io.parse_tensor(serialized[row], dtype), shape), False, len(images))


def _function(read):
    first = tf.convert_to_tensor(read(tf.constant(0, tf.int64)))
    shape = _any_size(first.shape)

    def one(row):
        try:
            return tf.ensure_shape(read(row), shape)
        except (TypeError, IndexError, NotImplementedError) as error:
            if not uses_tensorflow():
                raise
            raise TypeError(
                "images must be a function of TensorFlow operations, because the row is a tensor. Wrap other code in "
                f"tf.numpy_function. The function failed with: {error}"
            ) from error

    return Source(one, first.dtype == tf.string, None)


def _any_size(shape):
    return [*[None] * (len(shape) - 1), *shape[-1:]]


# Types of an image file: its path or its contents.
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
    image = np.asarray(images)  # For example an image of Pillow.
    if image.ndim < 2:
        raise ValueError(
            f"images must be paths, contents of files, or arrays of pixels. Received: {type(images).__name__}."
        )
    return [image]


def are_files(images):
    """Whether one or several images are paths or contents of files, and not pixels."""
    if tf.is_tensor(images):
        return images.dtype == tf.string
    several = isinstance(images, list | tuple | np.ndarray) and len(images) > 0
    return isinstance(images[0] if several else images, FILES)


def texts_of(tensor):
    """Returns paths (text) or file contents (bytes) from a string tensor; only contents have zero bytes."""
    if tensor.shape.rank > 1:
        raise ValueError(f"Expected paths or contents of files [N]. Received: shape {tuple(tensor.shape)}.")
    texts = np.atleast_1d(tensor.numpy()).tolist()
    return [text if b"\0" in text else os.fsdecode(text) for text in texts]


def split_of(files):
    """Returns a split of image files or their contents, after checking that they exist."""
    contents = isinstance(files[0], bytes | bytearray)
    kind, words = (bytes | bytearray, "contents of files") if contents else (str | Path, "paths")
    for position, file in enumerate(files):
        if not isinstance(file, kind):
            raise ValueError(
                f"All images must be {words}, like the first one. Received: {type(file).__name__} at position "
                f"{position}."
            )
        if contents and b"\0" not in file and os.path.exists(file):
            raise ValueError(
                f"Image {position} is the path {bytes(file)!r} as bytes. Pass it as text: os.fsdecode(...)."
            )
        if not contents and not Path(file).is_file():
            what = "is a folder. Pass its image files" if Path(file).is_dir() else "does not exist"
            raise FileNotFoundError(f"Image {position}, {str(file):.200}, {what}.")
    images = [bytes(file) if contents else str(file) for file in files]
    return Split(np.array(images, dtype=object), np.zeros(len(files), np.int64))
