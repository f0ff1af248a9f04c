"""P×K in which a class comes as often as it has images."""

from typing import Annotated

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import draw, times_drawn
from pipelines.sampling.index_shuffle import key_of, shuffled_index_of_round
from pipelines.sampling.rows_by_class import group_by_class
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.streams import as_long_as, stream_keys
from tfdml.registry import register
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
        """Returns the number of groups of classes of these sizes."""
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
