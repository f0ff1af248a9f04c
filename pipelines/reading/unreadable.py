"""Searches a split for images that cannot be read or decoded, and names them in errors."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf

from pipelines.images.stored_images import image_of
from pipelines.sampling import group_by_class
from tfdml.console.startup import tensorflow_reason

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


def about_position(split):
    """Returns a sentence on the first image that cannot be read or decoded, with its number in the split, or None."""
    found = find_unreadable(split)
    if found is None:
        return None
    row, reason = found
    name = "" if split.encoded else f", {split.name_of(row)},"
    return f"Image {row}{name} cannot be read: {reason}."


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
def _naming(sentence, blames=is_of_pipeline):
    """Turns an error of TensorFlow into a ValueError that names the image behind it.

    Args:
        sentence: function that looks for the image, and returns what to say of it, or None.
        blames: function of an error: whether an image may be to blame.
    """
    try:
        yield
    except tf.errors.OpError as error:
        message = sentence() if blames(error) else None
        if message is None:
            raise
        raise ValueError(message) from error


def naming_image(split, blames=is_of_pipeline):
    """A context that turns an error of TensorFlow into one that names the image of a split behind it.

    Args:
        split: the split.
        blames: function of an error: whether an image may be to blame.
    """
    return _naming(lambda: about_position(split), blames)


def naming_unreadable(train, others, *, tolerant):
    """A context that turns an error of the input pipeline into one that names the image behind it.

    Args:
        train: the split that is trained on, or None.
        others: the splits whose images must all be readable.
        tolerant: whether other images of their class stand in for bad ones of `train`.
    """

    def sentence():
        # Of bad images that are tolerated, those are to blame for which no other can stand in.
        of_class = _about_class(train) if tolerant and train else None
        return of_class or _about_image(others if tolerant else [train, *others])

    return _naming(sentence)


def cannot_read(split, row, reason):
    """Returns what to say of an image that a run cannot read."""
    return f"Cannot read {split.name_of(row)}: {reason}. Replace it or remove it."


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
            return cannot_read(split, *found)
    return None
