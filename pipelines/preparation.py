"""What is done to an image file, in one go or in two."""

import tensorflow as tf

from pipelines.cut import Cut
from pipelines.decoding import decode, decode_cut


class Preparation:
    """A function `(contents, seed, box=None) -> image`, and the same in two parts, between which pixels may be kept.

    Args:
        steps: functions `(image, seed) -> image` in order, see `pipelines.transforms`.
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
