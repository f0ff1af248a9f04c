"""The function that prepares an image file for a model, in `tf.data`, exported models and services."""

import dataclasses

import numpy as np
import tensorflow as tf

from pipelines.images.decoding import decode, decode_cut
from pipelines.images.resizing import Cut
from pipelines.preprocessing import VectorPreprocessing
from tfdml.registry import create_chain
from tfdml.registry.arguments import ChannelOrder, ImageSize, Interpolation, sides_of
from tfdml.registry.fields import Declared


class Preprocessor(Declared):
    """Decodes, transforms and normalizes an image: a function `(contents, seed, box=None) -> image`.

    A cache may come in between: `cacheable_pixels` gives the image after the first steps, those that do not depend on
    the seed, and `from_cached_pixels` goes on from there.

    Args:
        transform: chain of transform specs; their `size` is `image_size` where they do not set it.
        image_size: size of the images that the chain ends with, as of `Preprocessing`.
        mean, std: per-channel numbers; the result is `(pixels - mean) / std` with pixels from 0 to 255.
        channels: "rgb" or "bgr", the order of the result's channels and of `mean` and `std`.
        shrink: decode JPEGs at 1/2, 1/4 or 1/8 where they are resized to that or less: faster, other pixels.
        interpolation: how transforms resize: "bilinear", "bicubic", "lanczos3" or "lanczos5".

    Example:
        preprocess = Preprocessor("resize_short|center_crop", image_size=224, mean=(0, 0, 0), std=(255, 255, 255))
        image = preprocess(tf.io.read_file("car.jpg"), seed=tf.constant([0, 0], tf.int64))
    """

    def __init__(
        self,
        transform,
        *,
        image_size: ImageSize,
        mean,
        std,
        channels: ChannelOrder = "rgb",
        shrink=False,
        interpolation: Interpolation = "bilinear",
    ):
        steps = _resizing(create_chain("transform", transform, size=image_size), interpolation)
        if not shrink and len(steps) > 1 and all(isinstance(step, Cut) for step in steps[:2]):
            # Pixels that the second step does not need are not computed.
            both = steps[0].then(steps[1])
            steps = [both, *steps[2:]] if both else steps
        self._steps, self._begins_with_cut = steps, isinstance(steps[0], Cut)
        self._transform, self._channels, self._shrink = transform, channels, shrink
        # Of the images: `(height, width, 3)`.
        self.image_shape = (*sides_of(image_size), 3)
        # As large as the image: where TensorFlow must repeat three numbers it takes five times as long.
        mean, std = (np.broadcast_to(np.asarray(each, np.float32), self.image_shape).copy() for each in (mean, std))
        self._mean, self._std = mean, std
        # Tells cached pixels of this preprocessor from those of another.
        self.name = f"{transform} {image_size} {shrink}{'' if interpolation == 'bilinear' else f' {interpolation}'}"
        depends_on_seed = [not isinstance(step, Cut) or step.random for step in self._steps]
        # How many steps at the start do not depend on the seed.
        self._cacheable_steps = [*depends_on_seed, True].index(True)

    @classmethod
    def of(cls, preprocessing):
        """Creates the preprocessor that a `Preprocessing` describes; a `VectorPreprocessing` is its own."""
        if isinstance(preprocessing, VectorPreprocessing):
            return preprocessing
        return cls(**dataclasses.asdict(preprocessing))

    def __call__(self, contents, seed, box=None):
        """Preprocesses the contents of a file (scalar string), with a seed (`[2]` int64) and a box as in `decode`."""
        return self.normalize(self.pixels(contents, seed, box))

    def pixels(self, contents, seed, box=None):
        """Decodes and transforms an image: what `normalize` takes, with pixels from 0 to 255."""
        return self._run(self._begin(contents, seed, box), seed, int(self._begins_with_cut), len(self._steps))

    def from_pixels(self, image, seed):
        """Preprocesses an image that is decoded already, `[H, W, 3]` with pixels from 0 to 255: the same bits."""
        return self.normalize(self._run(image, seed, 0, len(self._steps)))

    @property
    def cacheable_type(self):
        """The type of `cacheable_pixels`."""
        return tf.float32 if self._cacheable_steps else tf.uint8

    def cacheable_pixels(self, contents, box=None):
        """Decodes an image, and applies the first steps of the transform, those that do not depend on a seed."""
        if not self._cacheable_steps:
            if self._shrink and self._begins_with_cut:
                raise ValueError(
                    "Pixels cannot be cached where a random crop decides how small an image is decoded. Use "
                    "--cache=bytes, or --noshrink_decoding."
                )
            return decode(contents, box)
        seed = tf.zeros([2], tf.int64)
        return self._run(self._begin(contents, seed, box), seed, 1, self._cacheable_steps)

    def from_cached_pixels(self, pixels, seed):
        """Preprocesses an image from its `cacheable_pixels`."""
        # A tensor that was stored has lost its shape.
        first = tf.function(lambda image: self._run(image, tf.zeros([2], tf.int64), 0, self._cacheable_steps))
        shape = first.get_concrete_function(tf.TensorSpec([None, None, 3])).structured_outputs.shape
        image = self._run(tf.ensure_shape(pixels, shape), seed, self._cacheable_steps, len(self._steps))
        return self.normalize(image)

    def seen_part(self, height, width):
        """Finds the part of an image of this size that the result shows.

        Returns:
            Its left, top, right and bottom, as fractions of the image's width and height; below 0 and above 1 where the
            result is padded. None where it depends on pixels or on the seed.
        """
        if any(not isinstance(step, Cut) or step.random for step in self._steps):
            return None
        # Pixels that tell where they lie. Padding is 0 or more.
        across, down = ((np.arange(count) + 0.5) / count for count in (width, height))
        pixels = np.stack(np.broadcast_arrays(across, down[:, None], -1.0), axis=-1).astype(np.float32)
        seen = tf.constant(pixels)
        # No other interpolation takes numbers below 0.
        for step in _resizing(self._steps, "bilinear"):
            seen = step(seen, tf.zeros([2], tf.int64))
        seen = seen.numpy()
        padding = seen[..., 2] > -0.5
        (left, right), (top, bottom) = (
            _ends(np.ma.array(seen[..., channel], mask=padding).mean(axis=channel)) for channel in (0, 1)
        )
        return left, top, right, bottom

    def normalize(self, images):
        """Normalizes an image that the transform has made, or a batch of such images, with pixels from 0 to 255."""
        if images.shape[-3:] != self.image_shape:
            raise ValueError(
                f"The transform {self._transform!r} ends with images of shape {tuple(images.shape)}; expected "
                f"{self.image_shape}. End it with a crop, or with warp."
            )
        if self._channels == "bgr":
            images = tf.reverse(images, axis=[-1])
        return (images - self._mean) / self._std

    def _begin(self, contents, seed, box):
        if self._begins_with_cut:
            return decode_cut(contents, self._steps[0], _seed_of(seed, 0), box=box, shrink=self._shrink)
        return decode(contents, box)

    def _run(self, image, seed, first, end):
        for number in range(first, end):
            image = self._steps[number](tf.cast(image, tf.float32), _seed_of(seed, number))
        return image


def _resizing(steps, interpolation):
    return [dataclasses.replace(step, interpolation=interpolation) if isinstance(step, Cut) else step for step in steps]


def _ends(values):
    """Returns what values `[n]` of a line are before its first and after its last place, some of them masked."""
    known = np.ma.flatnotmasked_edges(values)
    # Near the ends of an image, resizing repeats its last pixels.
    aside = (known[1] + 1 - known[0]) // 8
    inner = np.arange(known[0] + aside, known[1] + 1 - aside)
    slope, start = np.polyfit(inner + 0.5, values[inner], 1)
    return float(start), float(start + slope * len(values))


def _seed_of(seed, number):
    return tf.random.experimental.stateless_fold_in(seed, number)
