"""Layers with learned class proxies (all, sampled, sharded or on a manifold) and with a learned margin per class."""

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
    """Arguments that proxy layers pass on to `Proxies`."""

    per_class: int
    initializer: Initializer
    regularizer: Regularizer


@keras.saving.register_keras_serializable(package="tfdml")
class Proxies(LossLayer):
    """Computes cosine similarities of embeddings to learned class proxies, the input of proxy losses.

    The layer normalizes embeddings and proxies. In plain Keras, make it the last layer of the model that you train; the
    layer before it computes the embedding that you search with. `loss.make_layer()` of a proxy loss creates this layer
    with the settings of the loss.

    Args:
        classes: Integer. Number of classes. Labels are 0 to `classes - 1`.
        per_class: Integer. Number of proxies per class. Defaults to `1`.
        initializer: Keras initializer of the proxies, `[classes * per_class, d]`. Only their directions matter.
            Defaults to `"random_normal"`.
        regularizer: Keras regularizer of the proxies, `[classes * per_class, d]`, or `None`. Defaults to `None`.
        **kwargs: `name`, `dtype` and `trainable` of a Keras layer.

    Call arguments:
        embeddings: `[B, d]`.
        labels: Not used.

    Returns:
        `[B, classes]`, or `[B, classes, per_class]` with several proxies per class. In float32, or in float64 if the
        embeddings are.

    Example:

    ```python
    inputs = keras.Input((8,))
    embeddings = keras.layers.Dense(4)(inputs)
    model = keras.Model(inputs, tfdml.layers.Proxies(classes=100)(embeddings))
    model.compile("adam", loss=tfdml.losses.ProxyNCA(classes=100))
    model.output_shape  # (None, 100)
    ```
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
        """Returns the cosines of embeddings to the proxies of some classes, `[classes * per_class, d]`."""
        embeddings, count = at_least_float32(embeddings), proxies.shape[0]
        proxies = unit_length(ops.cast(proxies, embeddings.dtype))
        similarities = ops.matmul(unit_length(embeddings), ops.transpose(proxies))
        if self.per_class == 1:
            return similarities
        return ops.reshape(similarities, (-1, count // self.per_class, self.per_class))

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        shape = (embeddings_shape[0], self.classes, self.per_class)
        return shape[:2] if self.per_class == 1 else shape

    def learned_proxies(self):
        return [(self.proxies, self.per_class)] if self.trainable else []

    def assign_image_proxies(self, proxies):
        """Assigns proxies `[classes, d]` that are features of images. Learned proxies remain unchanged."""
        if not self.trainable:
            self.proxies.assign(proxies)

    def join_slices(self, parts):
        """Initializes the proxies from an embedding's slices, so that each cosine is the mean of the slices' cosines.

        It concatenates the slices' proxies, scaled to the same length in each slice: their mean length.

        Args:
            parts: `Proxies` of each slice, in the order of the slices.
        """
        proxies = [part.proxies for part in parts]
        length = ops.mean(ops.stack([ops.norm(each, axis=1, keepdims=True) for each in proxies]), axis=0)
        self.proxies.assign(ops.concatenate([unit_length(each) * length for each in proxies], axis=1))

    def split_slices(self, parts):
        """Initializes the proxies of an embedding's slices from slices of these proxies."""
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
class ProxiesWithLengths(Proxies):
    """Computes dot products of embeddings and class proxies of any length, and the products of their lengths.

    Args:
        classes: Integer. Number of classes. Labels are 0 to `classes - 1`.
        of_proxies: Boolean. Whether proxies have a length. If `False`, they are L2-normalized. Defaults to `True`.
        **kwargs: see `Proxies`.

    Call arguments:
        embeddings: `[B, d]`.
        labels: Not used.

    Returns:
        `[B, classes, 2]`: dot products, and products of the lengths of the embedding and of the proxy.

    Example:

    ```python
    layer = tfdml.layers.ProxiesWithLengths(classes=10)
    layer(np.ones((4, 8), "float32")).shape  # (4, 10, 2)
    ```
    """

    def __init__(self, classes: Count, of_proxies: bool = True, **kwargs: Unpack[ProxyArguments]):
        super().__init__(classes, **kwargs)
        self.of_proxies = of_proxies

    def call(self, embeddings, labels=None):
        del labels
        embeddings = at_least_float32(embeddings)
        proxies = ops.cast(self.proxies, embeddings.dtype)
        proxies = proxies if self.of_proxies else unit_length(proxies)
        lengths = _lengths(embeddings)[:, None] * _lengths(proxies)[None, :]
        return ops.stack([ops.matmul(embeddings, ops.transpose(proxies)), lengths], axis=2)

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], self.classes, 2)

    def get_config(self):
        return {**super().get_config(), "of_proxies": self.of_proxies}


def _lengths(rows):
    """Returns the lengths of rows. A row of zeros has a gradient of 0."""
    return ops.sum(rows * unit_length(rows), axis=1)


@keras.saving.register_keras_serializable(package="tfdml")
class SampledProxies(Proxies):
    """Computes cosine similarities to the proxies of the batch's classes and of a random sample of other classes.

    Use it if there are so many classes that similarities to all of them are too slow or do not fit in memory. As in
    Partial FC (An et al., Killing Two Birds with One Stone, 2022), each call draws `sampled` classes: the classes of
    the batch, and others with equal probability. Time and memory for similarities then do not depend on the number of
    classes, and gradients move only the proxies of drawn classes. The layer needs the labels, so in plain Keras, make
    them an input of the model. Softmax losses with `sampled_classes` create this layer.

    Args:
        classes: Integer. Number of classes. Labels are 0 to `classes - 1`.
        sampled: Integer. Number of classes per step. At least as many as a batch has, at most `classes`.
        scale: Float or `None`. Factor of similarities in the softmax of the loss. If it is set, similarities to drawn
            classes are raised by `-log(c) / scale`, where c is the probability that a class is drawn. The sum of
            exponentials over the drawn classes is then, on average, the sum over all classes (Bengio and Senécal,
            Adaptive Importance Sampling to Accelerate Training of a Neural Probabilistic Language Model, 2008; Jean et
            al., On Using Very Large Target Vocabulary for Neural Machine Translation, 2015). If `None`, similarities
            are not corrected, as in Partial FC. Defaults to `None`.
        seed: Integer or `None`. Seed of the samples. If `None`, Keras' global seed. A variable of the layer counts the
            draws. Defaults to `None`.
        **kwargs: arguments of `Proxies`. A regularizer is applied to all proxies, not only to drawn ones.

    Call arguments:
        embeddings: `[B, d]`.
        labels: `[B]` integer class labels.

    Returns:
        `[B, 1 + sampled]`, or `[B, 1 + sampled, per_class]` with several proxies per class. The first column has the
        similarity to the image's own class, which is minus infinity among the other columns. It is NaN for a label
        outside of 0 to `classes - 1`, and if the class of an image was not drawn because the batch has more than
        `sampled` classes.

    Raises:
        ValueError: If `sampled` is larger than `classes`, or the layer is called without labels.

    Example:

    ```python
    layer = tfdml.layers.SampledProxies(classes=1_000_000, sampled=1_000)
    layer(np.ones((2, 8), "float32"), np.array([7, 42])).shape  # (2, 1001)
    ```
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
            raise ValueError(f"sampled must be at most the number of classes, {classes}. Received: sampled={sampled}.")
        self.sampled = sampled
        self.scale = scale
        self.seed = seed
        self.draws = keras.random.SeedGenerator(seed)

    def call(self, embeddings, labels=None):
        if labels is None:
            raise ValueError("SampledProxies also needs the labels. Call the layer with (embeddings, labels).")
        embeddings, labels = at_least_float32(embeddings), ops.reshape(ops.cast(labels, "int32"), (-1,))
        chosen, count = self.draw(labels)
        similarities = self._similarities(embeddings, chosen)
        is_own = chosen[None, :] == labels[:, None]
        own = ops.sum(ops.where(is_own[:, :, None], similarities, 0.0), axis=1, keepdims=True)
        own = ops.where(ops.any(is_own, axis=1)[:, None, None], own, float("nan"))
        if self.scale is not None:
            # The batch's own classes are always drawn, so they need no correction.
            raised = ops.where(ops.any(is_own, axis=0), 0.0, -ops.log(count) / self.scale)
            similarities = similarities + ops.cast(raised, similarities.dtype)[None, :, None]
        others = ops.where(is_own[:, :, None], -float("inf"), similarities)
        taken = ops.concatenate([own, others], axis=1)
        return taken[:, :, 0] if self.per_class == 1 else taken

    @property
    def most_classes(self):
        return self.sampled

    def draw(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Draws classes for a batch with labels `[B]`.

        Returns:
            `[sampled]` ascending classes, and the probability that a class that is not in the batch is drawn.
        """
        keys = keras.random.uniform((self.classes,), dtype="float32", seed=self.draws)
        # A label out of range draws the first or last class, which does no harm.
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
        # With `take`, only the drawn rows have a gradient.
        proxies = ops.take(self.proxies, ops.reshape(rows, (-1,)), axis=0)
        return ops.reshape(self.similarities(embeddings, proxies), (-1, self.sampled, self.per_class))


@keras.saving.register_keras_serializable(package="tfdml")
class ShardedProxies(Proxies):
    """Computes cosine similarities to proxies that are divided among devices, each of which holds some classes.

    Use it if there are too many classes for the memory of one device. Create the layer in the scope of a distribution
    strategy, as part of a `tfdml.methods` model: its training step knows that each device has the complete gradient of
    its own proxies. Softmax losses with `sharded=True` create this layer.

    Args:
        classes: Integer. Number of classes. Labels are 0 to `classes - 1`.
        scale: Float. Factor of similarities in the softmax of the loss.
        **kwargs: arguments of `Proxies`. If `per_class` is larger than 1, the nearest proxy of a class counts in a step
            on several devices. Initial values do not depend on the number of devices. On several devices,
            `regularizer` must be `None`.

    Call arguments:
        embeddings: `[B, d]`, in a step on several devices the embeddings of all devices.
        labels: `[B]` integer class labels. Only required in a step on several devices.

    Returns:
        On a single device, or outside of a training step, the output of `Proxies`. In a step on several devices,
        `[B, 1, 1 + devices]`: first the similarity to the image's own class, then `log sum_j exp(scale s_j) / scale`
        over the other classes j of each device, which counts as one class in the softmax. No device needs the
        similarities to another device's classes. The output is NaN for a label outside of 0 to `classes - 1`.

    Raises:
        ValueError: If a regularizer is set on several devices, or a step on several devices has no labels.

    Example:

    ```python
    layer = tfdml.layers.ShardedProxies(classes=100, scale=16.0)
    layer(np.ones((2, 8), "float32")).shape  # (2, 100)
    ```
    """

    def __init__(self, classes: Count, scale: Positive, **kwargs: Unpack[ProxyArguments]):
        super().__init__(classes, **kwargs)
        self.scale = scale

    def build(self, input_shape):
        if devices_in_scope() == 1:
            super().build(input_shape)
            return
        if self.regularizer is not None:
            raise ValueError(
                "ShardedProxies cannot have a regularizer on several devices, because a regularizer needs all proxies "
                "and each device holds only some of them. Remove regularizer."
            )
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
                "On several devices, ShardedProxies needs the embeddings and labels of all devices. The models in "
                "tfdml.methods pass them. In plain Keras, remove sharded=True."
            )
        labels = ops.reshape(ops.cast(labels, "int32"), (-1,))
        taken = self.proxies.add_up(lambda number: self._of_shard(ops.cast(number, "int32"), embeddings, labels))
        is_class = ops.logical_and(labels >= 0, labels < self.classes)[:, None, None]
        return ops.where(is_class, taken, float("nan"))

    def learned_proxies(self):
        if isinstance(self.proxies, ShardedVariable):
            raise ValueError(
                "A regularizer of proxies needs all proxies, and on several devices each device holds only some of "
                "them. Remove sharded=True, or the regularizer."
            )
        return super().learned_proxies()

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
        """Returns one device's part of the output, `[B, 1, 1 + devices]`, with zeros for the other devices."""
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
    """Raises a ValueError if plain Keras trains sharded proxies on several devices."""
    if sharded and shards_in_step() > 1:
        raise ValueError(
            "Only tfdml.methods models can train sharded proxies, because they do not sum the gradients of shards over "
            "devices. In plain Keras, remove sharded=True."
        )


@keras.saving.register_keras_serializable(package="tfdml")
class ManifoldProxies(Proxies):
    """Computes similarities of embeddings to proxies along the manifold of the batch and the proxies.

    The losses on manifold similarities create this layer; see `tfdml.losses.IntrinsicManifold`. The similarities of a
    row depend on the whole batch. The layer solves a system with `B + classes` unknowns, so use it with few classes,
    such as the 50 meta-classes in Aziere and Todorovic, Ensemble Deep Manifold Similarity Learning using Hard Proxies,
    2019.

    Args:
        classes: Integer. Number of classes. Labels are 0 to `classes - 1`.
        view: `"intrinsic"` similarities of random walks, or `"contextual"` comparisons of two such rows of
            similarities. Defaults to `"intrinsic"`.
        restart: Float between 0 and 1. α of the random walks. Defaults to `0.8`.
        affinity: How cosines become affinities: `"clipped"` or `"shifted"`; see `tfdml.functional.manifold`. Defaults
            to `"clipped"`.
        neighbors: Integer or `None`. Number of nearest neighbors that each point is connected with. If `None`, all.
            Defaults to `None`.
        **kwargs: arguments of `Proxies`, except for `per_class`.

    Call arguments:
        embeddings: `[B, d]`.
        labels: Not used.

    Returns:
        `[B, classes]`.

    Raises:
        ValueError: If `per_class` is not 1.

    Example:

    ```python
    tfdml.layers.ManifoldProxies(classes=50)(np.ones((2, 8), "float32")).shape  # (2, 50)
    ```
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
            raise ValueError(f"per_class must be 1 for ManifoldProxies. Received: per_class={self.per_class}.")
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
    """Appends the learned margin β of each row's class to its embedding, the input of `tfdml.losses.Margin`.

    `Margin(learn_beta=True).make_layer()` creates this layer. It needs the labels, so in plain Keras, make them an
    input of the model.

    Args:
        classes: Integer. Number of classes. Labels are 0 to `classes - 1`. If 1, all classes share one margin and
            any label is valid.
        beta: Float. Initial margin. Defaults to `1.2`.
        activity_regularizer, trainable, dtype, autocast, name: see `LossLayer`.

    Call arguments:
        embeddings: `[B, d]`.
        labels: `[B]` integer class labels.

    Returns:
        `[B, 1, d + 1]`. The axis of size 1 distinguishes the output from plain embeddings. The margin is NaN for a
        label outside of 0 to `classes - 1`.

    Example:

    ```python
    layer = tfdml.layers.ClassMargins(classes=100)
    layer(np.ones((2, 8), "float32"), np.array([7, 42])).shape  # (2, 1, 9)
    ```
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
        # The margin of a label out of range is NaN, because a compiled function cannot raise an error.
        chosen = ops.where(inside, ops.take(margins, ops.where(inside, numbers, 0)), float("nan"))
        return ops.concatenate([embeddings, chosen[:, None]], axis=1)[:, None]

    def join_slices(self, parts):
        """Initializes the margins from an embedding's slices, with the average of their squared margins.

        The squared distance of concatenated embeddings at unit length is the mean of the slices' squared distances.

        Args:
            parts: `ClassMargins` of each slice.
        """
        squares = ops.stack([ops.square(part.margins) for part in parts])
        self.margins.assign(ops.sqrt(ops.mean(squares, axis=0)))

    def split_slices(self, parts):
        """Initializes the margins of an embedding's slices from these margins."""
        for part in parts:
            part.margins.assign(self.margins)

    def compute_output_shape(self, embeddings_shape, labels_shape=None):
        return (embeddings_shape[0], 1, embeddings_shape[1] + 1)
