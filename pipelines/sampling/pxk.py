"""P×K: batches of several classes with several images each."""

import logging
import re
import warnings
from typing import Annotated

import numpy as np
import tensorflow as tf

from pipelines.sampling.cluster_groups import ClusterGroups
from pipelines.sampling.draws import draw, fill, times_drawn
from pipelines.sampling.grouped_classes import draw_grouped, grouped_tables, groups_of_rows
from pipelines.sampling.index_shuffle import key_of
from pipelines.sampling.rows_by_class import group_by_class
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.streams import as_long_as, stream_keys
from tfdml.registry import register, register_short_form
from tfdml.registry.arguments import Count, integer


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
            chosen, times = self._classes_of(seed, steps, tf.size(starts, out_type=tf.int64))
        member = fill(key_of(seed, chosen), times, tf.gather(sizes, chosen), self.per_class)
        rows = tf.gather(by_class, tf.gather(starts, chosen)[:, None] + member)
        return tf.reshape(rows, [-1, self.batch_size])

    def cluster_draws(self):
        return ClusterGroups(self.classes, self.per_class)

    def _classes_of(self, seed, steps, total):
        """Returns the classes of the steps and how often each came before, both `[n * classes]`."""
        count = tf.constant(self.classes, tf.int64)
        arguments = (stream_keys(seed, steps), steps, *as_long_as(steps, total, count))
        chosen = draw(*arguments, self.classes)
        times = times_drawn(*arguments, chosen, self.classes)
        return tf.reshape(chosen, [-1]), tf.reshape(times, [-1])
