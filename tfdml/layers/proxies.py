"""Layers of learnable class proxies (whole, sampled, sharded, on a manifold), and of margins for each class."""

from typing import Annotated, Unpack

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.functional.distances import unit_length
from tfdml.functional.manifold import Neighbors, Restart, manifold_similarities
from tfdml.functional.softmax import own_and_others
from tfdml.layers.loss_layer import LossLayer
from tfdml.registry.arguments import (
    Affinity,
    Count,
    Initializer,
    LayerArguments,
    Positive,
    Regularizer,
    Seed,
    Tensor,
    View,
    integer,
    read_by,
)
from tfdml.runtime.sharded_variable import ShardedVariable, devices_in_scope, shards_in_step

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
        """Assigns proxies `[classes, d]` that are features of images; those that are learned stay as they are."""
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
        classes = ops.minimum(self.classes - first, held)
        parts = own_and_others(labels - first, similarities, scale=self.scale, classes=classes)
        own, others = ops.unstack(parts, 2, axis=0)
        places = ops.arange(shards_in_step(), dtype="int32") == number
        return ops.concatenate([own[:, None], ops.where(places, others[:, None], 0.0)], axis=1)[:, None, :]


def check_plain_keras(sharded):
    """Raises a ValueError where plain Keras takes a step on several devices with sharded proxies."""
    if sharded and shards_in_step() > 1:
        raise ValueError(
            "Sharded proxies are trained by the models of tfdml.methods, which do not sum the gradients of shards. In "
            "plain Keras leave out sharded=True."
        )


@keras.saving.register_keras_serializable(package="tfdml")
class ManifoldProxies(Proxies):
    """Computes similarities `[B, classes]` of embeddings to proxies along the manifold of the batch and the proxies.

    The similarities of a row depend on the whole batch. The layer solves a system with `B + classes` unknowns, so it is
    for few classes, in the paper 50 meta-classes.

    Example: `similarities = ManifoldProxies(classes=50)(embeddings)`.

    Args:
        classes: number of classes; labels are 0 to `classes - 1`.
        view, restart, affinity, neighbors: see `tfdml.functional.manifold.manifold_similarities`.
        **kwargs: see `Proxies`; each class has one proxy.
    """

    def __init__(
        self,
        classes: Count,
        view: View = "intrinsic",
        restart: Restart = 0.8,
        affinity: Affinity = "clipped",
        neighbors: Neighbors = None,
        **kwargs: Unpack[ProxyArguments],
    ):
        super().__init__(classes, **kwargs)
        if self.per_class != 1:
            raise ValueError(f"Expected one proxy per class, received per_class={self.per_class}.")
        self.view = view
        self.restart = restart
        self.affinity = affinity
        self.neighbors = neighbors

    def call(self, embeddings, labels=None):
        del labels
        embeddings = at_least_float32(embeddings)
        proxies = ops.cast(self.proxies, embeddings.dtype)
        return manifold_similarities(embeddings, proxies, **self._walk())

    def get_config(self):
        return {**super().get_config(), **self._walk()}

    def _walk(self):
        names = ("view", "restart", "affinity", "neighbors")
        return {name: getattr(self, name) for name in names}


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
