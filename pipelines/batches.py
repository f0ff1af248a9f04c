"""Batches of a user's own images, scaled for a backbone."""

from collections.abc import Callable, Sequence
from typing import Annotated

import keras
import numpy as np
import tensorflow as tf

from pipelines.build import as_it_is, evaluation_batches, training_batches
from pipelines.dataset import Split
from pipelines.preprocessing import declared_by, preprocessing_of, scaling, why_no_pixels
from pipelines.preprocessor import Preprocessor
from pipelines.reading.sources import Images, class_numbers, read_dataset, source_of
from pipelines.sampling import PxK, Views
from tfdml.registry.arguments import ChannelOrder, Count, ImageSize, Labels, integer
from tfdml.registry.fields import declared

# The pixel range of this many images is checked in advance.
LOOKED_AT = 8


def drawn_batches(source, labels, sampler, prepare, steps_per_epoch, initial_step, seed):
    """Returns the batches `(images, labels)` that a sampler draws, and counts their steps.

    The sampler is bound here to the labels, `[N]` class numbers of the images of a `Source`. Images are prepared by the
    function `prepare`, `(image or contents, seed) -> image`. The rest is as of `pxk`.
    """
    sampler.bind(labels)
    steps = steps_per_epoch or max(len(labels) // sampler.batch_size, 1)
    if initial_step % steps:
        raise ValueError(f"Expected initial_step as a multiple of steps_per_epoch={steps}, received {initial_step}.")
    step = tf.Variable(initial_step, dtype=tf.int64, trainable=False)
    options = {"seed": seed, "step": step, "steps_per_epoch": steps, "read": source.read}
    batches = training_batches(Split(np.arange(len(labels)), labels), sampler, prepare, **options)

    # Counted with the last batch, because Keras does not request another one after it.
    def counting(number, batch):
        counted = step.assign_add(tf.where(number == steps - 1, tf.constant(steps, tf.int64), 0), read_value=False)
        with tf.control_dependencies([counted]):
            return tf.nest.map_structure(tf.identity, batch)

    return batches.enumerate().map(as_it_is(counting))


def prepared_by(source, count, backbone, mean, std, channels, image_size, transform):
    """Returns the function `(image or contents, seed) -> image`."""
    scaled = any(value is not None for value in (mean, std, channels))
    if transform is None:
        if source.encoded or scaled or backbone is not None or image_size is not None:
            raise ValueError(
                "transform=None leaves arrays unchanged. Files need a transform, and so do backbone, mean, std, "
                "channels and image_size; 'warp' only resizes."
            )
        return lambda image, seed: image
    if backbone is None:
        if mean is None or std is None:
            raise ValueError(
                "The scaling of pixels is missing: give backbone=..., or mean=... and std=.... mean=(0, 0, 0) and "
                "std=(1, 1, 1) leave pixels from 0 to 255."
            )
        about = {**scaling(mean, std), "channels": channels or "rgb"}
    elif scaled:
        raise ValueError("Expected backbone, or mean, std and channels; received both.")
    else:
        declared = declared_by(backbone)
        if not {"mean", "std"} <= declared.keys():
            raise ValueError(
                f"{backbone!r} does not declare how its pixels are scaled. Give mean=... and std=..., or use a "
                "backbone that does, such as tfdml.backbones.KerasApplication('ResNet50')."
            )
        about, image_size = preprocessing_of(backbone), image_size or declared.get("image_size")
    if image_size is None:
        raise ValueError("image_size is missing: no backbone declares its image size.")
    prepare = Preprocessor(transform, image_size=image_size, **about)
    if source.encoded:
        return prepare
    for row in np.linspace(0, count - 1, LOOKED_AT).astype(int):
        reason = why_no_pixels(source.read(tf.constant(row, tf.int64)).numpy(), row)
        if reason:
            raise ValueError(f"{reason} Give unscaled images, or transform=None, which leaves them unchanged.")
    return prepare.from_pixels


# Views that are compared; a transform that does something half of the time does it in one of them.
VIEWS = 16
SIDE = 64


def check_views(preprocessor, name):
    """Raises a ValueError, which calls the transform `name`, if it draws nothing at random, so that views are equal.

    `preprocessor` is a `Preprocessor`, or another function `(image or contents, seed) -> image` with `from_pixels`.
    """
    image = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    seeds = [tf.constant([0, number], tf.int64) for number in range(VIEWS)]
    first, *others = (preprocessor.from_pixels(image, seed) for seed in seeds)
    if all(np.array_equal(first, other) for other in others):
        raise ValueError(
            f"{name} draws nothing at random, so that there is one view of an image only. Views need a transform such "
            "as 'random_resized_crop(area=(0.2, 1.0))|flip|color_jitter'."
        )


@declared
def pxk(
    images: Images | Callable[[tf.Tensor], tf.Tensor],
    labels: Labels | None = None,
    *,
    classes: Annotated[int, integer(2)] = 8,
    per_class: int = 4,
    backbone: keras.Model | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    channels: ChannelOrder | None = None,
    image_size: ImageSize | None = None,
    transform: str | None = "random_resized_crop(area=(0.5, 1.0))|flip",
    steps_per_epoch: Count | None = None,
    initial_step: Annotated[int, integer(0)] = 0,
    seed: int = 0,
) -> tf.data.Dataset:
    """Creates P×K batches, of `classes` classes with `per_class` images each, for losses that compare images.

    A batch is a pure function of the seed and the step. Every class comes once before any comes twice, and so do the
    images of a class. A complete pass over the dataset is an epoch; the next pass continues after it.

    Args:
        images: N images, as one of:
            - a list of paths. Files are read when they are needed.
            - an array `[N, height, width, 3]`, or a list of arrays or of file contents. They are kept in memory.
            - a function of a row number (int64 tensor) that returns an image, or the contents of its file.
            - a `tf.data.Dataset` of (image, label), batched or not. It is read once and kept in memory, because any
              image may be needed at any time. It must not shuffle if a resumed training should see the same batches.

            Arrays have pixels from 0 to 255.
        labels: `[N]` integers or strings. Batches contain integers unchanged, and strings as their index in
            `np.unique(labels)`. None if `images` is a dataset.
        classes: number of classes in a batch, 2 or more: images of one class alone have nothing to be far from.
        per_class: images of each class, 2 or more. A class with fewer images repeats them; a class with a single image
            is left out.
        backbone: a backbone of tfdml, or a model with one, which declares how pixels are scaled.
        mean, std: one number per channel, instead of `backbone`: images are `(pixels - mean) / std`.
            `mean=(0, 0, 0), std=(1, 1, 1)` leaves pixels from 0 to 255.
        channels: with `mean` and `std`, the order of the result's channels and of theirs: "rgb", which is the default,
            or "bgr".
        image_size: size of the output images: the side of a square, or (height, width); None: the backbone's own.
        transform: chain of transforms, as in `--train_transform`. None leaves images unchanged, neither resized nor
            scaled; they may then have any shape.
        steps_per_epoch: batches in a pass; None: N divided by the batch size.
        initial_step: number of steps taken before, a multiple of `steps_per_epoch`; for a loaded model,
            `int(model.optimizer.iterations)`, times `gradient_accumulation_steps` if gradients are accumulated.
        seed: determines batches and random transforms.

    Returns:
        A `tf.data.Dataset` of `steps_per_epoch` batches `(images, labels)`, float32
        `[classes * per_class, height, width, 3]` and int64 `[classes * per_class]`.

    Example:

    ```python
    batches = tfdml.data.pxk(paths, labels, classes=8, per_class=4, backbone=model)
    model.fit(batches, epochs=10, shuffle=False)
    ```
    """
    source, labels = _source_and_labels(images, labels)
    prepare = prepared_by(source, len(labels), backbone, mean, std, channels, image_size, transform)
    sampler = PxK(classes, per_class)
    return drawn_batches(source, labels, sampler, prepare, steps_per_epoch, initial_step, seed)


@declared
def views(
    images: Images | Callable[[tf.Tensor], tf.Tensor],
    *,
    batch_images: Annotated[int, integer(2)] = 64,
    count: Count | None = None,
    backbone: keras.Model | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    channels: ChannelOrder | None = None,
    image_size: ImageSize | None = None,
    transform: str = "random_resized_crop(area=(0.2, 1.0))|flip|color_jitter",
    steps_per_epoch: Count | None = None,
    initial_step: Annotated[int, integer(0)] = 0,
    seed: int = 0,
) -> tf.data.Dataset:
    """Creates batches of two views of each image, for images without classes and losses that compare them.

    A batch has `batch_images` images, and then the same ones again, transformed otherwise. It is a pure function of the
    seed and the step. Every image comes once before any comes twice.

    Args:
        images: N images, as in `pxk`, but no dataset.
        batch_images: number of different images in a batch, which has twice as many rows.
        count: N, if `images` is a function of a row.
        backbone, mean, std, channels, image_size: as in `pxk`.
        transform: chain of transforms, some of them random, as in `--train_transform`.
        steps_per_epoch, initial_step, seed: as in `pxk`.

    Returns:
        A `tf.data.Dataset` of `steps_per_epoch` batches `(images, numbers)`, float32
        `[2 * batch_images, height, width, 3]` and int64 `[2 * batch_images]`, the number of each image.

    Example:

    ```python
    batches = tfdml.data.views(paths, batch_images=64, backbone=model)
    model.fit(batches, epochs=10, shuffle=False)
    ```
    """
    if isinstance(images, tf.data.Dataset):
        raise ValueError("Expected paths, arrays or contents of files, received a dataset. Read it: list(dataset).")
    source, count = _source_and_count(images, count)
    prepare = prepared_by(source, count, backbone, mean, std, channels, image_size, transform)
    check_views(prepare if source.encoded else prepare.__self__, f"transform={transform!r}")
    sampler = Views(batch_images)
    return drawn_batches(source, np.arange(count), sampler, prepare, steps_per_epoch, initial_step, seed)


@declared
def in_order(
    images: Images | Callable[[tf.Tensor], tf.Tensor],
    *,
    count: Count | None = None,
    backbone: keras.Model | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    channels: ChannelOrder | None = None,
    image_size: ImageSize | None = None,
    transform: str | None = "resize_short|center_crop",
    batch_size: Count = 128,
) -> tf.data.Dataset:
    """Creates batches of all images in order, for `model.predict` and `tfdml.callbacks.RetrievalEvaluation`.

    Every batch is full: the last one repeats the last image. Use the first N rows of the model's output.

    Args:
        images: as in `pxk`.
        count: N, if `images` is a function of a row.
        backbone, mean, std, channels, image_size: as in `pxk`.
        transform: chain of transforms, as in `--test_transform`. None leaves images unchanged.
        batch_size: number of images in a batch.

    Returns:
        A `tf.data.Dataset` of images, float32 `[batch_size, height, width, 3]`.
    """
    if isinstance(images, tf.data.Dataset):
        images, _ = read_dataset(images)
    source, count = _source_and_count(images, count)
    prepare = prepared_by(source, count, backbone, mean, std, channels, image_size, transform)
    rows = Split(np.arange(count), np.zeros(count, np.int64))
    return evaluation_batches(rows, prepare, batch_size=batch_size, read=source.read)


def _source_and_count(images, count):
    source = source_of(images)
    count = source.count or count
    if count is None:
        raise ValueError("count is missing: the number of rows for which the function returns an image.")
    return source, count


def _source_and_labels(images, labels):
    """Returns the `Source` of the images, and class numbers `[N]`."""
    if isinstance(images, tf.data.Dataset):
        if labels is not None:
            raise ValueError("Expected labels=None, because a dataset contains its labels: (image, label).")
        images, labels = read_dataset(images)
    if labels is None:
        raise ValueError("labels is missing: one for each image.")
    source, labels = source_of(images), class_numbers(labels)
    if source.count not in (None, len(labels)):
        raise ValueError(f"Expected one label per image, received {source.count} images and {len(labels)} labels.")
    return source, labels
