"""P×K: batches of several classes with several images each, and its variants."""

import logging
import re
import warnings
from typing import Annotated

import numpy as np
import tensorflow as tf

from pipelines.sampling.clusters import ClusterGroups
from pipelines.sampling.draws import (
    Stream,
    as_long_as,
    draw,
    fill,
    group_by_class,
    key_of,
    shuffled_index_of_round,
    stream_key,
    stream_keys,
    times_drawn,
)
from pipelines.sampling.sampler import Sampler
from tfdml.registry import register, register_short_form
from tfdml.registry.arguments import Count, Share, integer


@register("sampler", "proportional_pxk")
class ProportionalPxK(Sampler):
    """Batches of `groups` groups of `per_class` images of a class; larger classes come more often, as more groups.

    A class of n images is `n // per_class` groups, at least one, so that all images come about equally often if classes
    have several times `per_class` images; with `pxk` classes do. In a batch the groups are different, but two can be of
    the same class. All groups come once before any comes twice, and then have other images: the images of a class are
    divided among its groups anew each time. In a batch where a round ends, groups of a class are all of one division,
    so that no image comes twice. A class with fewer images than `per_class` repeats them; one with a single image is
    left out.

    With a `power` below 1 a class is `(n // per_class)^power` groups: between `pxk`, as with 0, and all images alike.

    Args:
        groups: groups in a batch.
        per_class: images of each group, 2 or more.
        power: how much more often a larger class comes, 0 to 1.
    """

    groups: Count = 32
    per_class: Annotated[int, integer(2)] = 4
    power: Share = 1.0

    several_per_class = True

    @property
    def batch_size(self) -> int:
        return self.groups * self.per_class

    def tables_of(self, labels):
        """Returns the rows sorted by class, and of each group the place and size of its class, and its number there."""
        rows, starts, sizes = group_by_class(labels)
        counts = self._groups_of(sizes)
        total = int(np.sum(counts))
        if total < self.groups:
            raise ValueError(
                f"proportional_pxk(groups={self.groups}) needs that many groups of {self.per_class} images of a class; "
                f"the training rows have {total}. Lower groups."
            )
        number = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        return [rows, np.repeat(starts, counts), np.repeat(sizes, counts), number]

    def fitted_to(self, labels):
        """Returns no more groups than the rows have."""
        total = int(np.sum(self._groups_of(group_by_class(labels)[2])))
        return {"groups": min(self.groups, total)} if total else {}

    def _groups_of(self, sizes):
        # Rounding must not take a group from a whole number of them.
        wanted = np.floor((sizes // self.per_class) ** self.power + 1e-9).astype(np.int64)
        return np.where(sizes > 1, np.maximum(wanted, 1), 0)

    def drawn(self, labels):
        sizes = group_by_class(labels)[2]
        return int(np.sum(sizes[sizes > 1]))

    def draw_rows(self, seed, steps, by_class, starts, sizes, numbers):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`, group after group."""
        count = tf.constant(self.groups, tf.int64)
        arguments = (stream_keys(seed, steps), steps, *as_long_as(steps, tf.size(starts, tf.int64), count))
        chosen = draw(*arguments, self.groups)
        times = times_drawn(*arguments, chosen, self.groups)
        times = tf.reshape(_earliest(times, tf.gather(starts, chosen)), [-1, 1])
        chosen = tf.reshape(chosen, [-1, 1])
        start, size = tf.gather(starts, chosen), tf.gather(sizes, chosen)
        # Groups of a class share its permutation, a new one each time, and so have no image in common.
        place = tf.gather(numbers, chosen) * self.per_class + tf.range(self.per_class, dtype=tf.int64)
        member = shuffled_index_of_round(place % size, key_of(seed, start), times, size)
        return tf.reshape(tf.gather(by_class, start + member), [-1, self.batch_size])


def _earliest(times, classes):
    """Returns, for each group of a batch `[n, groups]`, the least of the times of the batch's groups of its class.

    A batch in which a round ends has groups of a class that came as often as the round says, and others that already
    come once more. With permutations of their own, both could have the same image.
    """
    same = classes[:, :, None] == classes[:, None, :]
    return tf.reduce_min(tf.where(same, times[:, None, :], times.dtype.max), axis=2)


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

    A batch has `groups` categories and `classes` classes. The other arguments `[C]` are of each class.
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

    `group_starts` and `group_sizes` `[G]` are the place and number of the classes of each category; a batch has
    `groups` categories and `classes` classes.
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


@register_short_form("sampler")
def meant_sampler(text):
    """Returns the spec of batches of as many images, if a text is their number."""
    size = int(text) if re.fullmatch(r"[1-9]\d{0,5}", text) else 0
    if size >= 8 and size % 4 == 0:
        return f'"pxk(classes={size // 4}, per_class=4)"'
    return f'"uniform(batch_size={size})"' if size else ""


# Fraction of the images of a batch that may be there already without a warning.
MOST_REPEATED = 0.5


@register("sampler", "pxk")
class PxK(Sampler):
    """Batches of `classes` different classes with `per_class` images each.

    Every class comes once before any comes twice, and so do the images of a class, across batches and epochs. A
    class with fewer images than `per_class` repeats them evenly; one with a single image is left out.

    With `groups` the classes of a batch are of so many categories, so that they are alike: of those of the coarsest
    level of --levels, or of the dataset's class groups. Each category comes once before any comes twice, and so do its
    classes; one with fewer classes than its part of a batch is left out.

    Where images have several labels these are the classes, so that batches cover all of them; an image of two labels
    that are drawn may come twice.

    Args:
        classes: classes in a batch.
        per_class: images of each class, 2 or more.
        groups: categories in a batch, of which `classes` is a multiple; None: classes are drawn from all.
    """

    classes: Count = 32
    per_class: Annotated[int, integer(2)] = 4
    groups: Count | None = None

    several_per_class = True
    _group_of = None
    # Row of each pair of a label and an image that has it, where images have several.
    _having = None

    def check_arguments(self):
        if self.groups and self.classes % self.groups:
            raise ValueError(
                f"pxk(groups={self.groups}) divides the classes of a batch evenly; expected classes to be a multiple, "
                f"received {self.classes}."
            )

    @property
    def not_within_clusters(self):
        return "its classes are of few categories" if self.groups else super().not_within_clusters

    def bind_split(self, split):
        if self.groups:
            self._group_of = groups_of_rows(split)
        if split.attributes is None:
            super().bind_split(split)
        else:
            labels, self._having = np.nonzero(split.attributes.T)
            self.bind(labels)

    def bind(self, labels):
        super().bind(labels)
        sizes = np.unique(labels, return_counts=True)[1]
        # Within clusters classes have fewer images, which is not the user's choice.
        repeated = 1 - np.minimum(sizes[sizes > 1], self.per_class).mean() / self.per_class
        if repeated > MOST_REPEATED:
            warnings.warn(
                f"{repeated:.0%} of the images in batches of pxk(per_class={self.per_class}) are repeats of others in "
                f"the batch, which count as positives, because classes have {np.median(sizes):g} images (median). "
                f"Expected most images of a batch to differ. Use per_class={max(2, int(np.median(sizes)))} or fewer, "
                "and more classes for a batch of the same size.",
                stacklevel=2,
            )

    @property
    def batch_size(self) -> int:
        return self.classes * self.per_class

    def tables_of(self, labels):
        """Returns the rows sorted by class, and the place and the size of each class with two rows or more."""
        rows, starts, sizes = group_by_class(labels)
        single, total = int(np.sum(sizes == 1)), len(sizes)
        starts, sizes = starts[sizes > 1], sizes[sizes > 1]
        if len(sizes) < self.classes:
            raise ValueError(
                f"pxk(classes={self.classes}) needs that many classes with two images or more; the training rows "
                f"have {len(sizes)}.{' Lower classes.' if len(sizes) else ''}"
            )
        if single:
            logging.getLogger(__name__).info(
                "%d of %d classes have a single image and are left out of pxk batches.", single, total
            )
        if self._having is not None:
            rows = self._having[rows]
        if not self.groups:
            return [rows, starts, sizes]
        if self._group_of is None:
            raise ValueError(f"pxk(groups={self.groups}) needs categories of classes: bind_split(split) gives them.")
        return [rows, *grouped_tables(self._group_of[rows[starts]], starts, sizes, self.groups, self.classes)]

    def fitted_to(self, labels):
        """Returns no more classes than have two rows, and per class no more rows than half of these classes have."""
        sizes = group_by_class(labels)[2]
        sizes = np.sort(sizes[sizes > 1])
        if not len(sizes):
            return {}
        classes = min(self.classes, len(sizes))
        # A batch has equally many classes of each category.
        classes -= classes % (self.groups or 1)
        return {"classes": max(classes, 1), "per_class": min(self.per_class, int(sizes[len(sizes) // 2]))}

    def draw_rows(self, seed, steps, by_class, starts, sizes, *groups):
        """Returns row numbers `[n, batch_size]` of the batches of `steps` `[n]`, class after class."""
        if groups:
            chosen, times = draw_grouped(seed, steps, *groups, self.groups, self.classes)
        else:
            scalars = tf.size(starts, out_type=tf.int64), tf.constant(self.classes, tf.int64)
            arguments = (stream_keys(seed, steps), steps, *as_long_as(steps, *scalars))
            chosen = draw(*arguments, self.classes)
            times = tf.reshape(times_drawn(*arguments, chosen, self.classes), [-1])
            chosen = tf.reshape(chosen, [-1])
        member = fill(key_of(seed, chosen), times, tf.gather(sizes, chosen), self.per_class)
        rows = tf.gather(by_class, tf.gather(starts, chosen)[:, None] + member)
        return tf.reshape(rows, [-1, self.batch_size])

    def cluster_draws(self):
        return ClusterGroups(self.classes, self.per_class)
