"""Layers that hold the variables of a loss and compute its input."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Annotated, Any, Self, Unpack

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.registry.arguments import DTypePolicy, LayerArguments, Regularizer, Tensor, instance, number, several
from tfdml.registry.fields import OF_KERAS, Declared
from tfdml.registry.loss_hooks import hooks_of
from tfdml.runtime.keras_internals import errors_as_raised

# Attribute of the tensors that a `LossLayer` computes.
MARK = "_tfdml_of_loss_layer"


if TYPE_CHECKING:
    from tfdml.registry.fields import OfKeras as _KerasLayer
else:
    _KerasLayer = keras.layers.Layer


class Layer(Declared, _KerasLayer):
    """Base of layers with arguments that are annotated attributes, which `get_config` returns; see `Declared`."""

    _: KW_ONLY
    activity_regularizer: Annotated[Regularizer, OF_KERAS] = None
    trainable: Annotated[bool, OF_KERAS] = True
    dtype: Annotated[DTypePolicy, OF_KERAS] = None
    autocast: Annotated[bool, OF_KERAS] = True
    name: Annotated[str | None, OF_KERAS] = None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.own_config()}


class LossLayer(Layer):
    """Base of layers that hold the variables of a loss, such as class proxies.

    If your own loss has variables, subclass this layer and return it from `EmbeddingLoss.make_layer`. The layer
    computes the input of the loss from `(embeddings [B, d], labels [B])`. Define `compute_output_shape` as well, so
    that the loss can be part of a `WeightedSum`.

    The other methods are for models that divide an embedding into slices with one layer each, and for proxies that are
    features of images. By default, they leave the variables unchanged.

    Args:
        activity_regularizer, trainable, dtype, autocast, name: see `keras.layers.Layer`. In contrast to Keras, inputs
            are not cast by default.

    Example:

    ```python
    class Scaled(tfdml.layers.LossLayer):
        def build(self, embeddings_shape, labels_shape=None):
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones")

        def call(self, embeddings, labels=None):
            return self.scale * embeddings

        def compute_output_shape(self, embeddings_shape, labels_shape=None):
            return embeddings_shape

    Scaled()(np.ones((2, 8), "float32")).shape  # (2, 8)
    ```
    """

    # Inputs are not cast, because a mixed dtype policy would convert them to half precision.
    autocast: Annotated[bool, OF_KERAS] = False

    # Whether a layer that replaces another one keeps its values, when a model is compiled again.
    keeps_values = True
    # Number of classes, with labels from 0 to `classes - 1`. If 1, any label is valid.
    classes = 1
    # Maximum number of classes in a batch. If None, there is no limit.
    most_classes = None
    # Names of the reference vectors that `call` accepts as another argument; see `BesideReference`.
    references = ()

    def __call__(self, *args, **kwargs):
        with errors_as_raised():
            computed = super().__call__(*args, **kwargs)
        _set_mark(computed, True)
        return computed

    def learned_proxies(self) -> list[tuple[Tensor, int]]:
        """Returns the learned proxies `[classes * per_class, d]` of the layer, and `per_class`, in a list."""
        return []

    def assign_image_proxies(self, proxies: Tensor) -> None:
        """Assigns proxies `[classes, d]` that are features of images."""

    def join_slices(self, parts: Sequence[Self]) -> None:
        """Initializes the variables from the layers of an embedding's slices, in the order of the slices."""

    def split_slices(self, parts: Sequence[Self]) -> None:
        """Initializes the layers of an embedding's slices, in the order of the slices, from this layer."""


def is_computed_by_layer(tensor):
    """Whether a `LossLayer` computed a tensor; None if tensors cannot have attributes, as on JAX."""
    # Only tensors that a layer has marked have this attribute.
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
    """Returns a new layer with the variables of a loss, or None if the loss has none."""
    layer = hooks_of(loss).make_layer()
    if not isinstance(layer, LossLayer | None):
        raise TypeError(
            f"{type(loss).__name__}.make_layer() must return a tfdml.layers.LossLayer, or None if the loss has no "
            f"variables. Received: {type(layer).__name__}."
        )
    return layer


PART = instance(LossLayer | None, "a LossLayer or None", each="layers of losses or None")


@keras.saving.register_keras_serializable(package="tfdml")
class ProxyCost(LossLayer):
    """Computes what a regularizer costs for the proxies of the other losses of a `WeightedSum`, `[B, 1]`.

    Args:
        regularizer: one of `tfdml.losses` with a method `cost(proxies, per_class)`, or its configuration.
    """

    def __init__(self, regularizer: Any, **kwargs: Unpack[LayerArguments]):
        super().__init__(**kwargs)
        is_config = isinstance(regularizer, dict)
        self.regularizer = keras.saving.deserialize_keras_object(regularizer) if is_config else regularizer

    def cost(self, embeddings: Tensor, proxies: Sequence[tuple[Tensor, int]]) -> Tensor:
        """Returns the mean cost of the proxies of each loss, summed over losses, for each row of embeddings."""
        if not proxies:
            raise ValueError(
                f"{type(self.regularizer).__name__} regularizes the learned proxies of the other losses of a sum, and "
                "there are none. Add a loss that learns proxies, such as --loss='proxy_anchor + 0.1*regular_face'."
            )
        zeros = 0.0 * ops.stop_gradient(embeddings[:, :1])
        costs = [self.regularizer.cost(ops.cast(rows, zeros.dtype), per_class) for rows, per_class in proxies]
        return zeros + sum(ops.mean(each) for each in costs)

    def call(self, embeddings, labels=None):
        del labels
        return self.cost(at_least_float32(embeddings), [])

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 1)

    def get_config(self):
        return {**super().get_config(), "regularizer": keras.saving.serialize_keras_object(self.regularizer)}


@keras.saving.register_keras_serializable(package="tfdml")
class LossInputs(LossLayer):
    """Concatenates the inputs of each loss of a `WeightedSum`, `[B, 1, n]`.

    The second axis distinguishes the output from embeddings `[B, d]`, so that a model without this layer is an error.

    Args:
        parts: for each loss, the layer that computes its input, or None if its input is the embeddings.
        factors: weights of the losses in the sum. They also multiply the regularizers of the losses' layers.

    Example: `outputs = loss.make_layer()(embeddings, labels)`, where `loss` is a `tfdml.losses.WeightedSum`.
    """

    def __init__(
        self,
        parts: Annotated[Sequence[LossLayer | None], several(PART)],
        factors: Annotated[Sequence[float], several(number(at_least=0))],
        **kwargs: Unpack[LayerArguments],
    ):
        super().__init__(**kwargs)
        self.parts = list(parts)
        self.factors = list(factors)

    @property
    def classes(self):
        """The smallest number of classes of a part, or 1 if any label is valid."""
        return min((part.classes for part in self.parts if part is not None and part.classes > 1), default=1)

    @property
    def most_classes(self):
        """The maximum number of classes in a batch that every part allows, or None without a limit."""
        each = (part.most_classes for part in self.parts if part is not None)
        return min((most for most in each if most is not None), default=None)

    @property
    def references(self):
        """The names of the reference vectors that the parts need."""
        return tuple(dict.fromkeys(name for part in self.parts if part is not None for name in part.references))

    def build(self, embeddings_shape, labels_shape=None, references_shape=None):
        for part, factor in zip(self.parts, self.factors, strict=True):
            if part is None:
                continue
            # A loaded layer is already built.
            if not part.built:
                part.build(embeddings_shape)
            for variable in part.variables:
                if variable.regularizer is not None:
                    variable.regularizer = _Weighted(variable.regularizer, factor)

    def call(self, embeddings, labels=None, references=None):
        embeddings = at_least_float32(embeddings)
        inputs = [embeddings] if labels is None else [embeddings, labels]
        taken = []
        for part in self.parts:
            if isinstance(part, ProxyCost):
                taken.append(part.cost(embeddings, self.learned_proxies()))
            elif part is not None and part.references:
                taken.append(part(embeddings, references=references))
            else:
                taken.append(embeddings if part is None else part(*inputs))
        flat = [ops.reshape(each, (-1, math.prod(each.shape[1:]))) for each in taken]
        return ops.concatenate(flat, axis=1)[:, None, :]

    def split(self, taken):
        """Splits the output of this layer into the input of each loss."""
        width = taken.shape[-1] if len(taken.shape) == 3 and taken.shape[1] == 1 else None
        shapes = None if width is None else self._shapes_within(width)
        if shapes is None:
            raise ValueError(
                "A WeightedSum that contains losses with variables needs the output of its layer. Expected a model "
                "that ends with outputs = loss.make_layer()(embeddings, labels). Received: an output of shape "
                f"{tuple(taken.shape)}."
            )
        values, begin = [], 0
        for shape in shapes:
            end = begin + math.prod(shape)
            values.append(ops.reshape(taken[:, 0, begin:end], (-1, *shape)))
            begin = end
        return values

    def learned_proxies(self):
        return [each for part in self.parts if part is not None for each in part.learned_proxies()]

    def assign_image_proxies(self, proxies):
        """Assigns the proxies of each part that has any; see `Proxies`."""
        for part in self.parts:
            if part is not None:
                part.assign_image_proxies(proxies)

    def join_slices(self, parts):
        """Initializes each part from the same part of an embedding's slices."""
        for part, slices in zip(self.parts, zip(*(each.parts for each in parts), strict=True), strict=True):
            if part is not None:
                part.join_slices(slices)

    def split_slices(self, parts):
        """Initializes the parts of an embedding's slices from the parts of this layer."""
        for part, slices in zip(self.parts, zip(*(each.parts for each in parts), strict=True), strict=True):
            if part is not None:
                part.split_slices(slices)

    def compute_output_shape(self, embeddings_shape, labels_shape=None, references_shape=None):
        return (embeddings_shape[0], 1, _size(self._shapes(embeddings_shape[1])))

    def get_config(self):
        parts = [part and keras.saving.serialize_keras_object(part) for part in self.parts]
        return {**super().get_config(), "parts": parts, "factors": self.factors}

    @classmethod
    def from_config(cls, config):
        parts = [part and keras.saving.deserialize_keras_object(part) for part in config["parts"]]
        return cls(**{**config, "parts": parts})

    def _shapes(self, dim):
        return [(dim,) if part is None else part.compute_output_shape((None, dim))[1:] for part in self.parts]

    def _shapes_within(self, width):
        """Returns the shapes of the parts that have `width` values in total, or None if there are none."""
        # Sizes are linear in the number of dimensions, or do not depend on it.
        growth = _size(self._shapes(2)) - _size(self._shapes(1))
        dim = (width - _size(self._shapes(1))) // max(growth, 1) + 1
        shapes = self._shapes(dim)
        return shapes if dim > 0 and _size(shapes) == width else None


class _Weighted(keras.regularizers.Regularizer):
    def __init__(self, regularizer, factor):
        self.regularizer = regularizer
        self.factor = factor

    def __call__(self, variable):
        return self.factor * self.regularizer(variable)


def _size(shapes):
    return sum(math.prod(shape) for shape in shapes)
