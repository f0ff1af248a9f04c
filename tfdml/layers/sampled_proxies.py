"""Learnable proxies, of which a step sees a sample."""

from typing import Annotated, Unpack

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.layers.proxies import Proxies, ProxyArguments
from tfdml.registry.arguments import Count, Positive, Seed, Tensor, integer


@keras.saving.register_keras_serializable(package="tfdml")
class SampledProxies(Proxies):
    """Computes cosine similarities to proxies of the classes in the batch and of a random sample of the others.

    As in Partial FC (An et al., Killing Two Birds with One Stone, 2022) each call draws `sampled` classes anew: those
    of the batch, and others with equal chances. So similarities do not take more time and memory with more classes,
    and gradients move the proxies of drawn classes only. The layer needs the labels, so in plain Keras they are an
    input of the model, too.

    The output `[B, 1 + sampled]` begins with the similarity to an image's class; where this comes among the others, it
    is minus infinity. It is NaN for a label that is no class, and where a batch has more classes than are sampled.

    Example: `SampledProxies(classes=1_000_000, sampled=10_000)(embeddings, labels)`.

    Args:
        classes: number of classes; labels are 0 to `classes - 1`.
        sampled: number of classes in a step, from the most that a batch has to `classes`.
        scale: the factor that a softmax has for similarities. The logarithm of the expected count, the chance c to be
            drawn, is subtracted from exponents, so similarities to drawn classes are raised by `-log(c) / scale`. Then
            the sum of exponentials over the other classes is on average that over all of them (Bengio and Senécal,
            Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic Language Model, 2008; Jean et
            al., On Using Very Large Target Vocabulary for Neural Machine Translation, 2015). None: similarities stay
            as they are, as in Partial FC.
        seed: seed of the samples; draws are counted in a variable of the layer. None: that of Keras.
        per_class, initializer, regularizer: see `Proxies`; a regularizer sees all proxies.
    """

    def __init__(
        self,
        classes: Count,
        sampled: Annotated[int, integer(2)],
        scale: Positive | None = None,
        seed: Seed | None = None,
        **kwargs: Unpack[ProxyArguments],
    ):
        super().__init__(classes, **kwargs)
        if sampled > classes:
            raise ValueError(f"Expected sampled to be at most the number of classes, {classes}, received {sampled}.")
        self.sampled = sampled
        self.scale = scale
        self.seed = seed
        self.draws = keras.random.SeedGenerator(seed)

    def call(self, embeddings, labels=None):
        if labels is None:
            raise ValueError("SampledProxies needs the labels, too: call it with (embeddings, labels).")
        embeddings, labels = at_least_float32(embeddings), ops.reshape(ops.cast(labels, "int32"), (-1,))
        chosen, count = self.draw(labels)
        similarities = self._similarities(embeddings, chosen)
        is_own = chosen[None, :] == labels[:, None]
        own = ops.sum(ops.where(is_own[:, :, None], similarities, 0.0), axis=1, keepdims=True)
        own = ops.where(ops.any(is_own, axis=1)[:, None, None], own, float("nan"))
        if self.scale is not None:
            # Classes of the batch are certain to be there.
            raised = ops.where(ops.any(is_own, axis=0), 0.0, -ops.log(count) / self.scale)
            similarities = similarities + ops.cast(raised, similarities.dtype)[None, :, None]
        others = ops.where(is_own[:, :, None], -float("inf"), similarities)
        taken = ops.concatenate([own, others], axis=1)
        return taken[:, :, 0] if self.per_class == 1 else taken

    @property
    def most_classes(self):
        return self.sampled

    def draw(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Draws classes: `sampled` ascending numbers, and the expected count of each class that is not in the batch.

        Args:
            labels: `[B]` int32.
        """
        keys = keras.random.uniform((self.classes,), dtype="float32", seed=self.draws)
        # A label that is no class draws one for nothing.
        places = ops.clip(labels, 0, self.classes - 1)[:, None]
        keys = ops.scatter_update(keys, places, 2.0 * ops.ones_like(places[:, 0], dtype=keys.dtype))
        present = ops.sum(ops.cast(keys > 1.0, "int32"))
        _, chosen = ops.top_k(keys, self.sampled, sorted=False)
        drawn, others = (ops.cast(count - present, "float32") for count in (self.sampled, self.classes))
        return ops.sort(ops.cast(chosen, "int32")), drawn / others

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        shape = (embeddings_shape[0], 1 + self.sampled, self.per_class)
        return shape[:2] if self.per_class == 1 else shape

    def get_config(self):
        return {**super().get_config(), "sampled": self.sampled, "scale": self.scale, "seed": self.seed}

    def _similarities(self, embeddings, chosen):
        """Cosines `[B, sampled, per_class]` to the proxies of chosen classes."""
        rows = chosen[:, None] * self.per_class + ops.arange(self.per_class, dtype="int32")[None, :]
        # Only these rows have a gradient.
        proxies = ops.take(self.proxies, ops.reshape(rows, (-1,)), axis=0)
        return ops.reshape(self.similarities(embeddings, proxies), (-1, self.sampled, self.per_class))
