"""Types and ranges of arguments that all methods take."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

import keras

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml.heads import Head
from tfdml.layers.endpoints import Endpoints
from tfdml.registry.arguments import ModelArguments, instance, number


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
