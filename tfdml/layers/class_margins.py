"""Learnable distances, one for each class."""

import keras
from keras import ops

from tfdml.arguments import integer
from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.registry import register


@register("layer", "class_margins", classes=integer(1))
class ClassMargins(keras.layers.Layer):
    """Puts the learnable margin β of each row's class behind its embedding, as `Margin` takes them: `[B, 1, d + 1]`.

    The axis of one tells `Margin` that these are not embeddings alone. The layer needs the labels, so in
    plain Keras these are an input of the model, too.

    Example: `ClassMargins(classes=100)(embeddings, labels)`.

    Args:
        classes: number of classes, labels being 0 to `classes - 1`; or 1: one margin for all.
        beta: where margins begin.
    """

    def __init__(self, classes, beta=1.2, **kwargs):
        # Inputs are used as they come: the policy would make half precision of them.
        super().__init__(**{**kwargs, "autocast": False})
        self.classes = classes
        self.beta = beta

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
        # A label out of range gives no number, because nothing can be raised inside a compiled function.
        chosen = ops.where(inside, ops.take(margins, ops.where(inside, numbers, 0)), float("nan"))
        return ops.concatenate([embeddings, chosen[:, None]], axis=1)[:, None]

    def join_slices(self, parts):
        """Begins as the margins of an embedding's slices come together: its squared distance is the mean of theirs.

        Args:
            parts: the slices' `ClassMargins`.
        """
        squares = ops.stack([ops.square(part.margins) for part in parts])
        self.margins.assign(ops.sqrt(ops.mean(squares, axis=0)))

    def split_slices(self, parts):
        """Lets the margins of an embedding's slices begin as its own."""
        for part in parts:
            part.margins.assign(self.margins)

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 1, embeddings_shape[1] + 1)

    def get_config(self):
        return {**super().get_config(), "classes": self.classes, "beta": self.beta}
