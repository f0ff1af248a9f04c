"""Samplers of pairs, triplets and views."""

import dataclasses
import logging
from typing import Annotated

import numpy as np

from pipelines.operations import tf
from pipelines.sampling.draws import Stream, as_long_as, draw, group_by_class, stream_key, stream_keys
from pipelines.sampling.sampler import Sampler
from tfdml.registry import register
from tfdml.registry.arguments import Count, integer


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Drawn rows `[n, count]`, as positions among the rows sorted by class."""

    place: tf.Tensor
    # First position and number of rows of the class.
    start: tf.Tensor
    size: tf.Tensor
    # A random number for each row, uint64.
    random: tf.Tensor
    # Number of all rows.
    total: tf.Tensor

    def positives(self):
        """Returns the position of a random other row of the same class for each row."""
        return self.start + (self.place - self.start + 1 + self._below(self.size - 1)) % self.size

    def negatives(self):
        """Returns the position of a random row of another class for each row."""
        place = self._below(self.total - self.size)
        return place + tf.where(place < self.start, tf.zeros_like(self.size), self.size)

    def _below(self, limit):
        return tf.cast(self.random % tf.cast(limit, tf.uint64), tf.int64)


def partner_tables(labels, count, sampler):
    """Returns the rows sorted by class, the positions to draw from, and the start and size of each position's class.

    Raises a ValueError with the name of the `sampler` if there are fewer rows than the `count` of a batch.
    """
    by_class, starts, sizes = group_by_class(labels)
    place, size = np.arange(len(by_class)), np.repeat(sizes, sizes)
    start, drawn = np.repeat(starts, sizes), place[size > 1]
    if len(drawn) < count or len(sizes) < 2:
        raise ValueError(
            f"{sampler} needs that many training images in classes with at least two images, and at least two classes. "
            f"Received: {len(drawn)} such images and {len(sizes)} classes. Lower the number, or add images."
        )
    return [by_class, drawn, start, size]


def most_drawn(labels, parts):
    """Returns the number of rows to draw for a batch, at least 1, if the batch has `parts` rows for each."""
    sizes = group_by_class(labels)[2]
    return max(1, min(int(np.sum(sizes[sizes > 1])), len(labels) // parts))


def draw_with_partners(seed, steps, tables, count):
    """Draws `count` rows from classes with at least two rows for each step, each once before any is drawn twice.

    `tables` are from `partner_tables`.
    """
    _, drawn, start, size = tables
    total, wanted = tf.size(drawn, out_type=tf.int64), tf.constant(count, tf.int64)
    place = tf.gather(drawn, draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, wanted), count))
    number = tf.range(count, dtype=tf.int64)[None, :]
    # A draw of more than half of the rows is sorted by class, so its first half would always have the first classes.
    shuffled = tf.bitcast(stream_key(seed, Stream.ORDER, steps[:, None], place), tf.int64)
    order = tf.argsort(tf.where(2 * wanted > total, shuffled, number), axis=1)
    place = tf.gather(place, order, batch_dims=1)
    random = stream_key(seed, Stream.PARTNERS, steps[:, None], number)
    return Drawn(place, tf.gather(start, place), tf.gather(size, place), random, tf.size(size, out_type=tf.int64))


@register("sampler", "pairs")
class Pairs(Sampler):
    """Sampler of random image pairs per batch: half of them from the same class, half from different classes.

    These are the mini-batches of Attention-based Ensemble (Sec. 4). Row i of the first half of a batch is paired with
    row i of the second half. Images in classes with at least two images are drawn once before any is drawn twice. Their
    partners are drawn with replacement.

    Args:
        images: Even integer of at least 2. Number of pairs. A batch has twice as many images. Defaults to `32`.

    Raises:
        ValueError: If `images` is odd.

    Example:

    ```python
    from pipelines.sampling import Pairs

    sampler, labels = Pairs(images=2), np.array([0, 0, 1, 1])
    sampler.bind(labels)
    drawn = labels[sampler.rows(seed=0, steps=[0]).numpy()[0]]
    (drawn[:2] == drawn[2:]).tolist()  # [True, False]
    ```
    """

    images: Annotated[int, integer(2)] = 32

    parts = 2

    def check_arguments(self):
        if self.images % 2:
            raise ValueError(f"The sampler 'pairs' needs an even number of images. Received: images={self.images}.")

    @property
    def batch_size(self) -> int:
        return 2 * self.images

    def bind(self, labels):
        super().bind(labels)
        alone = int(np.sum(group_by_class(labels)[2] == 1))
        if alone:
            logging.getLogger(__name__).info(
                "%d images are alone in their class, so they are only used as negatives.", alone
            )

    def tables_of(self, labels):
        return partner_tables(labels, self.images, f"pairs(images={self.images})")

    def fitted_to(self, labels):
        # The number must be even, because half of the images have a partner of their class.
        return {"images": max(2, min(self.images, most_drawn(labels, 2) // 2 * 2))}

    def draw_rows(self, seed, steps, *tables):
        drawn = draw_with_partners(seed, steps, tables, self.images)
        number = tf.range(self.images, dtype=tf.int64)[None, :]
        partner = tf.where(number < self.images // 2, drawn.positives(), drawn.negatives())
        return tf.gather(tables[0], tf.concat([drawn.place, partner], axis=1))


@register("sampler", "triplets")
class Triplets(Sampler):
    """Sampler of random triplets: a batch has all anchors, then their positives, then their negatives.

    These are the batches of the triplet loss in Lifted Structure (Sec. 3). Use it with
    `--loss="triplet(mining='given')"`. Images in classes with at least two images are anchors once before any is an
    anchor twice.

    Args:
        triplets: Integer. Number of triplets per batch. A batch has three times as many images. Defaults to `40`.

    Example:

    ```python
    from pipelines.sampling import Triplets

    sampler, labels = Triplets(triplets=1), np.array([0, 0, 1, 1])
    sampler.bind(labels)
    anchor, positive, negative = labels[sampler.rows(seed=0, steps=[0]).numpy()[0]]
    bool(anchor == positive), bool(anchor == negative)  # (True, False)
    ```
    """

    triplets: Count = 40

    parts = 3

    @property
    def batch_size(self) -> int:
        return 3 * self.triplets

    def tables_of(self, labels):
        return partner_tables(labels, self.triplets, f"triplets(triplets={self.triplets})")

    def fitted_to(self, labels):
        return {"triplets": min(self.triplets, most_drawn(labels, 3))}

    def draw_rows(self, seed, steps, *tables):
        drawn = draw_with_partners(seed, steps, tables, self.triplets)
        number = tf.range(self.triplets, 2 * self.triplets, dtype=tf.int64)[None, :]
        others = dataclasses.replace(drawn, random=stream_key(seed, Stream.PARTNERS, steps[:, None], number))
        return tf.gather(tables[0], tf.concat([drawn.place, drawn.positives(), others.negatives()], axis=1))


@register("sampler", "views")
class Views(Sampler):
    """Sampler of two augmented views per image: a batch contains different images, then the same images again.

    Use it for self-supervised learning, for example with the dataset `photos`. Row i of the first half and row i of the
    second half are two views of one image, because the transform is random. Each image is drawn once before any is
    drawn twice. Without classes, the only positive of a view is the other view. With classes, losses also use the
    labels.

    Args:
        images: Integer of at least 2. Number of different images per batch. A batch has twice as many rows. Defaults to
            `64`.

    Example:

    ```python
    from pipelines.sampling import Views

    sampler = Views(images=2)
    sampler.bind(np.arange(4))
    rows = sampler.rows(seed=0, steps=[0]).numpy()[0]
    bool((rows[:2] == rows[2:]).all())  # True
    ```
    """

    images: Annotated[int, integer(2)] = 64

    several_views = True

    @property
    def batch_size(self) -> int:
        return 2 * self.images

    def tables_of(self, labels):
        """Returns the number of rows, a scalar."""
        if len(labels) < self.images:
            raise ValueError(
                f"views(images={self.images}) needs that many training images. Received: {len(labels)} images. Lower "
                "images."
            )
        return [np.int64(len(labels))]

    def fitted_to(self, labels):
        return {"images": min(self.images, len(labels))}

    def draw_rows(self, seed, steps, total):
        count = tf.constant(self.images, tf.int64)
        rows = draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, count), self.images)
        return tf.concat([rows, rows], axis=1)
