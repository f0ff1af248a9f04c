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

from pipelines.checks import MOST_PIXELS
from pipelines.images.decoding import cold_path
from pipelines.operations import tf
from tfdml.registry import register
from tfdml.registry.arguments import MOST_SIDE, ImageStep, Text, nearest
from tfdml.registry.parts import parameters_of
from tfdml.runtime.backends import refuse_unless_tensorflow

# Operations with these prefixes draw from their own state or run Python each time a graph runs.
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
# These only call functions, which are checked themselves.
CALLS = ("StatefulPartitionedCall",)


@contextlib.contextmanager
def drawing_from(seed):
    """Context manager that makes all random numbers of Keras and TensorFlow in a new graph depend on a seed `[2]`.

    Keras layers use `SeedGenerator`, and keras-cv layers use `tf.random` and `tf.random.Generator`. Their state would
    be lost when a run is resumed.
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
    """Returns the operations of a graph and its functions that draw from their own state."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return sorted({node.op for node in nodes if node.op.startswith(UNSEEDED) and node.op not in CALLS})


def _without_first(function):
    return functools.wraps(function)(lambda generator, *arguments, **named: function(*arguments, **named))


def _python_state():
    return random.getstate(), np.random.get_state()[1].tobytes(), np.random.get_state()[2]


# These layers mix the images of a batch and their labels.
MIXING = ("CutMix", "FourierMix", "MixUp", "Mosaic")
# Packages of Keras and keras-cv with layers that only process images. A spec can come from a file that somebody sent,
# so it must not read files or run code, as TFSMLayer and Lambda do.
ALLOWED = ("preprocessing.image_preprocessing", "preprocessing.rescaling", "preprocessing.normalization")
ALLOWED += ("regularization", "pooling", "reshaping")
PACKAGES = {"keras": ALLOWED, "keras_cv": ("preprocessing",), "keras_hub": (), "keras_nlp": (), "tfdml": ()}
# These arguments of layers can have any value. All others are at most `MOST_SIDE`, because many of them are sizes.
OF_PIXELS = ("mean", "variance", "scale", "offset")
LAST = "channels_last"
# Layers that need this many times the memory of other layers, up to 50 MB per megapixel, because they count 256 levels
# of each pixel or move it in many steps. The maximum size of their images is reduced by the same factor.
HEAVY = {"ContrastLimitedAdaptiveHistogramEqualization": 64, "RandomElasticTransform": 4}
HEAVY |= {"Equalization": 2, "RandAugment": 2}
# Arguments that the step sets, with the reason.
OURS = {"dtype": "Pixels are float32", "seed": "The run's --seed decides what is drawn", "name": "A step has no name"}


@register("transform", "layer")
def layer(name: Text, /, **arguments: Any) -> ImageStep:
    """Applies a Keras or keras-cv preprocessing layer, for example `layer('RandomHue', factor=0.2)`.

    The layer receives one image at a time, with pixels from 0 to 255. Its random numbers depend on `--seed` and on the
    position of the image in the run. Results are clipped to 0 to 255. Layers with weights or other state raise an
    error, and so do images with more than 100 megapixels before or after the layer. The limit is lower for layers that
    need much memory.

    Args:
        name: Name of a class in `keras.layers`, or else in `keras_cv.layers`, which must only process images. If both
            have one, use `'keras_cv.RandomHue'` for the second. Or the name under which
            `keras.saving.register_keras_serializable` registers your own layer.
        **arguments: Arguments of the layer. If the layer needs a `value_range`, it is (0, 255).
    """
    written = f"layer({name!r})"
    refuse_unless_tensorflow(f"The transform {written}", "Use another transform")
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
                f"{written} draws random numbers from its own state ({', '.join(unseeded)}), so a resumed run would "
                "see different images. Use keras.random with a SeedGenerator, tf.random.uniform or tf.random.normal in "
                "the layer."
            )
        return graph(image, seed)

    return step


def _drawn(written, made, image, seed):
    most = MOST_PIXELS // HEAVY.get(type(made).__name__, 1)
    image = _bounded(written, most, image, functools.partial(_most_pixels, made))
    # keras-cv layers need AutoGraph, which only a separate function enables here.
    call = tf.function(lambda images: made(images, training=True))
    before = _python_state()
    with drawing_from(seed):
        try:
            images = call(image[None])
        except Exception as error:
            # Keras puts the reason in bold type inside a description of the call.
            bold = re.search(r"\x1b\[1m(.+?)\x1b\[0m", str(error), re.DOTALL)
            reason = " ".join((bold[1] if bold else str(error).strip().splitlines()[-1]).split())
            raise ValueError(f"{written} fails for an image of shape {tuple(image.shape)}: {reason}") from error
    if _python_state() != before:
        raise ValueError(
            f"{written} draws random numbers in Python, so they are drawn only once and do not depend on the seed. Use "
            "keras.random with a SeedGenerator in the layer."
        )
    _refuse_weights(written, made)
    if not (tf.is_tensor(images) and images.shape.rank == 4 and images.shape[0] == 1 and images.shape[3] == 3):
        shape = images.shape if tf.is_tensor(images) else type(images).__name__
        raise ValueError(
            f"{written} must return a batch of shape (1, height, width, 3) for one image. Received: {shape}."
        )
    result = _bounded(written, most, images[0], lambda height, width, largest: height * width)
    return tf.clip_by_value(tf.cast(result, tf.float32), 0.0, 255.0)


def _bounded(written, most, image, pixels_of):
    """Returns an image after checking its number of pixels, because a chain of layers could fill the memory.

    `pixels_of` is a function of its height and width, and of a function that returns the larger of two numbers. The
    limit is `most` pixels.
    """
    message = f"{written} works with images of at most {most:,} pixels, before and after it. Received or would make"
    if image.shape[:2].is_fully_defined():
        # This is checked at once, because operations that create constants would not wait for a check in the graph.
        pixels = pixels_of(*image.shape[:2].as_list(), max)
        if pixels > most:
            raise ValueError(f"{message} {pixels:,}.")
        return image
    # Integers would overflow.
    pixels = pixels_of(*tf.unstack(tf.cast(tf.shape(image)[:2], tf.float64)), tf.maximum)
    with tf.control_dependencies([tf.raw_ops.Assert(condition=pixels <= most, data=[message, pixels])]):
        return tf.identity(image)


def _most_pixels(made, height, width, largest):
    """Returns the number of pixels of the largest image that a Keras layer creates from an image of this size."""
    pixels = height * width
    if isinstance(made, keras.layers.ZeroPadding2D | keras.layers.UpSampling2D):
        _, rows, columns, _ = made.compute_output_shape((1, height, width, 3))
        pixels = largest(pixels, rows * columns)
    if isinstance(made, keras.layers.Resizing) and made.pad_to_aspect_ratio:
        # Keras first pads the image and then resizes it.
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
        missing = "" if _keras_cv_layers() else " The extra keras-cv, which has more layers, is not installed."
        raise ValueError(
            f"Unknown layer {name!r}.{nearest(short, known)} Expected one of Keras' {', '.join(known)}.{missing}"
        )
    parts = _parts_of_package(kind)
    # A spec can name all of the user's own classes that are registered.
    if parts is not None and not any(f".layers.{part}." in f"{kind.__module__}." for part in parts):
        raise ValueError(
            f"layer({name!r}) is not a layer that only processes images. Expected one of {', '.join(_known_layers())}, "
            "or your own layer, registered with keras.saving.register_keras_serializable."
        )
    if short in MIXING:
        raise ValueError(
            f"layer({name!r}) mixes images of a batch and their labels. Use another layer, because metric learning "
            "needs one class per image."
        )
    return kind


def _made(written, kind, arguments):
    """Creates the layer after checking the names of its arguments and, unless it is the user's own, its sizes."""
    is_own = _parts_of_package(kind) is None
    parameters = parameters_of(kind)
    for name, value in arguments.items():
        if name in OURS:
            raise ValueError(f"{OURS[name]}. Remove {name} from {written}.")
        if name not in parameters:
            others = [other for other in parameters if other not in OURS]
            listed = ", ".join(others) or "none"
            raise ValueError(f"{written} has no argument {name!r}.{nearest(name, others)} Its arguments are: {listed}.")
        if not is_own and name not in OF_PIXELS and (largest := _largest(value)) > MOST_SIDE:
            raise ValueError(f"{name} of {written} must be at most {MOST_SIDE}. Received: {name}={largest}.")
    if not is_own and arguments.get("data_format", LAST) != LAST:
        raise ValueError(f"{written} must use the data format channels_last. Remove data_format.")
    range_needed = "value_range" in parameters and parameters["value_range"].default is inspect.Parameter.empty
    offered = {"value_range": (0, 255)} if range_needed else {}
    # The user's Keras configuration may have another default.
    offered |= {"data_format": LAST} if not is_own and "data_format" in parameters else {}
    try:
        return kind(**{**offered, **arguments}, dtype="float32")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Cannot create {written} with the arguments {arguments}: {' '.join(str(error).split())}"
        ) from error


def _largest(value):
    """Returns the largest number in a value of a spec, or 0 without a positive number."""
    if isinstance(value, dict | list | tuple | set):
        return max(map(_largest, value.values() if isinstance(value, dict) else value), default=0)
    return value if isinstance(value, numbers.Real) else 0


def _refuse_weights(written, made):
    if made.weights:
        raise ValueError(
            f"{written} has weights ({', '.join(weight.name for weight in made.weights)}), which would not be saved in "
            "checkpoints. Use a layer without weights."
        )


def _keras_cv_layers():
    """Returns the module, or None if keras-cv is not installed."""
    try:
        return importlib.import_module("keras_cv").layers
    except ModuleNotFoundError:
        return None


def _known_layers():
    """Returns the names of Keras' image preprocessing layers."""
    kinds = {name: kind for name, kind in sorted(vars(keras.layers).items()) if inspect.isclass(kind)}
    return [name for name, kind in kinds.items() if "image_preprocessing" in kind.__module__ and name not in MIXING]


def _parts_of_package(kind):
    """Returns the packages of Keras or keras-cv that a spec can name, or `()`; None for the user's own class."""
    return PACKAGES.get(kind.__module__.partition(".")[0])


def with_probability(probability, step):
    """Returns a step that applies another step with this probability. The step must keep the shape of the image."""
    if probability == 1:
        return step
    # A cold path costs nothing for images that do not change.
    changed = cold_path(tf.TensorSpec([None, None, 3], tf.float32), tf.TensorSpec([2], tf.int32))(step)

    def maybe(image, seed):
        step_seed = tf.random.experimental.stateless_fold_in(seed, 1)
        drawn = tf.random.stateless_uniform([], seed) < probability
        return tf.ensure_shape(tf.cond(drawn, lambda: changed(image, step_seed), lambda: image), image.shape)

    return maybe


def first_fitting(height, width, seed, *, area, aspect, otherwise):
    """Returns a random window (top, left, height, width): the first of ten candidates that fits into the image.

    Args:
        height, width: Size of the image, float32 scalars.
        seed: `[2]` int64.
        area: Lowest and highest area, as a fraction of the image.
        aspect: Lowest and highest aspect ratio, width divided by height, drawn on a logarithmic scale.
        otherwise: Height and width of the window if no candidate fits.
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
    """Returns the window of `rows` × `columns` at the position determined by two uniform numbers."""
    top, left = tf.floor(uniform[0] * (height - rows + 1)), tf.floor(uniform[1] * (width - columns + 1))
    return top, left, rows, columns


def centered(height, width, rows, columns):
    """Returns the window of `rows` × `columns` at the center."""
    return tf.floor((height - rows) / 2), tf.floor((width - columns) / 2), rows, columns


def padded(image, sides):
    """Pads an image, which is no larger than `sides`, with black on all sides to this size."""
    missing = tf.constant(sides) - tf.shape(image)[:2]
    before = missing // 2
    margins = tf.stack([before, missing - before], axis=1)
    return tf.ensure_shape(tf.pad(image, tf.concat([margins, [[0, 0]]], 0)), [*sides, 3])
