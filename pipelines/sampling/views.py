"""Views: batches of random images, each of them twice."""

import numpy as np
import tensorflow as tf

from pipelines.sampling.draws import draw
from pipelines.sampling.sampler import Sampler
from pipelines.sampling.streams import as_long_as, stream_keys
from tfdml.registry import register
from tfdml.registry.arguments import Count


@register("sampler", "views")
class Views(Sampler):
    """Batches of `images` different images, and the same ones again, which the transform makes other views of them.

    Row i of the first half and row i of the second are views of an image. Each image comes once before any comes twice.
    Of images without classes, as of the dataset `photos`, only its views are alike; classes are known to losses where
    there are any.

    Args:
        images: images in a batch, which has twice as many rows.
    """

    images: Count = 64

    several_views = True

    @property
    def batch_size(self) -> int:
        return 2 * self.images

    def tables_of(self, labels):
        """Returns the number of rows, a scalar."""
        if self.images < 2:
            raise ValueError("views(images=1) leaves an image nothing to differ from. Expected 2 or more.")
        if len(labels) < self.images:
            raise ValueError(f"views(images={self.images}) needs that many training rows, there are {len(labels)}.")
        return [np.int64(len(labels))]

    def fitted_to(self, labels):
        return {"images": min(self.images, len(labels))}

    def draw_rows(self, seed, steps, total):
        count = tf.constant(self.images, tf.int64)
        rows = draw(stream_keys(seed, steps), steps, *as_long_as(steps, total, count), self.images)
        return tf.concat([rows, rows], axis=1)
