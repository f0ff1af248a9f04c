"""P×K batches: several classes with several images each, and variants of them."""

import logging
import re
import warnings
from typing import Annotated

import numpy as np

from pipelines.operations import tf
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
    """Sampler of groups of `per_class` images of a class, in which larger classes are drawn more often.

    Use it for class imbalance, to draw all images about equally often. `PxK` draws all classes equally often instead. A
    class of n images has `n // per_class` groups, at least one. A class with fewer images than `per_class` repeats
    them, and a class with a single image is skipped.

    The groups of a batch are different, but two of them can be from the same class. Each group is drawn once before any
    is drawn twice. The images of a class are then divided into groups again, so that the groups of a class in one batch
    have no image in common.

    Args:
        groups: Integer. Number of groups per batch. Defaults to `32`.
        per_class: Integer of at least 2. Number of images per group. Defaults to `4`.
        power: Float from 0 to 1. A class has `(n // per_class)^power` groups. With 0, all classes are drawn equally
            often, as with `PxK`. With 1, all images are. Defaults to `1.0`.

    Example:

    ```python
    from pipelines.sampling import ProportionalPxK

    sampler, labels = ProportionalPxK(groups=4, per_class=2), np.array([0] * 6 + [1] * 2)
    sampler.bind(labels)
    np.bincount(labels[sampler.rows(seed=0, steps=[0]).numpy()[0]]).tolist()  # [6, 2]
    ```
    """

    groups: Count = 32
    per_class: Annotated[int, integer(2)] = 4
    power: Share = 1.0

    several_per_class = True

    @property
    def batch_size(self) -> int:
        return self.groups * self.per_class

    def tables_of(self, labels):
        """Returns the rows sorted by class, and for each group the start and size of its class and its index there."""
        rows, starts, sizes = group_by_class(labels)
        counts = self._groups_of(sizes)
        total = int(np.sum(counts))
        if total < self.groups:
            raise ValueError(
                f"proportional_pxk(groups={self.groups}) needs that many groups of {self.per_class} images of a class. "
                f"The training images have {total}. Lower groups."
            )
        number = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        return [rows, np.repeat(starts, counts), np.repeat(sizes, counts), number]

    def fitted_to(self, labels):
        """Returns at most as many groups as the rows have."""
        total = int(np.sum(self._groups_of(group_by_class(labels)[2])))
        return {"groups": min(self.groups, total)} if total else {}

    def _groups_of(self, sizes):
        # Without the small constant, rounding errors could remove a group from a whole number of groups.
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
        # Groups of a class share its permutation, which is new each time, so they have no image in common.
        place = tf.gather(numbers, chosen) * self.per_class + tf.range(self.per_class, dtype=tf.int64)
        member = shuffled_index_of_round(place % size, key_of(seed, start), times, size)
        return tf.reshape(tf.gather(by_class, start + member), [-1, self.batch_size])


def _earliest(times, classes):
    """Returns, for each group of a batch `[n, groups]`, the minimum of `times` over the batch's groups of its class.

    If a round ends within a batch, some groups of a class have already been drawn once more than others. With different
    permutations, both could contain the same image.
    """
    same = classes[:, :, None] == classes[:, None, :]
    return tf.reduce_min(tf.where(same, times[:, None, :], np.iinfo(np.int64).max), axis=2)


def groups_of_rows(split):
    """Returns the integer category of each row: its coarsest level, or else its class group."""
    if split.hierarchy is not None and len(split.level_names) > 1:
        return split.hierarchy[:, 0]
    if split.class_groups is None:
        raise ValueError(
            "pxk(groups=...) needs classes with categories, but these classes have none. Use a dataset with "
            "class_groups or with levels, for example --levels=make,model."
        )
    return np.unique([str(split.class_groups[label]) for label in split.labels.tolist()], return_inverse=True)[1]


def grouped_tables(group_of_class, starts, sizes, groups, classes):
    """Returns the starts and sizes of classes, sorted by category, and the starts and sizes of categories.

    A batch has `groups` categories and `classes` classes. The other arguments `[C]` have a value for each class.
    """
    share = classes // groups
    known, number, counts = np.unique(group_of_class, return_inverse=True, return_counts=True)
    kept = counts >= share
    if kept.sum() < groups:
        raise ValueError(
            f"pxk(classes={classes}, groups={groups}) needs {groups} categories with at least {share} classes of at "
            f"least two images. Received: {kept.sum()} such categories of {len(known)}. Lower classes or groups."
        )
    if not kept.all():
        message = "pxk skips %d of %d categories, because they have fewer than %d classes."
        logging.getLogger(__name__).info(message, np.sum(~kept), len(known), share)
    order = np.argsort(number, kind="stable")
    order = order[kept[number[order]]]
    counts = counts[kept]
    return [starts[order], sizes[order], np.cumsum(counts) - counts, counts]


def draw_grouped(seed, steps, group_starts, group_sizes, groups, classes):
    """Returns the classes of the steps and how often each was drawn before, both `[n * classes]`, category by category.

    `group_starts` and `group_sizes` `[G]` are the start and the number of the classes of each category. A batch has
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
    """Returns the spec of a sampler with this batch size, if a text is a number."""
    size = int(text) if re.fullmatch(r"[1-9]\d{0,5}", text) else 0
    if size >= 8 and size % 4 == 0:
        return f'"pxk(classes={size // 4}, per_class=4)"'
    return f'"uniform(batch_size={size})"' if size else ""


# Fraction of the images in a batch that may be repeats without a warning.
MOST_REPEATED = 0.5


@register("sampler", "pxk")
class PxK(Sampler):
    """Sampler of P×K batches: `classes` different classes with `per_class` images each.

    Use it with pair-based losses, which need several images per class. Every class is drawn once before any is drawn
    twice, and so are the images of a class, across batches and epochs. A class with fewer images than `per_class`
    repeats them evenly, and a class with a single image is skipped.

    With `groups`, the classes of a batch come from only a few categories, so that they are similar and hard to
    distinguish. Categories are the coarsest level of `--levels`, or the dataset's class groups. Each category is drawn
    once before any is drawn twice, and so are its classes. Categories with too few classes are skipped.

    For multi-label images, each label is a class. An image with two of the drawn labels may then be in a batch twice.

    Args:
        classes: Integer. Number of classes per batch. Defaults to `32`.
        per_class: Integer of at least 2. Number of images per class. Defaults to `4`.
        groups: Integer or `None`. Number of categories per batch. `classes` must be a multiple of it. If `None`,
            classes are drawn from all categories. Defaults to `None`.

    Raises:
        ValueError: If `classes` is not a multiple of `groups`.

    Example:

    ```python
    from pipelines.sampling import PxK

    sampler, labels = PxK(classes=2, per_class=3), np.repeat(np.arange(4), 5)
    sampler.bind(labels)
    drawn = labels[sampler.rows(seed=0, steps=[0, 1]).numpy()]
    [np.unique(batch, return_counts=True)[1].tolist() for batch in drawn]  # [[3, 3], [3, 3]]
    ```
    """

    classes: Count = 32
    per_class: Annotated[int, integer(2)] = 4
    groups: Count | None = None

    several_per_class = True
    _group_of = None
    # For multi-label images, the row of each pair of a label and an image with this label.
    _having = None

    def check_arguments(self):
        if self.groups and self.classes % self.groups:
            raise ValueError(
                f"The sampler 'pxk' divides the classes of a batch evenly among groups={self.groups}, so classes must "
                f"be a multiple of {self.groups}. Received: classes={self.classes}."
            )

    @property
    def not_within_clusters(self):
        return "its batches have only a few categories" if self.groups else super().not_within_clusters

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
        # This is not checked in `tables_of`, because classes within clusters have fewer images, which is not the user's
        # choice.
        repeated = 1 - np.minimum(sizes[sizes > 1], self.per_class).mean() / self.per_class
        if repeated > MOST_REPEATED:
            warnings.warn(
                f"{repeated:.0%} of the images in batches of pxk(per_class={self.per_class}) are repeats of others in "
                f"the batch, which count as positives, because classes have {np.median(sizes):g} images (median). "
                "Expected most images of a batch to be different. Use "
                f"per_class={max(2, int(np.median(sizes)))} or fewer, and more classes for the same batch size.",
                stacklevel=2,
            )

    @property
    def batch_size(self) -> int:
        return self.classes * self.per_class

    def tables_of(self, labels):
        """Returns the rows sorted by class, and the start and size of each class with at least two rows."""
        rows, starts, sizes = group_by_class(labels)
        single, total = int(np.sum(sizes == 1)), len(sizes)
        starts, sizes = starts[sizes > 1], sizes[sizes > 1]
        if len(sizes) < self.classes:
            raise ValueError(
                f"pxk(classes={self.classes}) needs that many classes with at least two images. The training images "
                f"have {len(sizes)}.{' Lower classes.' if len(sizes) else ''}"
            )
        if single:
            logging.getLogger(__name__).info(
                "pxk skips %d of %d classes, because they have a single image.", single, total
            )
        if self._having is not None:
            rows = self._having[rows]
        if not self.groups:
            return [rows, starts, sizes]
        if self._group_of is None:
            raise ValueError(
                f"pxk(groups={self.groups}) needs the categories of classes. Call bind_split(split) instead of bind."
            )
        return [rows, *grouped_tables(self._group_of[rows[starts]], starts, sizes, self.groups, self.classes)]

    def fitted_to(self, labels):
        """Returns at most as many classes as have two rows, and at most their median number of rows per class."""
        sizes = group_by_class(labels)[2]
        sizes = np.sort(sizes[sizes > 1])
        if not len(sizes):
            return {}
        classes = min(self.classes, len(sizes))
        # A batch has the same number of classes for each category.
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
