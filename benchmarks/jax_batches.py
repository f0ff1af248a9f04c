"""Batches and crops as `pxk` and `random_resized_crop` draw them, for `benchmarks.jax_training`."""

import numpy as np
from jax import numpy as jnp

TRIES = 10


def batches_of(labels, steps, seed, classes, per_class):
    """Draws the rows `[steps, classes * per_class]` of batches.

    Every class comes once before any comes twice, and so do the images of a class; no batch has an image twice.
    """
    random = np.random.default_rng(seed)
    members = {label: np.flatnonzero(labels == label) for label in np.unique(labels)}
    of_classes, of_class = (
        _Rounds([*members], random),
        {label: _Rounds(rows, random) for label, rows in members.items()},
    )
    draws = ([of_class[label].take(per_class) for label in of_classes.take(classes)] for _ in range(steps))
    return np.array([np.concatenate(draw) for draw in draws], np.int32)


def windows_of(shape, size, seed, area, aspect=(3 / 4, 4 / 3)):
    """Draws windows of crops `[*shape, 4]`, top, left, height and width, of images of `size` × `size` pixels."""
    random = np.random.default_rng([seed, 1])
    pixels = size**2 * random.uniform(*area, (*shape, TRIES))
    ratios = np.exp(random.uniform(*np.log(aspect), (*shape, TRIES)))
    sides = np.round(np.sqrt(np.stack([pixels / ratios, pixels * ratios], axis=-1)))
    # The first that fits, or else the whole image.
    fits = np.append(np.all((sides >= 1) & (sides <= size), axis=-1), np.ones((*shape, 1), bool), axis=-1)
    sides = np.append(sides, np.full((*shape, 1, 2), size), axis=-2)
    chosen = np.take_along_axis(sides, fits.argmax(axis=-1)[..., None, None], axis=-2)[..., 0, :]
    places = np.floor(random.uniform(size=chosen.shape) * (size - chosen + 1))
    return np.concatenate([places, chosen], axis=-1).astype(np.float32)


def crops(images, windows):
    """Crops windows `[B, 4]` of images `[B, size, size, 3]` and enlarges them to their size, bilinear."""
    size = images.shape[1]
    rows, columns = _enlarging(windows[:, 0], windows[:, 2], size), _enlarging(windows[:, 1], windows[:, 3], size)
    return jnp.einsum("bts,bsuc,bvu->btvc", rows, images.astype("float32"), columns)


def _enlarging(start, length, size):
    """Weights `[B, size, size]` of pixels in enlarged ones, along one axis."""
    centers = (jnp.arange(size) + 0.5) * length[:, None] / size - 0.5
    places = start[:, None] + jnp.clip(centers, 0, length[:, None] - 1)
    return jnp.maximum(1 - jnp.abs(places[:, :, None] - jnp.arange(size)), 0)


class _Rounds:
    """Draws members in rounds, each in an order of its own; a draw has no member twice."""

    def __init__(self, members, random):
        self._members, self._random, self._left = np.asarray(members), random, []

    def take(self, count):
        if len(self._left) < count:
            order = self._random.permutation(self._members).tolist()
            # What is in the draw already comes last.
            self._left += sorted(order, key=lambda member: member in self._left)
        taken, self._left = self._left[:count], self._left[count:]
        return taken
