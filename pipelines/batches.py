"""Batches of your images, scaled for a backbone."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import keras
import numpy as np

from pipelines.build import as_it_is, evaluation_batches, training_batches
from pipelines.dataset import Split
from pipelines.operations import tf
from pipelines.preprocessing import declared_by, preprocessing_of, scaling, why_no_pixels
from pipelines.preprocessor import Preprocessor
from pipelines.py_datasets import DrawnBatches
from pipelines.reading.sources import Images, class_numbers, read_dataset, source_of
from pipelines.sampling import PxK, Views
from tfdml.registry.arguments import ChannelOrder, Count, ImageSize, Labels, Tensor, integer
from tfdml.registry.fields import declared
from tfdml.runtime.backends import is_tensorflow_dataset, uses_tensorflow

if TYPE_CHECKING:
    Batches = tf.data.Dataset
else:
    # On the other Keras backends, batches are a `PyDataset`.
    Batches = Any

# Number of images with a pixel range that is checked before training.
LOOKED_AT = 8


def drawn_batches(source, labels, sampler, prepare, steps_per_epoch, initial_step, seed):
    """Returns the batches `(images, labels)` that a sampler draws, and counts their steps.

    The sampler is bound to `labels`, `[N]` integer class labels of the images in a `Source`. The function `prepare`,
    `(image or contents, seed) -> image`, prepares each image. See `pxk` for the other arguments.
    """
    sampler.bind(labels)
    steps = steps_per_epoch or max(len(labels) // sampler.batch_size, 1)
    if initial_step % steps:
        raise ValueError(
            f"initial_step must be a multiple of steps_per_epoch={steps}. Received: initial_step={initial_step}."
        )
    if not uses_tensorflow():
        options = {"steps": steps, "first_step": initial_step, "seed": seed}
        return DrawnBatches(sampler, labels, source.read, prepare, **options)
    step = tf.Variable(initial_step, dtype=tf.int64, trainable=False)
    options = {"seed": seed, "step": step, "steps_per_epoch": steps, "read": source.read}
    batches = training_batches(Split(np.arange(len(labels)), labels), sampler, prepare, **options)

    # The steps are counted with the last batch, because Keras does not request another batch after it.
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
                "transform=None leaves arrays unchanged, so it does not work with image files or with the arguments "
                "backbone, mean, std, channels and image_size. Set a transform. To resize only, use transform='warp'."
            )
        return lambda image, seed: image
    if backbone is None:
        if mean is None or std is None:
            raise ValueError(
                "The pixel scaling is missing. Pass backbone=..., or mean=... and std=.... To keep pixels from 0 to "
                "255, use mean=(0, 0, 0) and std=(1, 1, 1)."
            )
        about = {**scaling(mean, std), "channels": channels or "rgb"}
    elif scaled:
        raise ValueError(
            "backbone cannot be combined with mean, std or channels. Expected one or the other. Received both."
        )
    else:
        declared = declared_by(backbone)
        if not {"mean", "std"} <= declared.keys():
            raise ValueError(
                f"{backbone!r} does not declare its pixel scaling. Pass mean=... and std=... instead, or use a "
                "backbone that does, such as tfdml.backbones.KerasApplication('ResNet50')."
            )
        about, image_size = preprocessing_of(backbone), image_size or declared.get("image_size")
    if image_size is None:
        raise ValueError("image_size is missing, because no backbone declares it. Pass image_size=... in pixels.")
    prepare = Preprocessor(transform, image_size=image_size, **about)
    if source.encoded:
        return prepare
    for row in np.linspace(0, count - 1, LOOKED_AT).astype(int):
        reason = why_no_pixels(np.asarray(source.read(tf.constant(row, tf.int64))), row)
        if reason:
            raise ValueError(f"{reason} Pass unscaled images, or transform=None, which leaves images unchanged.")
    return prepare.from_pixels


# Number of views to compare. A transform that changes half of the images almost certainly changes one of them.
VIEWS = 16
SIDE = 64


def check_views(preprocessor, name):
    """Raises a ValueError with the `name` of the transform if it is not random, because all views would be equal.

    `preprocessor` is a `Preprocessor`, or another function `(image or contents, seed) -> image` with `from_pixels`.
    """
    image = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    seeds = [tf.constant([0, number], tf.int64) for number in range(VIEWS)]
    first, *others = (preprocessor.from_pixels(image, seed) for seed in seeds)
    if all(np.array_equal(first, other) for other in others):
        raise ValueError(
            f"{name} is not random, so all views of an image are equal. Use a random transform, such as "
            "'random_resized_crop(area=(0.2, 1.0))|flip|color_jitter'."
        )


@declared
def pxk(
    images: Images | Callable[[Tensor], Tensor],
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
) -> Batches:
    """Creates P×K batches: `classes` classes with `per_class` images each, for losses that compare images.

    Pair-based losses, such as `tfdml.losses.Triplet`, need several images of each class in a batch, which a shuffled
    dataset does not guarantee. Elsewhere such batches are called PK sampling or `MPerClassSampler`.

    A batch depends only on the seed and the step. Every class is drawn once before any class is drawn twice, and so
    are the images of a class. One pass over the dataset is an epoch, and the next pass continues after it.

    Args:
        images: N images, as one of:
            - a list of paths. Files are read when they are needed.
            - an array `[N, height, width, 3]`, or a list of arrays or of file contents. They are kept in memory.
            - a function of a row number (int64 tensor) that returns an image or the contents of its file.
            - a `tf.data.Dataset` of (image, label), batched or not. It is read once and kept in memory, because any
              image may be needed at any time. It must not shuffle if a resumed training should see the same batches.

            Pixels in arrays are from 0 to 255.
        labels: `[N]` integers or strings. Batches contain integers unchanged, and strings as their index in
            `np.unique(labels)`. Must be `None` if `images` is a dataset. Defaults to `None`.
        classes: Integer of at least 2. Number of classes per batch. Images of a single class would have no negatives.
            Defaults to `8`.
        per_class: Integer of at least 2. Number of images per class. A class with fewer images repeats them, and a
            class with a single image is skipped. Defaults to `4`.
        backbone: A tfdml backbone, or a model with one, which declares its pixel scaling and its image size. Pass it
            instead of `mean`, `std` and `channels`. Defaults to `None`.
        mean, std: One number per channel. Images are `(pixels - mean) / std`. To keep pixels from 0 to 255, use
            `mean=(0, 0, 0), std=(1, 1, 1)`. Default to `None`.
        channels: `"rgb"` or `"bgr"`. Order of the channels in the output, in `mean` and in `std`. If `None`, the order
            is the backbone's order, or `"rgb"` without a backbone. Defaults to `None`.
        image_size: Size of the output images in pixels: the side of a square, or `(height, width)`. If `None`, the
            backbone's image size is used. Defaults to `None`.
        transform: Chain of transforms, as in `--train_transform`. If `None`, images are neither resized nor scaled and
            may have any shape. Defaults to `"random_resized_crop(area=(0.5, 1.0))|flip"`.
        steps_per_epoch: Integer or `None`. Number of batches per epoch. If `None`, it is N divided by the batch size.
            Defaults to `None`.
        initial_step: Integer. Number of training steps that were already done, a multiple of `steps_per_epoch`. For a
            loaded model, pass `int(model.optimizer.iterations)`, times `gradient_accumulation_steps` if gradients are
            accumulated. Defaults to `0`.
        seed: Integer. Determines the batches and the random transforms. Defaults to `0`.

    Returns:
        A `tf.data.Dataset` of `steps_per_epoch` batches `(images, labels)`: float32
        `[classes * per_class, height, width, 3]` and int64 `[classes * per_class]`.

    Raises:
        ValueError: If the training images have fewer than `classes` classes with at least two images.

    Example:

    ```python
    images = np.random.default_rng(0).integers(0, 256, (12, 32, 32, 3), "uint8")
    labels = np.repeat(["cup", "hat", "tie"], 4)
    batches = tfdml.data.pxk(
        images, labels, classes=2, per_class=3, mean=(0, 0, 0), std=(255, 255, 255), image_size=24
    )
    batch, batch_labels = next(iter(batches))
    batch.shape  # (6, 24, 24, 3)
    len(set(batch_labels.numpy().tolist()))  # 2
    ```

    Train on the batches with `model.fit(batches, epochs=10, shuffle=False)`.
    """
    source, labels = _source_and_labels(images, labels)
    prepare = prepared_by(source, len(labels), backbone, mean, std, channels, image_size, transform)
    sampler = PxK(classes, per_class)
    return drawn_batches(source, labels, sampler, prepare, steps_per_epoch, initial_step, seed)


@declared
def views(
    images: Images | Callable[[Tensor], Tensor],
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
) -> Batches:
    """Creates batches with two augmented views of each image, for self-supervised learning without labels.

    A batch contains `batch_images` images, followed by the same images with another random transform. Use it with a
    pair-based loss, which then treats the two views of an image as a positive pair. A batch depends only on the seed
    and the step. Every image is drawn once before any image is drawn twice.

    Args:
        images: N images, as in `pxk`, except that a `tf.data.Dataset` is not accepted.
        batch_images: Integer of at least 2. Number of different images per batch. The batch has twice as many rows.
            Defaults to `64`.
        count: Integer or `None`. The number N of images. Only needed if `images` is a function. Defaults to `None`.
        backbone, mean, std, channels, image_size: See `pxk`.
        transform: Chain of transforms, as in `--train_transform`. At least one of them must be random. Defaults to
            `"random_resized_crop(area=(0.2, 1.0))|flip|color_jitter"`.
        steps_per_epoch, initial_step, seed: See `pxk`.

    Returns:
        A `tf.data.Dataset` of `steps_per_epoch` batches `(images, numbers)`: float32
        `[2 * batch_images, height, width, 3]` and int64 `[2 * batch_images]`, the index of each image.

    Raises:
        ValueError: If `transform` is not random, or if there are fewer than `batch_images` images.

    Example:

    ```python
    images = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3), "uint8")
    batches = tfdml.data.views(images, batch_images=4, mean=(0, 0, 0), std=(255, 255, 255), image_size=24)
    batch, numbers = next(iter(batches))
    batch.shape  # (8, 24, 24, 3)
    bool((numbers[:4] == numbers[4:]).numpy().all())  # True
    ```
    """
    if is_tensorflow_dataset(images):
        raise ValueError(
            "images cannot be a tf.data.Dataset here. Expected paths, arrays or contents of files. Pass list(dataset) "
            "if its elements are images."
        )
    source, count = _source_and_count(images, count)
    prepare = prepared_by(source, count, backbone, mean, std, channels, image_size, transform)
    check_views(prepare if source.encoded else prepare.__self__, f"transform={transform!r}")
    sampler = Views(batch_images)
    return drawn_batches(source, np.arange(count), sampler, prepare, steps_per_epoch, initial_step, seed)


@declared
def in_order(
    images: Images | Callable[[Tensor], Tensor],
    *,
    count: Count | None = None,
    backbone: keras.Model | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    channels: ChannelOrder | None = None,
    image_size: ImageSize | None = None,
    transform: str | None = "resize_short|center_crop",
    batch_size: Count = 128,
) -> Batches:
    """Creates batches of all images in order, for `model.predict` and `tfdml.callbacks.RetrievalEvaluation`.

    Every batch is full, because the last one repeats the last image. Use only the first N rows of the model's output.

    Args:
        images: N images, as in `pxk`.
        count: Integer or `None`. The number N of images. Only needed if `images` is a function. Defaults to `None`.
        backbone, mean, std, channels, image_size: See `pxk`.
        transform: Chain of transforms, as in `--test_transform`. If `None`, images are neither resized nor scaled.
            Defaults to `"resize_short|center_crop"`.
        batch_size: Integer. Number of images per batch. Defaults to `128`.

    Returns:
        A `tf.data.Dataset` of images, float32 `[batch_size, height, width, 3]`.

    Example:

    ```python
    images = np.random.default_rng(0).integers(0, 256, (5, 32, 48, 3), "uint8")
    batches = tfdml.data.in_order(images, mean=(0, 0, 0), std=(255, 255, 255), image_size=24, batch_size=2)
    [tuple(batch.shape) for batch in batches]  # [(2, 24, 24, 3), (2, 24, 24, 3), (2, 24, 24, 3)]
    ```
    """
    if is_tensorflow_dataset(images):
        images, _ = read_dataset(images)
    source, count = _source_and_count(images, count)
    prepare = prepared_by(source, count, backbone, mean, std, channels, image_size, transform)
    rows = Split(np.arange(count), np.zeros(count, np.int64))
    return evaluation_batches(rows, prepare, batch_size=batch_size, read=source.read)


def _source_and_count(images, count):
    source = source_of(images)
    count = source.count or count
    if count is None:
        raise ValueError("count is missing. Pass the number of rows for which the function `images` returns an image.")
    return source, count


def _source_and_labels(images, labels):
    """Returns the `Source` of the images and their integer class labels `[N]`."""
    if is_tensorflow_dataset(images):
        if labels is not None:
            raise ValueError(
                "labels must be None if images is a tf.data.Dataset, because its elements are (image, label)."
            )
        images, labels = read_dataset(images)
    if labels is None:
        raise ValueError("labels is missing. Pass one label per image.")
    source, labels = source_of(images), class_numbers(labels)
    if source.count not in (None, len(labels)):
        raise ValueError(f"Expected one label per image. Received: {source.count} images and {len(labels)} labels.")
    return source, labels
