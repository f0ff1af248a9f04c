"""Errors of the input pipeline that name the image behind them."""

import contextlib

import tensorflow as tf

from pipelines.reading.unreadable import find_unreadable, find_unreadable_class, is_of_pipeline


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
