"""Learnable proxies, one or more for each class."""

from typing import Annotated, Unpack

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.functional.distances import unit_length
from tfdml.layers.loss_layer import LossLayer
from tfdml.registry.arguments import Count, Initializer, LayerArguments, Regularizer, Tensor, read_by

ProxyInitializer = Annotated[Initializer, read_by(keras.initializers.get, "a Keras initializer")]
ProxyRegularizer = Annotated[Regularizer, read_by(keras.regularizers.get, "a Keras regularizer or None")]


class ProxyArguments(LayerArguments, total=False):
    """Arguments that layers of proxies pass on to `Proxies`."""

    per_class: int
    initializer: Initializer
    regularizer: Regularizer


@keras.saving.register_keras_serializable(package="tfdml")
class Proxies(LossLayer):
    """Computes cosine similarities of embeddings to learnable proxies of the classes, the input of proxy losses.

    The layer normalizes embeddings and proxies. In plain Keras it is the last layer of the model that you train; the
    layer before it computes the embedding.

    Example: `similarities = Proxies(classes=100)(embeddings)`, then `model.compile(loss=ProxyNCA(classes=100))`.

    Args:
        classes: number of classes; labels are 0 to `classes - 1`.
        per_class: number of proxies per class. The output is `[B, classes]` for one, else `[B, classes, per_class]`.
        initializer: initializer of the proxies; only their directions matter.
        regularizer: Keras' regularizer of all proxies, `[classes * per_class, d]`, or None.
    """

    def __init__(
        self,
        classes: Count,
        per_class: Count = 1,
        initializer: ProxyInitializer = "random_normal",
        regularizer: ProxyRegularizer = None,
        **kwargs: Unpack[LayerArguments],
    ):
        super().__init__(**kwargs)
        self.classes = classes
        self.per_class = per_class
        self.initializer = keras.initializers.get(initializer)
        self.regularizer = keras.regularizers.get(regularizer)

    def build(self, input_shape):
        self.proxies = self.add_weight(
            name="proxies",
            shape=(self.classes * self.per_class, input_shape[-1]),
            initializer=self.initializer,
            regularizer=self.regularizer,
            dtype=loss_dtype(self.variable_dtype),
            autocast=False,
        )

    def call(self, embeddings, labels=None):
        del labels
        return self.similarities(embeddings, self.proxies)

    def similarities(self, embeddings: Tensor, proxies: Tensor) -> Tensor:
        """Returns the output for proxies of some classes, `[classes * per_class, d]`."""
        embeddings, count = at_least_float32(embeddings), proxies.shape[0]
        proxies = unit_length(ops.cast(proxies, embeddings.dtype))
        similarities = ops.matmul(unit_length(embeddings), ops.transpose(proxies))
        if self.per_class == 1:
            return similarities
        return ops.reshape(similarities, (-1, count // self.per_class, self.per_class))

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        shape = (embeddings_shape[0], self.classes, self.per_class)
        return shape[:2] if self.per_class == 1 else shape

    def assign_image_proxies(self, proxies):
        """Assigns proxies `[classes, d]` that are features of images; those that are learnt stay as they are."""
        if not self.trainable:
            self.proxies.assign(proxies)

    def join_slices(self, parts):
        """Initializes the proxies from those of an embedding's slices, so that its cosine is the mean of theirs.

        Concatenates their directions, scaled to the same length in each slice: the mean of the parts' lengths.

        Args:
            parts: the slices' `Proxies`, in their order.
        """
        proxies = [part.proxies for part in parts]
        length = ops.mean(ops.stack([ops.norm(each, axis=1, keepdims=True) for each in proxies]), axis=0)
        self.proxies.assign(ops.concatenate([unit_length(each) * length for each in proxies], axis=1))

    def split_slices(self, parts):
        """Initializes the proxies of an embedding's slices from slices of its own."""
        for part, own in zip(parts, ops.split(self.proxies, len(parts), axis=1), strict=True):
            part.proxies.assign(own)

    def get_config(self):
        own = {
            "classes": self.classes,
            "per_class": self.per_class,
            "initializer": keras.initializers.serialize(self.initializer),
            "regularizer": keras.regularizers.serialize(self.regularizer),
        }
        return {**super().get_config(), **own}
