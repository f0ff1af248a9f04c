"""Checks, metrics and arguments that the training steps of all methods share."""

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml.functional.distances import distances
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.functional.statistics import mean_of
from tfdml.heads import Head
from tfdml.layers.endpoints import Endpoints
from tfdml.registry.arguments import ModelArguments, instance, number
from tfdml.runtime.keras_internals import as_raised, errors_as_raised, is_ours

# TensorFlow's errors have these somewhere in many lines, as a graph or an eager step tells them.
_MESSAGES = set()
ARRAYS = np.ndarray | tf.Tensor | tf.Variable | keras.KerasTensor


def message_of_check(text):
    """Returns the text, the `message` of a check by `tf.debugging`, which `plain_errors` then knows."""
    _MESSAGES.add(text)
    return text


@contextlib.contextmanager
def plain_errors():
    """A context whose errors of tfdml are ValueErrors as they were raised, without texts of Keras and TensorFlow."""
    try:
        with errors_as_raised():
            yield
    except tf.errors.InvalidArgumentError as error:
        message = next((text for text in _MESSAGES if text in error.message), None)
        if message is None:
            raise
        raise ValueError(message) from None


@contextlib.contextmanager
def images_explained(images):
    """A context in which a network is called; where it refuses images without four axes, the error says so."""
    try:
        yield
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        shape, raised = images.shape if isinstance(images, ARRAYS) else None, as_raised(error)
        if is_ours(raised) or shape is None or len(shape) == 4:
            raise
        hint = "One image needs an axis before these: images[None]. " if len(shape) == 3 and shape[-1] == 3 else ""
        reason = str(raised).partition("\n")[0]
        raise ValueError(
            f"Expected images of shape [batch, height, width, 3], received shape {tuple(shape)}. {hint}The network "
            f"says: {reason}"
        ) from None


# They have no value in a batch without such pairs, which counts for nothing.
DISTANCES = ("positive_distance", "negative_distance")
METRICS = ("loss", "gradient_norm", *DISTANCES, "active_anchors")


class Measures:
    """Means over an epoch, held where Keras does not save them with the model."""

    def __init__(self):
        self.means = {name: keras.metrics.Mean(name=name) for name in METRICS}

    def of_evaluation(self):
        """Returns the metrics that a batch has without a step: all but the gradient's."""
        return [mean for name, mean in self.means.items() if name != "gradient_norm"]

    def update(self, measured, rows, skips_infinite):
        """Adds the values of a batch of so many rows, name to scalar, and returns their means over rows.

        Infinite and NaN values may be left out.
        """
        for name, value in measured.items():
            counts = tf.math.is_finite(value) | (name not in DISTANCES and not skips_infinite)
            weight = tf.cast(rows, "float32") * tf.cast(counts, "float32")
            self.means[name].update_state(tf.where(counts, value, 0.0), sample_weight=weight)
        return {name: self.means[name].result() for name in measured}


def measure(labels, embeddings, values):
    """Measures of a batch: on the embeddings for retrieval `[B, D]`, and on the loss of each anchor `[B]`."""
    distance = distances(tf.stop_gradient(embeddings))
    return {
        "positive_distance": mean_of(positive_pairs(labels), distance),
        "negative_distance": mean_of(negative_pairs(labels), distance),
        "active_anchors": ops.mean(ops.cast(values > 0, "float32")),
    }


class VariableHolder(keras.layers.Layer):
    """A layer that holds variables where Keras finds them, and is never built by a call.

    So its state is never locked: what it holds may change when a model is compiled again.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.built = True
        # Keras' summary shows `?` as the output of layers without it.
        self._build_shapes_dict = {"input_shape": (None,)}

    def compute_output_shape(self, input_shape):
        return input_shape


def anchor_values(loss, labels, *inputs):
    """Calls a Keras loss, and checks that it gives one value an anchor, `[B]`.

    Labels may be those of the images that the batch is compared with. Inputs are what the loss is called with beside
    labels: the embeddings `[B, d]`, or the output of its layer.
    """
    values = tf.convert_to_tensor(loss.call(labels, *inputs))
    if values.shape.rank == 2 and values.shape[1] == 1:
        return tf.squeeze(values, axis=1)
    if values.shape.rank not in (None, 1):
        hint = "" if values.shape.rank else " The step takes their mean; leave out the loss's own."
        raise ValueError(
            f"{type(loss).__name__}.call(labels, embeddings) gives shape {tuple(values.shape)}: expected [batch], one "
            f"value an anchor.{hint}"
        )
    return values


class MethodArguments(ModelArguments, total=False):
    """Arguments that methods pass on to `EmbeddingModel`."""

    preprocessing: Preprocessing | VectorPreprocessing | None


class CompileArguments(TypedDict, total=False):
    """Keras' arguments of `compile` that `EmbeddingModel.compile` passes on."""

    run_eagerly: bool
    steps_per_execution: int
    jit_compile: Literal["auto"] | bool
    auto_scale_loss: bool


class FitArguments(TypedDict, total=False):
    """Keras' arguments of `fit` that `EmbeddingModel.fit` passes on."""

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
    """Keras' arguments of `evaluate` that the model passes on."""

    sample_weight: Any
    steps: int | None
    callbacks: Sequence[keras.callbacks.Callback] | None
    return_dict: bool


MethodHead = Annotated[Head, instance(Head, "a head of tfdml.heads")]
AnyBackbone = Annotated[keras.layers.Layer, instance(keras.Layer, "a Keras model")]
BackboneModel = Annotated[keras.Model, instance(keras.Layer, "a Keras model")]
InitialMask = Annotated[float, number(above=0, below=1)]


def endpoints_of(backbone, method):
    """Returns the endpoints of a method's backbone: itself, or of any functional model of Keras its stages."""
    if isinstance(backbone, Endpoints):
        return backbone
    try:
        return _OfKeras(backbone)
    except (AttributeError, ValueError):
        raise ValueError(
            f"{type(method).__name__} divides its backbone. Expected one of tfdml.backbones, such as "
            "KerasApplication('ResNet50'), or a functional model of Keras from images to one tensor; received "
            f"{type(backbone).__name__} {backbone.name!r}."
        ) from None


class _OfKeras(Endpoints):
    """The endpoints of a model that declares none."""

    def __init__(self, model):
        (self.input,), (self.output,) = model.inputs, model.outputs
        self.name = model.name
        self.endpoints = {"output": self.output}
