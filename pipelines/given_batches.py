"""Prepares a user's own images, and draws batches of them."""

import numpy as np
import tensorflow as tf

from pipelines.build import as_it_is, training_batches
from pipelines.preprocessing import declared_by, preprocessing_of, scaling, why_no_pixels
from pipelines.preprocessor import Preprocessor
from pipelines.reading.image_sources import Rows

# Number of images whose pixel range is checked in advance.
LOOKED_AT = 8


def drawn_batches(source, labels, sampler, prepare, steps_per_epoch, initial_step, seed):
    """Returns the batches `(images, labels)` that a sampler draws, and counts their steps.

    Args:
        source: `Source` of the images.
        labels: `[N]` class numbers.
        sampler: `Sampler`, which is bound to them here.
        prepare: function `(image or contents, seed) -> image`.
        steps_per_epoch, initial_step, seed: as of `pxk`.
    """
    sampler.bind(labels)
    steps = steps_per_epoch or max(len(labels) // sampler.batch_size, 1)
    if initial_step % steps:
        raise ValueError(f"Expected initial_step as a multiple of steps_per_epoch={steps}, received {initial_step}.")
    step = tf.Variable(initial_step, dtype=tf.int64, trainable=False)
    options = {"seed": seed, "step": step, "steps_per_epoch": steps, "read": source.read}
    batches = training_batches(Rows(len(labels), labels), sampler, prepare, **options)

    # Counted with the last batch, because Keras does not request another one after it.
    def counting(number, batch):
        counted = step.assign_add(tf.where(number == steps - 1, tf.constant(steps, tf.int64), 0), read_value=False)
        with tf.control_dependencies([counted]):
            return tf.nest.map_structure(tf.identity, batch)

    return batches.enumerate().map(as_it_is(counting))


def prepared_by(source, count, backbone, mean, std, channels, image_size, transform):
    """Returns the function `(image or contents, seed) -> image`."""
    if transform is None:
        if source.encoded or any(given is not None for given in (backbone, mean, std, channels, image_size)):
            raise ValueError(
                "transform=None leaves arrays unchanged. Files need a transform, and so do backbone, mean, std, "
                "channels and image_size; 'warp' only resizes."
            )
        return lambda image, seed: image
    about, size = _declared(backbone, mean, std, channels)
    size = image_size or size
    if size is None:
        raise ValueError("image_size is missing: no backbone declares its image size.")
    prepare = Preprocessor(transform, image_size=size, **about)
    if source.encoded:
        return prepare
    for row in np.linspace(0, count - 1, LOOKED_AT).astype(int):
        _check_pixels(source.read(tf.constant(row, tf.int64)).numpy(), row)
    return prepare.from_pixels


def _declared(backbone, mean, std, channels):
    """Returns how pixels are scaled, and the image size if a backbone declares it."""
    if backbone is None:
        if mean is None or std is None:
            raise ValueError(
                "The scaling of pixels is missing: give backbone=..., or mean=... and std=.... mean=(0, 0, 0) and "
                "std=(1, 1, 1) leave pixels from 0 to 255."
            )
        return {**scaling(mean, std), "channels": channels or "rgb"}, None
    if any(given is not None for given in (mean, std, channels)):
        raise ValueError("Expected backbone, or mean, std and channels; received both.")
    declared = declared_by(backbone)
    if not {"mean", "std"} <= declared.keys():
        raise ValueError(
            f"{backbone!r} does not declare how its pixels are scaled. Give mean=... and std=..., or use a backbone "
            "that does, such as tfdml.backbones.KerasApplication('ResNet50')."
        )
    return preprocessing_of(backbone), declared.get("image_size")


def _check_pixels(image, row):
    """Raises an error if an image is not in color, or if its pixels are already scaled and would be scaled twice."""
    if image.ndim != 3 or image.shape[-1] != 3:
        raise ValueError(
            f"Expected images of shape [height, width, 3], received {image.shape}. Repeat the channel of a gray image, "
            "or give transform=None."
        )
    reason = why_no_pixels(image, row)
    if reason:
        raise ValueError(f"{reason} Give unscaled images, or transform=None, which leaves them unchanged.")
