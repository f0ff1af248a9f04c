"""Searches a split for images that cannot be read or decoded, and names them in errors."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf

from pipelines.images.pictures import image_of
from pipelines.sampling import group_by_class
from tfdml.console.tensorflow_errors import tensorflow_reason

# Images that are decoded at once.
THREADS = 8
READING_ERRORS = (tf.errors.InvalidArgumentError, tf.errors.NotFoundError, tf.errors.PermissionDeniedError)


def is_of_pipeline(error):
    """Returns whether an error of TensorFlow may come from an image that cannot be read or decoded.

    TensorFlow names each operation that an error has passed. An error of a dataset passes the one that gets the next
    batch; an error of the model, such as a label that the loss does not know, does not.
    """
    return isinstance(error, READING_ERRORS) and "IteratorGetNext" in error.message


def find_unreadable(split):
    """Returns the first row of a split that cannot be read or decoded, `(row, reason)`, or None."""
    return _first(range(len(split)), lambda row: why_unreadable(split, row))


def unreadable_error(split):
    """Returns a ValueError that names the first image that cannot be read or decoded, or None."""
    found = find_unreadable(split)
    if found is None:
        return None
    row, reason = found
    name = "" if split.encoded else f", {split.name_of(row)},"
    return ValueError(f"Image {row}{name} cannot be read: {reason}.")


def find_unreadable_class(split):
    """Returns the rows of the first class without a readable image, `(rows, reason)`, or None."""
    rows, starts, sizes = group_by_class(split.labels)

    def why(group):
        reason = why_unreadable(split, group[0])
        return reason if reason and all(why_unreadable(split, row) for row in group[1:]) else None

    return _first([rows[start : start + size] for start, size in zip(starts, sizes, strict=True)], why)


def _first(items, why):
    """Returns the first item for which `why` returns a reason, and the reason; None if all can be read."""
    threads = ThreadPoolExecutor(THREADS)
    try:
        found = zip(items, threads.map(why, items), strict=True)
        return next(((item, reason) for item, reason in found if reason), None)
    finally:
        threads.shutdown(cancel_futures=True)


def why_unreadable(split, row):
    """Returns why a row cannot be read or decoded, or None if it can."""
    try:
        image_of(split, row)
    except tf.errors.OpError as error:
        return tensorflow_reason(error)
    except ValueError as error:
        # Of a shard.
        return str(error)
    return None


@contextlib.contextmanager
def naming_unreadable(train, others, *, tolerant):
    """Turns an error of the input pipeline into one that names the image behind it.

    Args:
        train: the split that is trained on, or None.
        others: the splits whose images must all be readable.
        tolerant: whether other images of their class stand in for bad ones of `train`.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if not is_of_pipeline(error):
            raise
        # Of bad images that are tolerated, those are to blame for which no other can stand in.
        message = _about_class(train) if tolerant and train else None
        message = message or _about_image(others if tolerant else [train, *others])
        if message is None:
            raise
        raise ValueError(message) from error


def _about_class(split):
    found = find_unreadable_class(split)
    if found is None:
        return None
    rows, reason = found
    name = split.name_of(rows[0])
    return (
        f"Cannot read any of the {len(rows)} images of a class, such as {name}: {reason}. Replace them or remove the "
        "class."
    )


def _about_image(splits):
    # The split of evaluation may be that of the test.
    for split in {id(split): split for split in splits if split}.values():
        found = find_unreadable(split)
        if found:
            row, reason = found
            return f"Cannot read {split.name_of(row)}: {reason}. Replace it or remove it."
    return None
