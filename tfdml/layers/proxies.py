"""Learnable points, one or several for each class."""

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.registry import register


@register("layer", "proxies")
class Proxies(keras.layers.Layer):
    """Cosine similarities of embeddings to learnable proxies of the classes, as proxy losses take them.

    Embeddings and proxies are brought to unit length here. In plain Keras it is the last layer of the model that is
    trained; the layer before it gives the embedding.

    Example: `similarities = Proxies(classes=100)(embeddings)`, then `model.compile(loss=tfdml.losses.ProxyNCA())`.

    Args:
        classes: number of classes; labels are 0 to `classes - 1`.
        per_class: proxies of each class. With one the output is `[B, classes]`, else `[B, classes, per_class]`.
        initializer: how proxies begin; only their directions matter.
    """

    def __init__(self, classes, per_class=1, initializer="random_normal", **kwargs):
        # Inputs are used as they come: the policy would make half precision of them.
        super().__init__(**{**kwargs, "autocast": False})
        if classes < 1 or per_class < 1:
            raise ValueError(f"Expected at least one class and one proxy of each, received {classes} and {per_class}.")
        self.classes = classes
        self.per_class = per_class
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape):
        self.proxies = self.add_weight(
            name="proxies",
            shape=(self.classes * self.per_class, input_shape[-1]),
            initializer=self.initializer,
            dtype="float32",
            autocast=False,
        )

    def call(self, embeddings, labels=None):
        del labels
        embeddings = at_least_float32(embeddings)
        proxies = ops.normalize(ops.cast(self.proxies, embeddings.dtype), axis=-1)
        similarities = ops.matmul(ops.normalize(embeddings, axis=-1), ops.transpose(proxies))
        if self.per_class == 1:
            return similarities
        return ops.reshape(similarities, (-1, self.classes, self.per_class))

    def get_config(self):
        initializer = keras.initializers.serialize(self.initializer)
        own = {"classes": self.classes, "per_class": self.per_class, "initializer": initializer}
        return {**super().get_config(), **own}
