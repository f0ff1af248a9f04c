"""Learnable proxies, of which each device holds a part."""

from typing import Unpack

import keras
from keras import ops

from tfdml.functional.checks import loss_dtype
from tfdml.functional.softmax import own_and_others
from tfdml.layers.proxies import Proxies, ProxyArguments
from tfdml.registry.arguments import Count, Positive
from tfdml.runtime.sharded_variable import ShardedVariable, devices_in_scope, shards_in_step


@keras.saving.register_keras_serializable(package="tfdml")
class ShardedProxies(Proxies):
    """Computes cosine similarities to proxies that are divided among the devices of a strategy, each with its classes.

    The layer is made in the scope of the strategy, and belongs to a model of `tfdml.methods`, whose training step knows
    that each device has the whole gradient of its proxies. In a step of several devices each takes the embeddings and
    labels of all of them. The output `[B, 1, 1 + devices]` begins with the similarity to its class. Of its other
    classes each device gives `log sum_j exp(scale s_j) / scale`, which stands for them in a softmax as one class. No
    device sees the similarities to the classes of another. The output is NaN for a label that is no class.

    Outside of such a step, and on one device, the output is that of `Proxies`.

    Args:
        classes: number of classes; labels are 0 to `classes - 1`.
        scale: the factor that the softmax has for similarities.
        per_class: number of proxies per class, of which the nearest counts in a step of several devices.
        initializer, regularizer: see `Proxies`. Initial values are those of one device; several have no regularizer.
    """

    def __init__(self, classes: Count, scale: Positive, **kwargs: Unpack[ProxyArguments]):
        super().__init__(classes, **kwargs)
        self.scale = scale

    def build(self, input_shape):
        if devices_in_scope() == 1:
            super().build(input_shape)
            return
        if self.regularizer is not None:
            raise ValueError("A regularizer sees all proxies, and a device has a part of them. Leave it out.")
        self.proxies = ShardedVariable(
            self.initializer,
            (self.classes * self.per_class, input_shape[-1]),
            together=self.per_class,
            name="proxies",
            dtype=loss_dtype(self.variable_dtype),
            autocast=False,
        )

    def call(self, embeddings, labels=None):
        if not isinstance(self.proxies, ShardedVariable):
            return super().call(embeddings)
        if shards_in_step() == 1:
            parts = [self.similarities(embeddings, shard) for shard in self.proxies.shards]
            return ops.concatenate(parts, axis=1)[:, : self.classes]
        if labels is None:
            raise ValueError(
                "On several devices ShardedProxies needs embeddings and labels of all of them, which the models of "
                "tfdml.methods give it. In plain Keras leave out sharded=True."
            )
        labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
        taken = self.proxies.add_up(lambda number: self._of_shard(ops.cast(number, "int32"), embeddings, labels))
        is_class = ops.logical_and(labels >= 0, labels < self.classes)[:, None, None]
        return ops.where(is_class, taken, float("nan"))

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        shards = shards_in_step()
        if shards == 1:
            return super().compute_output_shape(embeddings_shape)
        return (embeddings_shape[0], 1, 1 + shards)

    def save_own_variables(self, store):
        store["0"] = self.proxies.numpy()

    def load_own_variables(self, store):
        self.proxies.assign(store["0"])

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}

    def _of_shard(self, number, embeddings, labels):
        """Returns a device's part of the output, `[B, 1, 1 + devices]`, with zeros in the places of others."""
        similarities = self.similarities(embeddings, ops.convert_to_tensor(self.proxies))
        if self.per_class > 1:
            similarities = ops.max(similarities, axis=2)
        held = similarities.shape[1]
        first = held * number
        known = ops.minimum(self.classes - first, held)
        found = own_and_others(labels - first, similarities, scale=self.scale, classes=known)
        own, others = ops.unstack(found, 2, axis=0)
        places = ops.arange(shards_in_step(), dtype="int32") == number
        return ops.concatenate([own[:, None], ops.where(places, others[:, None], 0.0)], axis=1)[:, None, :]


def check_plain_keras(sharded):
    """Raises a ValueError where plain Keras takes a step on several devices with sharded proxies."""
    if sharded and shards_in_step() > 1:
        raise ValueError(
            "Sharded proxies are trained by the models of tfdml.methods, which do not sum the gradients of shards. In "
            "plain Keras leave out sharded=True."
        )
