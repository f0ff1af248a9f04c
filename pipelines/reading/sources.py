"""Images as people have them, as functions of a row number: files, arrays, a dataset, a function of their own."""

import dataclasses
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipelines.datasets.loading import check_headers, missing_files

# How many of many files a message names.
SHOWN = 3
ONE_HOT = "Of one-hot labels take np.argmax(labels, axis=-1)."


class Source(NamedTuple):
    """Images by row.

    Args:
        read: function of a row number (int64 scalar) that gives an image, or the contents of its file.
        encoded: whether it gives the contents of a file.
        count: rows, or None where it is not known.
    """

    read: Callable
    encoded: bool
    count: int | None


@dataclasses.dataclass(frozen=True)
class Rows:
    """What batches are made of besides images, in place of a `Split`."""

    count: int
    labels: np.ndarray | None = None
    boxes: None = None

    def __len__(self):
        return self.count


def source_of(images):
    """The `Source` of paths, contents of files, an array, a list of arrays, or a function of a row number."""
    if callable(images):
        return _function(images)
    if isinstance(images, np.ndarray | tf.Tensor) and images.dtype not in (object, tf.string):
        array = np.asarray(images)
        if array.dtype.kind not in "SU":
            return _array(array)
    rows = list(images.numpy() if isinstance(images, tf.Tensor) else images)
    if not rows:
        raise ValueError("Expected images, received none.")
    if all(isinstance(row, str | os.PathLike | bytes) for row in rows):
        # A dataset gives paths as bytes too; what tells them from a file's contents is that a path has no zero in it.
        if any(isinstance(row, bytes) and b"\0" in row for row in rows):
            with tf.device("CPU"):
                contents = tf.constant(rows)
            return Source(lambda row: contents[row], True, len(rows))
        return _files([os.path.expanduser(os.fsdecode(row)) for row in rows])
    return _arrays([np.asarray(row) for row in rows])


def read_dataset(dataset):
    """All of a `tf.data.Dataset` of (image, label), batched or not, in memory: `(images, labels)`.

    Any row may be wanted at any time, which a stream cannot give.
    """
    spec = dataset.element_spec
    if not (isinstance(spec, tuple) and len(spec) == 2):
        raise ValueError(f"Expected a dataset of (image, label), received elements of {spec}.")
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError("The dataset never ends, so it cannot be read into memory. Leave out repeat().")
    image, label = spec
    single = 0 if image.dtype == tf.string else 3
    if label.shape.rank == 1 and image.shape.rank != single:
        dataset = dataset.unbatch()
    elif label.shape.rank != 0:
        raise ValueError(f"Expected one class number an image, received labels of shape {label.shape}. {ONE_HOT}")
    rows = list(dataset.as_numpy_iterator())
    return [image for image, _ in rows], np.array([label for _, label in rows])


def class_numbers(labels):
    """Labels as int64 `[N]`: whole numbers as they are, texts by their place among the sorted texts."""
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"Expected one label an image, received labels of shape {labels.shape}. {ONE_HOT}")
    if labels.dtype.kind in "iu":
        return labels.astype(np.int64)
    if labels.dtype.kind in "SUO" and all(isinstance(label, str | bytes) for label in labels.tolist()):
        return np.unique(labels.astype(str), return_inverse=True)[1].astype(np.int64)
    raise ValueError(f"Expected labels that are whole numbers or texts, received {labels.dtype}.")


def _files(paths):
    missing = [paths[row] for row in missing_files(paths)]
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} of {len(paths)} image files are missing: {', '.join(map(repr, missing[:SHOWN]))}. Paths "
            f"start from the working directory, {os.getcwd()}."
        )
    check_headers(paths)
    with tf.device("CPU"):
        names = tf.constant(paths)
    return Source(lambda row: tf.io.read_file(names[row]), True, len(paths))


def _array(images):
    # A GPU's memory is for the model.
    with tf.device("CPU"):
        kept = tf.constant(images)
    return Source(lambda row: kept[row], False, len(images))


def _arrays(images):
    """Arrays of several sizes are kept as text, which a tensor can hold whatever their shapes."""
    types, ranks = {image.dtype for image in images}, {image.ndim for image in images}
    if len(types) > 1 or len(ranks) > 1 or np.dtype(object) in types:
        raise ValueError(
            "Expected paths, contents of files, or arrays of one type and rank; received "
            f"{', '.join(sorted(map(str, types)))} of ranks {', '.join(map(str, sorted(ranks)))}."
        )
    if len({image.shape for image in images}) == 1:
        return _array(np.stack(images))
    with tf.device("CPU"):
        kept = tf.stack([tf.io.serialize_tensor(image) for image in images])
    dtype, shape = tf.as_dtype(images[0].dtype), _any_size(images[0].shape)
    return Source(lambda row: tf.ensure_shape(tf.io.parse_tensor(kept[row], dtype), shape), False, len(images))


def _function(read):
    first = tf.convert_to_tensor(read(tf.constant(0, tf.int64)))
    shape = _any_size(first.shape)

    def one(row):
        try:
            return tf.ensure_shape(read(row), shape)
        except (TypeError, IndexError, NotImplementedError) as error:
            raise TypeError(
                "Expected a function of a row made of TensorFlow's operations, because the row is a tensor; put other "
                f"code into tf.numpy_function. It failed with: {error}"
            ) from error

    return Source(one, first.dtype == tf.string, None)


def _any_size(shape):
    """The shape of images of any height and width."""
    return [*[None] * (len(shape) - 1), *shape[-1:]]
