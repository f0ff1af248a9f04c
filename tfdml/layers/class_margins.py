"""Learnable margins, one for each class."""

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.layers.loss_layer import LossLayer
from tfdml.registry.arguments import Count


@keras.saving.register_keras_serializable(package="tfdml")
class ClassMargins(LossLayer):
    """Appends the learnable margin β of each row's class to its embedding, as input of `Margin`: `[B, 1, d + 1]`.

    The axis of size 1 tells `Margin` that these are not plain embeddings. The layer needs the labels, so in plain Keras
    they are an input of the model, too.

    Example: `ClassMargins(classes=100)(embeddings, labels)`.

    Args:
        classes: number of classes; labels are 0 to `classes - 1`. 1: one margin for all.
        beta: initial margin.
    """

    classes: Count
    beta: float = 1.2

    def build(self, embeddings_shape, labels_shape=None):
        self.margins = self.add_weight(
            name="margins",
            shape=(self.classes,),
            initializer=keras.initializers.Constant(self.beta),
            dtype=loss_dtype(self.variable_dtype),
            autocast=False,
        )

    def call(self, embeddings, labels):
        embeddings = at_least_float32(embeddings)
        margins = ops.cast(self.margins, embeddings.dtype)
        numbers = ops.reshape(ops.cast(labels, "int32"), (-1,))
        if self.classes == 1:
            numbers = ops.zeros_like(numbers)
        inside = ops.logical_and(numbers >= 0, numbers < self.classes)
        # A label out of range becomes NaN, because a compiled function cannot raise an error.
        chosen = ops.where(inside, ops.take(margins, ops.where(inside, numbers, 0)), float("nan"))
        return ops.concatenate([embeddings, chosen[:, None]], axis=1)[:, None]

    def join_slices(self, parts):
        """Initializes the margins from those of an embedding's slices: its squared distance is the mean of theirs.

        Args:
            parts: the slices' `ClassMargins`.
        """
        squares = ops.stack([ops.square(part.margins) for part in parts])
        self.margins.assign(ops.sqrt(ops.mean(squares, axis=0)))

    def split_slices(self, parts):
        """Initializes the margins of an embedding's slices from its own."""
        for part in parts:
            part.margins.assign(self.margins)

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 1, embeddings_shape[1] + 1)
