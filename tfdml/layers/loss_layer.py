"""The bases of layers: of those whose arguments are fields, and of those with the variables of a loss."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Annotated, Any, Self

import keras

from tfdml.registry.arguments import DTypePolicy, Regularizer, Tensor
from tfdml.registry.fields import OF_KERAS, Declared
from tfdml.registry.loss_hooks import hooks_of
from tfdml.runtime.keras_internals import errors_as_raised

# Attribute of the tensors that a `LossLayer` computes.
MARK = "_tfdml_of_loss_layer"


class Layer(Declared, keras.layers.Layer):
    """Base of layers whose annotated attributes are their arguments, which `get_config` returns; see `Declared`.

    Args:
        activity_regularizer, trainable, dtype, autocast, name: as of `keras.layers.Layer`.
    """

    _: KW_ONLY
    activity_regularizer: Annotated[Regularizer, OF_KERAS] = None
    trainable: Annotated[bool, OF_KERAS] = True
    dtype: Annotated[DTypePolicy, OF_KERAS] = None
    autocast: Annotated[bool, OF_KERAS] = True
    name: Annotated[str | None, OF_KERAS] = None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.own_config()}


class LossLayer(Layer):
    """Base of layers that hold the variables of a loss, which `EmbeddingLoss.make_layer` returns.

    A subclass computes the input of the loss from `(embeddings [B, d], labels [B])`; its `compute_output_shape` gives
    the shape, for a `WeightedSum`. The other methods are for models that divide an embedding into slices, with a layer
    for each, and for proxies that are features of images; by default they leave the variables as they are.
    """

    # Inputs are not cast: the dtype policy would convert them to half precision.
    autocast: Annotated[bool, OF_KERAS] = False

    # Number of classes; labels are 0 to `classes - 1`. 1: any label is valid.
    classes = 1
    # Number of classes that a batch may have; None: any.
    most_classes = None

    def __call__(self, *args, **kwargs):
        with errors_as_raised():
            computed = super().__call__(*args, **kwargs)
        _set_mark(computed, True)
        return computed

    def assign_image_proxies(self, proxies: Tensor) -> None:
        """Assigns proxies `[classes, d]` that are features of images."""

    def join_slices(self, parts: Sequence[Self]) -> None:
        """Initializes the variables from those of the layers of an embedding's slices.

        Args:
            parts: the slices' layers, in their order.
        """

    def split_slices(self, parts: Sequence[Self]) -> None:
        """Initializes the variables of the layers of an embedding's slices from its own.

        Args:
            parts: the slices' layers, in their order.
        """


def is_computed_by_layer(tensor):
    """Whether a `LossLayer` computed a tensor; None where tensors keep no attribute, as on JAX."""
    # Tensors that nobody has marked have no such attribute.
    marked = getattr(tensor, MARK, False)
    return marked if _set_mark(tensor, marked) else None


def _set_mark(tensor, value):
    """Sets an attribute of the tensor, as Keras does with masks; returns whether it could."""
    try:
        setattr(tensor, MARK, value)
    except AttributeError:
        return False
    return True


def layer_of(loss):
    """Returns a new layer with the variables of a loss; None if it has no variables."""
    layer = hooks_of(loss).make_layer()
    if not isinstance(layer, LossLayer | None):
        raise TypeError(
            f"{type(loss).__name__}.make_layer() returns a {type(layer).__name__}. Expected a tfdml.layers.LossLayer, "
            "or None if the loss has no variables."
        )
    return layer
