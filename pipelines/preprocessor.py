"""The function that prepares an image file for a model, in `tf.data`, exported models and services."""

import dataclasses

import numpy as np

from pipelines.images.decoding import decode, decode_cut
from pipelines.images.resizing import Cut
from pipelines.operations import tf
from pipelines.preprocessing import VectorPreprocessing
from tfdml.registry import create_chain
from tfdml.registry.arguments import ChannelOrder, ImageSize, Interpolation, sides_of
from tfdml.registry.fields import Declared


class Preprocessor(Declared):
    """Function `(contents, seed, box=None) -> image` that decodes, transforms and normalizes an image.

    It can be split for a cache: `cacheable_pixels` returns the image after the first steps, which do not depend on the
    seed, and `from_cached_pixels` continues from there.

    Args:
        transform: Chain of transform specs. Their `size` is `image_size` unless they set it.
        image_size: Size of the final images, as in `Preprocessing`.
        mean, std: One number per channel. The result is `(pixels - mean) / std`, with pixels from 0 to 255.
        channels: `"rgb"` or `"bgr"`. Order of the channels in the result, in `mean` and in `std`. Defaults to `"rgb"`.
        shrink: Boolean. Whether to decode a JPEG at 1/2, 1/4 or 1/8 of its size if it is resized to that size or less.
            This is faster but changes pixels. Defaults to `False`.
        interpolation: `"bilinear"`, `"bicubic"`, `"lanczos3"` or `"lanczos5"`, for transforms that resize. Defaults to
            `"bilinear"`.

    Example:

    ```python
    from pipelines.preprocessor import Preprocessor

    preprocess = Preprocessor("resize_short|center_crop", image_size=24, mean=(0, 0, 0), std=(255, 255, 255))
    contents = tf.io.encode_png(np.full([32, 48, 3], 51, "uint8"))
    image = preprocess(contents, seed=tf.constant([0, 0], tf.int64))  # shape (24, 24, 3), every pixel 0.2
    ```
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
            # Joining the first two steps avoids computing pixels that the second step does not need.
            both = steps[0].then(steps[1])
            steps = [both, *steps[2:]] if both else steps
        self._steps, self._begins_with_cut = steps, isinstance(steps[0], Cut)
        self._transform, self._channels, self._shrink = transform, channels, shrink
        # Shape of the images: `(height, width, 3)`.
        self.image_shape = (*sides_of(image_size), 3)
        # These are as large as the image, because broadcasting three numbers makes TensorFlow five times slower.
        mean, std = (np.broadcast_to(np.asarray(each, np.float32), self.image_shape).copy() for each in (mean, std))
        self._mean, self._std = mean, std
        # Identifies the cached pixels of this preprocessor.
        self.name = f"{transform} {image_size} {shrink}{'' if interpolation == 'bilinear' else f' {interpolation}'}"
        depends_on_seed = [not isinstance(step, Cut) or step.random for step in self._steps]
        # Number of steps at the start that do not depend on the seed.
        self._cacheable_steps = [*depends_on_seed, True].index(True)

    @classmethod
    def of(cls, preprocessing):
        """Creates the preprocessor for a `Preprocessing`; returns a `VectorPreprocessing` unchanged."""
        if isinstance(preprocessing, VectorPreprocessing):
            return preprocessing
        return cls(**dataclasses.asdict(preprocessing))

    def __call__(self, contents, seed, box=None):
        """Preprocesses the contents of a file (scalar string) with a seed (`[2]` int64) and a box, see `decode`."""
        return self.normalize(self.pixels(contents, seed, box))

    def pixels(self, contents, seed, box=None):
        """Decodes and transforms an image to pixels from 0 to 255, before `normalize`."""
        return self._run(self._begin(contents, seed, box), seed, int(self._begins_with_cut), len(self._steps))

    def from_pixels(self, image, seed):
        """Preprocesses a decoded image `[H, W, 3]` with pixels from 0 to 255; the result is bit-for-bit identical."""
        return self.normalize(self._run(image, seed, 0, len(self._steps)))

    @property
    def cacheable_type(self):
        """Data type of `cacheable_pixels`."""
        return tf.float32 if self._cacheable_steps else tf.uint8

    def cacheable_pixels(self, contents, box=None):
        """Decodes an image and applies the first steps of the transform, which do not depend on a seed."""
        if not self._cacheable_steps:
            if self._shrink and self._begins_with_cut:
                raise ValueError(
                    "Pixels cannot be cached if a random crop determines the size at which images are decoded. Use "
                    "--cache=bytes or --noshrink_decoding."
                )
            return decode(contents, box)
        seed = tf.zeros([2], tf.int64)
        return self._run(self._begin(contents, seed, box), seed, 1, self._cacheable_steps)

    def from_cached_pixels(self, pixels, seed):
        """Preprocesses an image from its `cacheable_pixels`."""
        # A stored tensor has lost its shape.
        first = tf.function(lambda image: self._run(image, tf.zeros([2], tf.int64), 0, self._cacheable_steps))
        shape = first.get_concrete_function(tf.TensorSpec([None, None, 3])).structured_outputs.shape
        image = self._run(tf.ensure_shape(pixels, shape), seed, self._cacheable_steps, len(self._steps))
        return self.normalize(image)

    def seen_part(self, height, width):
        """Finds the part of an image of this size that the result shows.

        Returns:
            The left, top, right and bottom of the part, as fractions of the image's width and height. They are below 0
            or above 1 if the result is padded. `None` if the part depends on pixels or on the seed.
        """
        if any(not isinstance(step, Cut) or step.random for step in self._steps):
            return None
        # The pixels of this image encode their position. Padding has 0 or more in the last channel.
        across, down = ((np.arange(count) + 0.5) / count for count in (width, height))
        pixels = np.stack(np.broadcast_arrays(across, down[:, None], -1.0), axis=-1).astype(np.float32)
        seen = tf.constant(pixels)
        # All other interpolations clip numbers below 0.
        for step in _resizing(self._steps, "bilinear"):
            seen = step(seen, tf.zeros([2], tf.int64))
        seen = np.asarray(seen)
        padding = seen[..., 2] > -0.5
        (left, right), (top, bottom) = (
            _ends(np.ma.array(seen[..., channel], mask=padding).mean(axis=channel)) for channel in (0, 1)
        )
        return left, top, right, bottom

    def normalize(self, images):
        """Normalizes a transformed image with pixels from 0 to 255, or a batch of such images."""
        if images.shape[-3:] != self.image_shape:
            raise ValueError(
                f"The transform {self._transform!r} must produce images of shape {self.image_shape}. Received: shape "
                f"{tuple(images.shape)}. End it with a crop or with warp."
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
    """Extrapolates masked values `[n]` on a straight line to the edges before the first and after the last one."""
    known = np.ma.flatnotmasked_edges(values)
    # The outer values are ignored, because resizing repeats the last pixels near the edges of an image.
    aside = (known[1] + 1 - known[0]) // 8
    inner = np.arange(known[0] + aside, known[1] + 1 - aside)
    slope, start = np.polyfit(inner + 0.5, values[inner], 1)
    return float(start), float(start + slope * len(values))


def _seed_of(seed, number):
    return tf.random.experimental.stateless_fold_in(seed, number)
