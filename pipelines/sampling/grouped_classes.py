"""Draws of classes of few categories a batch."""

import logging

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import draw, times_drawn
from pipelines.sampling.streams import Stream, as_long_as, stream_key, stream_keys


def groups_of_rows(split):
    """Returns the number of the category of each row: of the coarsest level, or else of the class groups."""
    if split.hierarchy is not None and len(split.level_names) > 1:
        return split.hierarchy[:, 0]
    if split.class_groups is None:
        raise ValueError(
            "pxk(groups=...) draws classes of few categories, and these classes have none. Use a dataset with "
            "class_groups or with levels, in a command --levels=make,model."
        )
    return np.unique([str(split.class_groups[label]) for label in split.labels.tolist()], return_inverse=True)[1]


def grouped_tables(group_of_class, starts, sizes, groups, classes):
    """Returns places and sizes of classes, those of a category side by side, and places and sizes of categories.

    Args:
        group_of_class: `[C]` category of each class.
        starts, sizes: `[C]` place and size of each class.
        groups, classes: categories and classes in a batch.
    """
    share = classes // groups
    known, number, counts = np.unique(group_of_class, return_inverse=True, return_counts=True)
    kept = counts >= share
    if kept.sum() < groups:
        raise ValueError(
            f"pxk(classes={classes}, groups={groups}) needs {groups} categories of {share} classes or more with two "
            f"images; {kept.sum()} of {len(known)} have so many."
        )
    if not kept.all():
        message = "%d of %d categories have fewer than %d classes and are left out of pxk batches."
        logging.getLogger(__name__).info(message, np.sum(~kept), len(known), share)
    order = np.argsort(number, kind="stable")
    order = order[kept[number[order]]]
    counts = counts[kept]
    return [starts[order], sizes[order], np.cumsum(counts) - counts, counts]


def draw_grouped(seed, steps, group_starts, group_sizes, groups, classes):
    """Returns the classes of the steps and how often each came before, both `[n * classes]`, group after group.

    Args:
        seed: int64 scalar.
        steps: `[n]` int64.
        group_starts, group_sizes: `[G]` place and number of the classes of each category.
        groups, classes: Python integers, categories and classes in a batch.
    """
    share = classes // groups
    total, count = tf.size(group_starts, out_type=tf.int64), tf.constant(groups, tf.int64)
    arguments = (stream_keys(seed, steps, Stream.GROUPS), steps, *as_long_as(steps, total, count))
    chosen = draw(*arguments, groups)
    number = tf.reshape(times_drawn(*arguments, chosen, groups), [-1])
    chosen = tf.reshape(chosen, [-1])
    sizes = tf.gather(group_sizes, chosen)
    counts = tf.fill(tf.shape(sizes), tf.constant(share, tf.int64))
    of_group = stream_key(seed, Stream.CLASSES, chosen), number, sizes, counts
    members = draw(*of_group, share)
    times = times_drawn(*of_group, members, share)
    return tf.reshape(tf.gather(group_starts, chosen)[:, None] + members, [-1]), tf.reshape(times, [-1])
