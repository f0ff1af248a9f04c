"""Checks, metrics and arguments that the training steps of all methods share."""

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

import keras
import numpy as np
from keras import ops

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml.functional.checks import concrete
from tfdml.functional.distances import distances
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.functional.statistics import mean_of
from tfdml.heads import Head
from tfdml.layers.endpoints import Endpoints
from tfdml.registry.arguments import ModelArguments, instance, number
from tfdml.runtime.backends import tensorflow_if_used
from tfdml.runtime.keras_internals import as_raised, errors_as_raised, is_ours

tf = tensorflow_if_used()
# Errors of TensorFlow's operations.
OF_OPERATIONS = () if tf is None else (tf.errors.InvalidArgumentError,)
# The messages of tfdml's checks. TensorFlow's errors contain them somewhere in many lines.
_MESSAGES = set()


def message_of_check(text):
    """Registers the message of a check by `tf.debugging` for `plain_errors`, and returns it."""
    _MESSAGES.add(text)
    return text


def check(condition, text):
    """Raises an error with this text unless the condition, a boolean or a boolean scalar tensor, is True.

    Returns the operation in a TensorFlow graph, for `after`. A function that JAX compiles cannot raise an error.
    """
    if tf is not None and not isinstance(condition, bool):
        return tf.debugging.assert_equal(condition, True, message_of_check(text))
    known = condition if isinstance(condition, bool) else concrete(condition)
    if known is not None and not known:
        raise ValueError(text)
    return None


def after(checks, values):
    """Returns the values, which a TensorFlow graph computes only after these checks."""
    if tf is None:
        return values
    with tf.control_dependencies([each for each in checks if each is not None]):
        return tf.identity(values)


@contextlib.contextmanager
def plain_errors():
    """A context in which errors from tfdml have only their own message, without text from Keras and TensorFlow."""
    try:
        with errors_as_raised():
            yield
    except OF_OPERATIONS as error:
        message = next((text for text in _MESSAGES if text in error.message), None)
        if message is None:
            raise
        raise ValueError(message) from None


@contextlib.contextmanager
def images_explained(images):
    """A context for calling a network that explains its error if the images do not have four axes."""
    try:
        yield
    except (ValueError, RuntimeError, *OF_OPERATIONS) as error:
        is_array = ops.is_tensor(images) or isinstance(images, np.ndarray | keras.KerasTensor | keras.Variable)
        shape, raised = images.shape if is_array else None, as_raised(error)
        if is_ours(raised) or shape is None or len(shape) == 4:
            raise
        hint = "For a single image, pass image[None]. " if len(shape) == 3 and shape[-1] == 3 else ""
        reason = str(raised).partition("\n")[0]
        raise ValueError(
            "The network cannot process images of this shape. Expected images of shape [batch, height, width, 3]. "
            f"Received: images of shape {tuple(shape)}. {hint}The error of the network was: {reason}"
        ) from None


# These metrics have no value for a batch without such pairs, so the batch does not count.
DISTANCES = ("positive_distance", "negative_distance")
METRICS = ("loss", "gradient_norm", *DISTANCES, "active_anchors")


class Measures:
    """Means of metrics over an epoch. It is not a layer, so Keras does not save it with the model."""

    def __init__(self):
        self.means = {name: keras.metrics.Mean(name=name) for name in METRICS}

    def of_evaluation(self):
        """Returns the metrics that need no training step: all except the gradient norm."""
        return [mean for name, mean in self.means.items() if name != "gradient_norm"]

    def update(self, measured, rows, skips_infinite):
        """Adds the values of a batch with this number of rows and returns the means over rows.

        `measured` is a dictionary of scalars. Values that are not finite are ignored if `skips_infinite`.
        """
        for name, value in measured.items():
            counts = ops.logical_or(ops.isfinite(value), name not in DISTANCES and not skips_infinite)
            weight = ops.cast(rows, "float32") * ops.cast(counts, "float32")
            self.means[name].update_state(ops.where(counts, value, 0.0), sample_weight=weight)
        return {name: self.means[name].result() for name in measured}


def measure(labels, embeddings, values):
    """Computes metrics of a batch from its embeddings for retrieval `[B, D]` and the loss of each anchor `[B]`."""
    distance = distances(ops.stop_gradient(embeddings))
    return {
        "positive_distance": mean_of(positive_pairs(labels), distance),
        "negative_distance": mean_of(negative_pairs(labels), distance),
        "active_anchors": ops.mean(ops.cast(values > 0, "float32")),
    }


class VariableHolder(keras.layers.Layer):
    """A layer that holds variables where Keras finds them and that is never built by a call.

    Its state is never locked, so its variables may change when a model is compiled again.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.built = True
        # Without this attribute, Keras' summary shows `?` as the output of the layer.
        self._build_shapes_dict = {"input_shape": (None,)}

    def compute_output_shape(self, input_shape):
        return input_shape


def rank_of(values):
    """Returns the number of axes of a tensor, or None if a TensorFlow graph does not know it."""
    return len(values.shape) if tf is None else tf.TensorShape(values.shape).rank


def anchor_values(loss, labels, *inputs):
    """Calls a Keras loss and checks that it returns one value per anchor, `[B]`.

    `labels` may also include the images that the batch is compared with. `inputs` are the other arguments of the loss:
    the embeddings `[B, d]`, or the output of its layer.
    """
    values = ops.convert_to_tensor(loss.call(labels, *inputs))
    rank = rank_of(values)
    if rank == 2 and values.shape[1] == 1:
        return ops.squeeze(values, axis=1)
    if rank not in (None, 1):
        hint = "" if rank else " Do not average in the loss, because the training step does."
        raise ValueError(
            f"{type(loss).__name__}.call(labels, embeddings) must return one value per anchor. Expected shape [batch]. "
            f"Received: shape {tuple(values.shape)}.{hint}"
        )
    return values


class MethodArguments(ModelArguments, total=False):
    """Arguments that methods pass on to `EmbeddingModel`."""

    preprocessing: Preprocessing | VectorPreprocessing | None


class CompileArguments(TypedDict, total=False):
    """Arguments of `keras.Model.compile` that `EmbeddingModel.compile` passes on."""

    run_eagerly: bool
    steps_per_execution: int
    jit_compile: Literal["auto"] | bool
    auto_scale_loss: bool


class FitArguments(TypedDict, total=False):
    """Arguments of `keras.Model.fit` that `EmbeddingModel.fit` passes on."""

    validation_split: float
    validation_data: Any
    shuffle: bool
    class_weight: dict[int, float] | None
    sample_weight: Any
    initial_epoch: int
    steps_per_epoch: int | None
    validation_steps: int | None
    validation_batch_size: int | None
    validation_freq: int


class EvaluateArguments(TypedDict, total=False):
    """Arguments of `keras.Model.evaluate` that `EmbeddingModel.evaluate` passes on."""

    sample_weight: Any
    steps: int | None
    callbacks: Sequence[keras.callbacks.Callback] | None
    return_dict: bool


MethodHead = Annotated[Head, instance(Head, "a head of tfdml.heads")]
AnyBackbone = Annotated[keras.layers.Layer, instance(keras.Layer, "a Keras model")]
BackboneModel = Annotated[keras.Model, instance(keras.Layer, "a Keras model")]
InitialMask = Annotated[float, number(above=0, below=1)]


def endpoints_of(backbone, method):
    """Returns the endpoints of a backbone, which are the stages of its graph if it declares none."""
    if isinstance(backbone, Endpoints):
        return backbone
    try:
        return _OfKeras(backbone)
    except (AttributeError, ValueError):
        raise ValueError(
            f"{type(method).__name__} must be able to divide its backbone. Expected one of tfdml.backbones, such as "
            "KerasApplication('ResNet50'), or a functional Keras model from images to one tensor. Received: "
            f"{type(backbone).__name__} {backbone.name!r}."
        ) from None


class _OfKeras(Endpoints):
    """Endpoints of a Keras model that declares none."""

    def __init__(self, model):
        (self.input,), (self.output,) = model.inputs, model.outputs
        self.name = model.name
        self.endpoints = {"output": self.output}
