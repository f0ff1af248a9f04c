"""Keras preprocessing layers as transforms, and transforms that are applied with a probability."""

import contextlib
import functools
import importlib
import inspect
import numbers
import random
import re
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pipelines.checks import MOST_PIXELS
from pipelines.images.decoding import cold_path
from tfdml.registry import register
from tfdml.registry.arguments import MOST_SIDE, ImageStep, Text, nearest
from tfdml.registry.parts import parameters_of

# Operations with these prefixes draw from their own state, or run Python, each time a graph runs.
UNSEEDED = (
    "EagerPyFunc",
    "Multinomial",
    "ParameterizedTruncatedNormal",
    "PyFunc",
    "Random",
    "Rng",
    "Stateful",
    "TruncatedNormal",
)
# These call functions, whose operations are checked themselves.
CALLS = ("StatefulPartitionedCall",)


@contextlib.contextmanager
def drawing_from(seed):
    """While a graph is built, makes all random numbers of Keras and TensorFlow in it depend on this seed, `[2]`.

    Keras' layers draw with `SeedGenerator`, those of keras-cv with `tf.random` and `tf.random.Generator`, whose state
    is lost when a run is resumed.
    """
    number = 0

    def next_seed():
        nonlocal number
        number += 1
        return tf.random.experimental.stateless_fold_in(seed, number)

    @tf.autograph.experimental.do_not_convert
    def uniform(shape, minval=0, maxval=None, dtype=tf.float32, seed=None, name=None):
        del seed
        return tf.random.stateless_uniform(shape, next_seed(), minval, maxval, dtype, name)

    @tf.autograph.experimental.do_not_convert
    def normal(shape, mean=0.0, stddev=1.0, dtype=tf.float32, seed=None, name=None):
        del seed
        return tf.random.stateless_normal(shape, next_seed(), mean, stddev, dtype, name)

    replaced = [
        (keras.random.SeedGenerator, "next", lambda generator, ordered=True: next_seed()),
        (tf.random, "uniform", uniform),
        (tf.random, "normal", normal),
        (tf.random.Generator, "uniform", _without_first(uniform)),
        (tf.random.Generator, "normal", _without_first(normal)),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, function in replaced:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, function)
        yield


def unseeded_operations(graph):
    """Returns the operations of a graph, and of the functions in it, that draw from their own state."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return sorted({node.op for node in nodes if node.op.startswith(UNSEEDED) and node.op not in CALLS})


def _without_first(function):
    return functools.wraps(function)(lambda generator, *arguments, **named: function(*arguments, **named))


def _python_state():
    return random.getstate(), np.random.get_state()[1].tobytes(), np.random.get_state()[2]


# These mix images of a batch and their labels.
MIXING = ("CutMix", "FourierMix", "MixUp", "Mosaic")
# Parts of Keras and keras-cv whose layers compute on images alone. A spec may be from a file that somebody sent, which
# must not read files or run code, as TFSMLayer and Lambda do.
ALLOWED = ("preprocessing.image_preprocessing", "preprocessing.rescaling", "preprocessing.normalization")
ALLOWED += ("regularization", "pooling", "reshaping")
PACKAGES = {"keras": ALLOWED, "keras_cv": ("preprocessing",), "keras_hub": (), "keras_nlp": (), "tfdml": ()}
# Of a layer's other arguments none is above `MOST_SIDE`: many are sizes.
OF_PIXELS = ("mean", "variance", "scale", "offset")
LAST = "channels_last"
# Layers that take so many times the memory of others, up to 50 MB for a megapixel: they count 256 levels of each pixel,
# or move it in many steps. Their images are so many times smaller at most.
HEAVY = {"ContrastLimitedAdaptiveHistogramEqualization": 64, "RandomElasticTransform": 4}
HEAVY |= {"Equalization": 2, "RandAugment": 2}
# Arguments that the step sets.
OURS = {"dtype": "Pixels are float32", "seed": "The run's --seed decides what is drawn", "name": "A step has no name"}


@register("transform", "layer")
def layer(name: Text, /, **arguments: Any) -> ImageStep:
    """A preprocessing layer of Keras or keras-cv, such as `layer('RandomHue', factor=0.2)`, with the layer's arguments.

    The layer receives one image at a time, pixels from 0 to 255; its random numbers depend on `--seed` and on the place
    of the image in the run. Results are clipped to 0 and 255. Layers with weights or other state are an error, and so
    are images of more than 100 megapixels, before a layer or after it, or fewer where a layer takes much memory.

    Args:
        name: name of a class in `keras.layers`, or else in `keras_cv.layers`, that changes images alone;
            `'keras_cv.RandomHue'` where both have one; or the name by which
            `keras.saving.register_keras_serializable` registers your own layer.
        **arguments: arguments of the layer. `value_range` is (0, 255) where the layer needs one.
    """
    written = f"layer({name!r})"
    made = _made(written, _class_of(name), arguments)
    made.build((None, None, None, 3))
    _refuse_weights(written, made)
    compiled = tf.function(lambda image, seed: _drawn(written, made, image, seed), autograph=False)

    def step(image, seed):
        specs = tf.TensorSpec(image.shape, tf.float32), tf.TensorSpec([2], seed.dtype)
        graph = compiled.get_concrete_function(*specs)
        unseeded = unseeded_operations(graph.graph)
        if unseeded:
            raise ValueError(
                f"{written} draws from a state of its own ({', '.join(unseeded)}): a run that goes on would see other "
                "images. Expected draws by keras.random with a SeedGenerator, or by tf.random.uniform or normal."
            )
        return graph(image, seed)

    return step


def _drawn(written, made, image, seed):
    most = MOST_PIXELS // HEAVY.get(type(made).__name__, 1)
    image = _bounded(written, most, image, functools.partial(_most_pixels, made))
    # keras-cv's layers need AutoGraph, which only a separate function enables here.
    call = tf.function(lambda images: made(images, training=True))
    before = _python_state()
    with drawing_from(seed):
        try:
            images = call(image[None])
        except Exception as error:
            # Keras prints the reason in bold, inside a description of the call.
            bold = re.search(r"\x1b\[1m(.+?)\x1b\[0m", str(error), re.DOTALL)
            reason = " ".join((bold[1] if bold else str(error).strip().splitlines()[-1]).split())
            raise ValueError(f"{written} fails on an image of shape {tuple(image.shape)}: {reason}") from error
    if _python_state() != before:
        raise ValueError(
            f"{written} draws random numbers with Python: once, and not for each image, and independent of the seed."
        )
    _refuse_weights(written, made)
    if not (tf.is_tensor(images) and images.shape.rank == 4 and images.shape[0] == 1 and images.shape[3] == 3):
        shape = images.shape if tf.is_tensor(images) else type(images).__name__
        raise ValueError(f"{written} makes {shape} of a batch of one image; expected (1, height, width, 3).")
    result = _bounded(written, most, images[0], lambda height, width, largest: height * width)
    return tf.clip_by_value(tf.cast(result, tf.float32), 0.0, 255.0)


def _bounded(written, most, image, pixels_of):
    """Returns an image after checking its pixels: layers may enlarge it again and again, until it fills memory.

    `pixels_of` is a function of its height and width, and of a function that returns the larger of two numbers; there
    may be `most` pixels.
    """
    message = f"{written} expects and makes images of at most {most:,} pixels, received or would make more:"
    if image.shape[:2].is_fully_defined():
        # At once, because operations that make constants would not wait for a check in the graph.
        pixels = pixels_of(*image.shape[:2].as_list(), max)
        if pixels > most:
            raise ValueError(f"{message} {pixels:,}.")
        return image
    # Not integers, which would overflow.
    pixels = pixels_of(*tf.unstack(tf.cast(tf.shape(image)[:2], tf.float64)), tf.maximum)
    with tf.control_dependencies([tf.raw_ops.Assert(condition=pixels <= most, data=[message, pixels])]):
        return tf.identity(image)


def _most_pixels(made, height, width, largest):
    """Returns the pixels of the largest image that a layer of Keras makes of one of this size, or the image's own."""
    pixels = height * width
    if isinstance(made, keras.layers.ZeroPadding2D | keras.layers.UpSampling2D):
        _, rows, columns, _ = made.compute_output_shape((1, height, width, 3))
        pixels = largest(pixels, rows * columns)
    if isinstance(made, keras.layers.Resizing) and made.pad_to_aspect_ratio:
        # Keras pads the image first, and then resizes it.
        rows, columns = width * made.height // made.width, height * made.width // made.height
        pixels = largest(height, rows) * largest(width, columns)
    return pixels


def _class_of(name):
    package, _, short = name.rpartition(".")
    kind = None
    if package in ("", "keras"):
        kind = vars(keras.layers).get(short) or keras.saving.get_registered_object(short)
    if package in ("", "keras_cv") and kind is None:
        layers = _keras_cv_layers()
        kind = vars(layers).get(short) if layers else None
    if not (inspect.isclass(kind) and issubclass(kind, keras.layers.Layer)):
        known = _known_layers()
        missing = "" if _keras_cv_layers() else " keras-cv is not installed; it is the extra keras-cv."
        raise ValueError(f"Unknown layer {name!r}.{nearest(short, known)} Keras has {', '.join(known)}.{missing}")
    parts = _parts_of_package(kind)
    # Of the user's own classes, which are registered, a spec may name all.
    if parts is not None and not any(f".layers.{part}." in f"{kind.__module__}." for part in parts):
        raise ValueError(
            f"layer({name!r}) is no layer that changes images alone, and a transform takes no other: its spec may be "
            f"from a file. Expected one of {', '.join(_known_layers())}, or a layer of your own, registered by "
            "keras.saving.register_keras_serializable."
        )
    if short in MIXING:
        raise ValueError(
            f"layer({name!r}) mixes images of a batch and their labels, which metric learning cannot: an image has "
            "one class."
        )
    return kind


def _made(written, kind, arguments):
    """Creates the layer, after checking the names of its arguments, and the sizes if it is not the user's own."""
    is_own = _parts_of_package(kind) is None
    parameters = parameters_of(kind)
    for name, value in arguments.items():
        if name in OURS:
            raise ValueError(f"{OURS[name]}: leave {name} out of {written}.")
        if name not in parameters:
            others = [other for other in parameters if other not in OURS]
            listed = ", ".join(others) or "none"
            raise ValueError(f"{written} takes no argument {name!r}.{nearest(name, others)} Its arguments: {listed}.")
        if not is_own and name not in OF_PIXELS and (largest := _largest(value)) > MOST_SIDE:
            raise ValueError(f"{written} expects {name} of at most {MOST_SIDE}, received {largest}.")
    if not is_own and arguments.get("data_format", LAST) != LAST:
        raise ValueError(f"{written} expects images with their channels last. Remove data_format.")
    range_needed = "value_range" in parameters and parameters["value_range"].default is inspect.Parameter.empty
    offered = {"value_range": (0, 255)} if range_needed else {}
    # Keras' own default may be another one.
    offered |= {"data_format": LAST} if not is_own and "data_format" in parameters else {}
    try:
        return kind(**{**offered, **arguments}, dtype="float32")
    except (TypeError, ValueError) as error:
        raise ValueError(f"Cannot make {written} of {arguments}: {' '.join(str(error).split())}") from error


def _largest(value):
    """Returns the largest number in a value of a spec, 0 where there is none above."""
    if isinstance(value, dict | list | tuple | set):
        return max(map(_largest, value.values() if isinstance(value, dict) else value), default=0)
    return value if isinstance(value, numbers.Real) else 0


def _refuse_weights(written, made):
    if made.weights:
        raise ValueError(
            f"{written} has weights of its own ({', '.join(weight.name for weight in made.weights)}), which no "
            "checkpoint of the run would hold. Expected a layer without."
        )


def _keras_cv_layers():
    """Returns the module, or None if keras-cv is not installed."""
    try:
        return importlib.import_module("keras_cv").layers
    except ModuleNotFoundError:
        return None


def _known_layers():
    """Returns the names of Keras' layers of image preprocessing."""
    kinds = {name: kind for name, kind in sorted(vars(keras.layers).items()) if inspect.isclass(kind)}
    return [name for name, kind in kinds.items() if "image_preprocessing" in kind.__module__ and name not in MIXING]


def _parts_of_package(kind):
    """Returns the parts of Keras or keras-cv that a spec may name, or `()`; None of a class of the user's own."""
    return PACKAGES.get(kind.__module__.partition(".")[0])


def with_probability(probability, step):
    """Returns a step `(image, seed) -> image` that applies another with this probability; the shape must stay."""
    if probability == 1:
        return step
    # Costs nothing for images that stay as they are.
    changed = cold_path(tf.TensorSpec([None, None, 3], tf.float32), tf.TensorSpec([2], tf.int32))(step)

    def maybe(image, seed):
        step_seed = tf.random.experimental.stateless_fold_in(seed, 1)
        drawn = tf.random.stateless_uniform([], seed) < probability
        return tf.ensure_shape(tf.cond(drawn, lambda: changed(image, step_seed), lambda: image), image.shape)

    return maybe


def first_fitting(height, width, seed, *, area, aspect, otherwise):
    """Returns a random window, top, left, height and width: the first of ten candidates that fits into the image.

    Args:
        height, width: of the image, float32 scalars.
        seed: `[2]` int64.
        area: lowest and highest fraction of the image.
        aspect: lowest and highest width by height; it is drawn on a logarithmic scale.
        otherwise: height and width where none fits.
    """
    uniform = tf.random.stateless_uniform([4, 10], seed)
    pixels = height * width * (area[0] + uniform[0] * (area[1] - area[0]))
    ratio = tf.exp(np.log(aspect[0]) + uniform[1] * np.log(aspect[1] / aspect[0]))
    heights, widths = tf.round(tf.sqrt(pixels / ratio)), tf.round(tf.sqrt(pixels * ratio))
    fits = (heights >= 1) & (heights <= height) & (widths >= 1) & (widths <= width)
    first = tf.argmax(tf.cast(tf.concat([fits, [True]], 0), tf.int32))
    rows, columns = tf.concat([heights, [otherwise[0]]], 0)[first], tf.concat([widths, [otherwise[1]]], 0)[first]
    return placed(height, width, rows, columns, uniform[2:, 0])


def placed(height, width, rows, columns, uniform):
    """Returns the window of `rows` × `columns` at the place that two uniform numbers name."""
    top, left = tf.floor(uniform[0] * (height - rows + 1)), tf.floor(uniform[1] * (width - columns + 1))
    return top, left, rows, columns


def centered(height, width, rows, columns):
    """Returns the window of `rows` × `columns` at the center."""
    return tf.floor((height - rows) / 2), tf.floor((width - columns) / 2), rows, columns


def padded(image, sides):
    """Returns the image, no larger than `sides`, in the middle of a black one of these."""
    missing = tf.constant(sides) - tf.shape(image)[:2]
    before = missing // 2
    margins = tf.stack([before, missing - before], axis=1)
    return tf.ensure_shape(tf.pad(image, tf.concat([margins, [[0, 0]]], 0)), [*sides, 3])
