"""Encoded images to what a network takes: decode, transform, normalise.

Training, evaluation and serving all prepare images here, so that they agree in every pixel. A transform is a chain
of steps, written as `random_resized_crop(area=(0.5, 1.0))|flip`; `pipelines.transforms` has them.
"""

import numpy as np
import tensorflow as tf

from pipelines.images.cut import Cut
from pipelines.images.decoding import decode, decode_cut
from tfdml.registry import create_chain


def preparation(transform, *, image_size, mean, std, channels="rgb", shrink=False):
    """Makes the function `(contents, seed) -> image` of a transform.

    Args:
        transform: chain of transform specs; their `size` is `image_size` where they do not set it.
        image_size: side of the square that the chain ends with, pixels.
        mean, std: per-channel numbers; the result is `(pixels - mean) / std` with pixels from 0 to 255.
        channels: "rgb" or "bgr", the order of the result's channels and of `mean` and `std`.
        shrink: decode JPEGs at 1/2, 1/4 or 1/8 where they are resized to that or less: faster, other pixels.

    Returns:
        A function of an encoded image (scalar string), a seed (`[2]` int64) and where wanted a box that the image is
        cropped to first (`[4]`, see `decode`), which gives float32 `[image_size, image_size, 3]`; a `Preparation`.
    """
    if channels not in ("rgb", "bgr"):
        raise ValueError(f"Expected channels in the order 'rgb' or 'bgr', received {channels!r}.")
    steps = create_chain("transform", transform, size=image_size)
    shape = (image_size, image_size, 3)
    # As large as the image: where TensorFlow must repeat three numbers it takes five times as long.
    mean, std = (np.broadcast_to(np.asarray(numbers, np.float32), shape).copy() for numbers in (mean, std))

    def normalise(image):
        if image.shape != shape:
            raise ValueError(
                f"The transform {transform!r} ends with images of shape {tuple(image.shape)}; expected "
                f"({image_size}, {image_size}, 3). End it with a crop, or with warp."
            )
        if channels == "bgr":
            image = tf.reverse(image, axis=[2])
        return (image - mean) / std

    return Preparation(steps, normalise, shape=shape, shrink=shrink, name=f"{transform} {image_size} {shrink}")


class Preparation:
    """A function `(contents, seed, box=None) -> image`, and the same in two parts, between which pixels may be kept.

    Args:
        steps: functions `(image, seed) -> image` in order, see `pipelines.transforms.crops`.
        finish: function `image -> image` that comes after them.
        shrink: decode a JPEG smaller where the first step does not need more, see `decode_cut`.
        shape: of the images that the steps end with.
        name: what tells it from others.
    """

    def __init__(self, steps, finish, *, shape, shrink, name):
        self._finish, self._shape, self._shrink, self.name = finish, shape, shrink, name
        self._steps = steps if shrink else _joined(steps)
        changing = [not isinstance(step, Cut) or step.random for step in self._steps]
        # How many steps at the start do the same every time.
        self.fixed_steps = [*changing, True].index(True)

    def __call__(self, contents, seed, box=None):
        """The image of a file's contents (scalar string), with a seed (`[2]` int64) and a box as `decode` takes it."""
        done = 1 if self._begins_with_cut() else 0
        return self._finish(self._run(self._begin(contents, seed, box), seed, done, len(self._steps)))

    def of_pixels(self, image, seed):
        """The image of one that is decoded, `[H, W, 3]` with pixels from 0 to 255; as for its file, to the bit."""
        return self._finish(self._run(image, seed, 0, len(self._steps)))

    @property
    def kept_type(self):
        """The type of what `keep` gives."""
        return tf.float32 if self.fixed_steps else tf.uint8

    def keep(self, contents, box=None):
        """What is the same every time: the decoded image `[H, W, 3]`, after the steps that do not depend on a seed."""
        if not self.fixed_steps:
            if self._shrink and self._begins_with_cut():
                raise ValueError(
                    "Pixels cannot be kept where a random crop decides how small an image is decoded. Use "
                    "--cache=bytes, or --noshrink_decoding."
                )
            return decode(contents, box)
        seed = tf.zeros([2], tf.int64)
        return self._run(self._begin(contents, seed, box), seed, 1, self.fixed_steps)

    def go_on(self, kept, seed):
        """The image, from what `keep` gave."""
        # A tensor that was stored has forgotten its shape.
        image = tf.ensure_shape(kept, self._shape if self.fixed_steps == len(self._steps) else [None, None, 3])
        image = self._run(image, seed, self.fixed_steps, len(self._steps))
        return self._finish(image)

    def _begins_with_cut(self):
        return isinstance(self._steps[0], Cut)

    def _begin(self, contents, seed, box):
        if self._begins_with_cut():
            return decode_cut(contents, self._steps[0], _seed_of(seed, 0), box=box, shrink=self._shrink)
        return decode(contents, box)

    def _run(self, image, seed, first, beyond):
        for number in range(first, beyond):
            image = self._steps[number](tf.cast(image, tf.float32), _seed_of(seed, number))
        return image


def _joined(steps):
    """The steps, the first two of them as one where nothing is computed then that the second leaves out."""
    both = steps[0].then(steps[1]) if len(steps) > 1 and all(isinstance(step, Cut) for step in steps[:2]) else None
    return [both, *steps[2:]] if both else steps


def _seed_of(seed, number):
    """A seed of its own for each step."""
    return tf.random.experimental.stateless_fold_in(seed, number)
