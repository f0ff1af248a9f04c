"""Batches of your own images for `model.fit` and `model.predict`, scaled as the backbone wants them."""

import numpy as np
import tensorflow as tf

from pipelines.build import as_it_is, evaluation_batches, training_batches
from pipelines.preprocessor import Preprocessor
from pipelines.reading.sources import Rows, class_numbers, read_dataset, source_of
from pipelines.sampling import PxK

# Images whose pixels are looked at beforehand.
LOOKED_AT = 8


def pxk(
    images,
    labels=None,
    *,
    classes=8,
    per_class=4,
    backbone=None,
    mean=None,
    std=None,
    channels="rgb",
    image_size=None,
    transform="random_resized_crop(area=(0.5, 1.0))|flip",
    steps_per_epoch=None,
    initial_step=0,
    seed=0,
):
    """Batches of `classes` classes with `per_class` images each, for losses that compare images with each other.

    A batch is a function of the seed and the number of the step. Every class comes once before any comes twice, and so
    do the images of a class. A complete pass over the dataset is an epoch; the next pass goes on where it ended.

    Args:
        images: N images, as one of:
            - a list of paths. Files are read when they are needed.
            - an array `[N, height, width, 3]`, or a list of arrays or of files' contents. They stay in memory.
            - a function of a row number (int64 tensor) that gives an image, or the contents of its file.
            - a `tf.data.Dataset` of (image, label), batched or not. It is read once and kept in memory, because any
              image may be needed at any time. It must not shuffle if training is to go on later with the same batches.

            Pixels of images that are not in files go from 0 to 255.
        labels: `[N]` integers or texts. Batches have integers as they are, and of texts their place in
            `np.unique(labels)`. None where `images` is a dataset.
        classes: different classes in a batch.
        per_class: images of each, 2 or more. A class with fewer repeats them; one with a single image is left out.
        backbone: what says how pixels are scaled: a backbone of tfdml, or a model made of one.
        mean, std: numbers for each channel, in place of `backbone`: images are `(pixels - mean) / std`.
            `mean=(0, 0, 0), std=(1, 1, 1)` leaves pixels from 0 to 255.
        channels: "rgb" or "bgr", the order of the result's channels and of `mean` and `std`.
        image_size: side of the square images that result; the backbone's own if None.
        transform: chain of transforms, as `--train_transform` takes it. None leaves images as they are, neither resized
            nor scaled; they may then have any shape.
        steps_per_epoch: batches in a pass; if None, N divided by the size of a batch.
        initial_step: steps that were taken before, a multiple of `steps_per_epoch`. For a loaded model it is
            `int(model.optimizer.iterations)`.
        seed: decides batches and random transforms.

    Returns:
        A `tf.data.Dataset` of `steps_per_epoch` batches `(images, labels)`, float32
        `[classes * per_class, image_size, image_size, 3]` and int64 `[classes * per_class]`.

    Example:

    ```python
    batches = tfdml.data.pxk(paths, labels, classes=8, per_class=4, backbone=model)
    model.fit(batches, epochs=10)
    ```
    """
    source, labels = _source_and_labels(images, labels)
    prepare = _preprocessor(source, len(labels), backbone, mean, std, channels, image_size, transform)
    sampler = PxK(classes, per_class)
    sampler.bind(labels)
    steps = steps_per_epoch or max(len(labels) // sampler.batch_size, 1)
    if initial_step % steps:
        raise ValueError(f"Expected initial_step as a multiple of steps_per_epoch={steps}, received {initial_step}.")
    step = tf.Variable(initial_step, dtype=tf.int64, trainable=False)
    options = {"seed": seed, "step": step, "steps_per_epoch": steps, "read": source.read}
    batches = training_batches(Rows(len(labels), labels), sampler, prepare, **options)

    # With the last batch and not after it: Keras does not ask for more than there are.
    def counting(number, batch):
        counted = step.assign_add(tf.where(number == steps - 1, tf.constant(steps, tf.int64), 0), read_value=False)
        with tf.control_dependencies([counted]):
            return tf.nest.map_structure(tf.identity, batch)

    return batches.enumerate().map(as_it_is(counting))


def in_order(
    images,
    *,
    count=None,
    backbone=None,
    mean=None,
    std=None,
    channels="rgb",
    image_size=None,
    transform="resize_short|center_crop",
    batch_size=128,
):
    """Batches of all images in their order, for `model.predict` and `tfdml.callbacks.RetrievalEvaluation`.

    Every batch is full: the last one repeats the last image. Of what a model gives take the first N rows.

    Args:
        images: as `pxk` takes them.
        count: N, where `images` is a function of a row.
        backbone, mean, std, channels, image_size: as `pxk` takes them.
        transform: chain of transforms, as `--test_transform` takes it. None leaves images as they are.
        batch_size: images in a batch.

    Returns:
        A `tf.data.Dataset` of images, float32 `[batch_size, image_size, image_size, 3]`.
    """
    if isinstance(images, tf.data.Dataset):
        images, _ = read_dataset(images)
    source = source_of(images)
    count = source.count or count
    if count is None:
        raise ValueError("count is missing: how many images the function of a row gives.")
    prepare = _preprocessor(source, count, backbone, mean, std, channels, image_size, transform)
    return evaluation_batches(Rows(count), prepare, batch_size=batch_size, read=source.read)


def _source_and_labels(images, labels):
    """The `Source` of the images, and class numbers `[N]`."""
    if isinstance(images, tf.data.Dataset):
        if labels is not None:
            raise ValueError("Expected no labels beside a dataset, which has them beside its images.")
        images, labels = read_dataset(images)
    if labels is None:
        raise ValueError("labels is missing: one for each image.")
    source, labels = source_of(images), class_numbers(labels)
    if source.count not in (None, len(labels)):
        raise ValueError(f"Expected one label an image, received {source.count} images and {len(labels)} labels.")
    return source, labels


def _preprocessor(source, count, backbone, mean, std, channels, image_size, transform):
    """The function `(image or contents, seed) -> image`."""
    if transform is None:
        if source.encoded or any(given is not None for given in (backbone, mean, std, image_size)):
            raise ValueError(
                "transform=None leaves arrays as they are. Files need a transform, and so do images that are "
                "scaled by backbone, mean, std or image_size; 'warp' resizes alone."
            )
        return lambda image, seed: image
    about, size = _declared(backbone, mean, std, channels)
    size = image_size or size
    if size is None:
        raise ValueError("image_size is missing: no backbone says for which size of images it was made.")
    prepare = Preprocessor(transform, image_size=size, **about)
    if source.encoded:
        return prepare
    for row in np.linspace(0, count - 1, LOOKED_AT).astype(int):
        _check_pixels(source.read(tf.constant(row, tf.int64)).numpy())
    return prepare.from_pixels


def _declared(backbone, mean, std, channels):
    """How pixels are scaled, and the size of images where a backbone says it."""
    if backbone is None:
        if mean is None or std is None:
            raise ValueError(
                "How pixels are scaled is missing: give backbone=..., or mean=... and std=..., of which (0, 0, 0) and "
                "(1, 1, 1) leave pixels from 0 to 255."
            )
        return {"mean": mean, "std": std, "channels": channels}, None
    if mean is not None or std is not None:
        raise ValueError("Expected backbone, or mean and std; received both.")
    declaring = backbone if hasattr(backbone, "std") else getattr(backbone, "backbone", None)
    if not hasattr(declaring, "std"):
        name = getattr(declaring or backbone, "name", backbone)
        raise ValueError(
            f"{name} does not say how pixels are scaled for it. Give mean=... and std=..., or take a backbone that does"
            ", such as tfdml.backbones.KerasApplication('ResNet50')."
        )
    return {name: getattr(declaring, name) for name in ("mean", "std", "channels")}, declaring.image_size


def _check_pixels(image):
    """Refuses images that are no pixels in colour, and those that are scaled already: they would be scaled twice."""
    if image.ndim != 3 or image.shape[-1] != 3:
        raise ValueError(
            f"Expected images of shape [height, width, 3], received {image.shape}. Repeat a grey image's channel, or "
            "give transform=None."
        )
    low, high = float(image.min()), float(image.max())
    if image.dtype.kind == "f" and (low < 0 or 0 < high <= 1):
        raise ValueError(
            f"Expected pixels from 0 to 255, received an image with {low:.3g} to {high:.3g}. Give images that are not "
            "scaled yet, or transform=None, which leaves them as they are."
        )
