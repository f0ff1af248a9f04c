"""Losses that consist of other losses (weighted sums, nested dimensions, class hierarchies), and divergence."""

import itertools
import math
from collections.abc import Sequence
from typing import Annotated

import keras
from keras import ops

from tfdml import registry
from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import unit_length
from tfdml.functional.pairs import finest, is_graded, levels_of
from tfdml.functional.statistics import check_learners, divergence_loss
from tfdml.layers.loss_layer import LossInputs, layer_of
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register, register_sum
from tfdml.registry.arguments import Tensor, integer, number, optional, read_by, several
from tfdml.registry.loss_hooks import hooks_of


def _joined(name, join):
    """Returns a property of a sum that joins the hooks with this name of its losses."""
    return property(lambda loss: join([getattr(hooks, name) for hooks in loss._hooks()]))


@register_sum("loss")
@keras.saving.register_keras_serializable(package="tfdml")
class WeightedSum(EmbeddingLoss):
    """Computes the weighted sum of several losses, such as `--loss="triplet+0.5*proxy_anchor"`.

    If one of the losses has variables, so does the sum: the layer that `make_layer` returns holds the variables of all
    its losses. The models of `tfdml.methods` create this layer themselves. In plain Keras, the model ends with it,
    `outputs = loss.make_layer()(embeddings, labels)`. You can omit the labels unless a loss learns boundaries.

    Args:
        terms: List of `(weight, loss)` pairs. Weights are numbers of at least 0. If a loss has a layer with a
            regularizer, the regularizer has the loss's weight.
        reduction, name, dtype: see `EmbeddingLoss`; the reductions of the single losses have no effect.

    Raises:
        ValueError: If `terms` is empty or has an invalid weight or loss, if more than one loss has proxies that are
            features of images, or if the losses need batches of given pairs and of given triplets.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    loss = tfdml.losses.WeightedSum([(1.0, tfdml.losses.Triplet()), (0.5, tfdml.losses.MultiSimilarity())])
    loss(labels, embeddings)  # 0.17
    ```
    """

    terms: Sequence[tuple[float, keras.losses.Loss]]

    # Hooks are joined from the losses of the sum; see `LossHooks`.
    needs_pairs = _joined("needs_pairs", any)
    has_statistics = _joined("has_statistics", any)
    sharded = _joined("sharded", any)
    takes_levels = _joined("takes_levels", any)
    batch_parts = _joined("batch_parts", max)
    classes = _joined("classes", lambda each: min(filter(None, each), default=None))
    nested_dims = _joined("nested_dims", lambda each: tuple(sorted({*itertools.chain(*each)})))
    refuses_memory = _joined("refuses_memory", lambda each: next(filter(None, each), None))
    image_proxies = _joined("image_proxies", lambda each: next(filter(None, each), None))
    shares_space = _joined("shares_space", any)
    variables = _joined("variables", lambda each: [*itertools.chain(*each)])
    references = _joined("references", lambda each: tuple(dict.fromkeys(itertools.chain(*each))))

    def check_arguments(self):
        terms = self.terms
        if not all(isinstance(term, list | tuple) and len(term) == 2 for term in terms):
            raise ValueError(
                f"terms must be pairs of a weight and a loss, such as (1.0, Triplet()). Received: terms={terms!r}."
            )
        self.terms = [(weight, _loss_of(loss)) for weight, loss in terms]
        if not self.terms:
            raise ValueError("terms must have at least one pair (weight, loss). Received: none.")
        for weight, _ in self.terms:
            if not (isinstance(weight, int | float) and not isinstance(weight, bool) and 0 <= weight < math.inf):
                raise ValueError(f"Each weight must be a number of 0 or more. Received: weight={weight!r}.")
        of_images = [hooks for hooks in self._hooks() if hooks.image_proxies]
        if len(of_images) > 1:
            raise ValueError(
                f"{len(of_images)} losses of the sum have proxies that are features of images, and would overwrite "
                "each other's proxies. Use proxies='learned' for all except one."
            )
        parts = sorted({hooks.batch_parts for hooks in self._hooks()} - {1})
        if len(parts) > 1:
            raise ValueError(
                f"Losses of the sum need batches with {parts[0]} parts and with {parts[1]} parts, as given pairs and "
                "given triplets do, but a batch has a single number of parts. Use only one of these losses."
            )
        # Only used for its shapes. Models create their own layer.
        self._shapes = self.make_layer()

    @property
    def weights_penalty(self):
        """The factor of the squared distance between the weights and their initial values."""
        return sum(weight * hooks_of(loss).weights_penalty for weight, loss in self.terms)

    def callbacks(self, parts):
        return [callback for hooks in self._hooks() for callback in hooks.callbacks(parts)]

    def check_callbacks(self, callbacks):
        for hooks in self._hooks():
            hooks.check_callbacks(callbacks)

    def check_input(self, labels, taken):
        if self._shapes is None:
            return super().check_input(labels, taken)
        taken = ops.convert_to_tensor(taken)
        # This raises an error if the shape is wrong.
        self._shapes.split(taken)
        labels, rows = check_pairs_input(labels, taken[:, 0])
        return labels, rows[:, None]

    @property
    def numbers_anew(self):
        """Whether each batch may number its classes, because all losses only compare labels."""
        return self._known_classes() is None and all(map(_numbers_anew, (loss for _, loss in self.terms)))

    def label_classes(self, taken):
        return self._known_classes()

    def _known_classes(self):
        """Returns the number of classes if a loss uses labels as indices of classes, or None."""
        return None if self._shapes is None or self._shapes.classes == 1 else self._shapes.classes

    def call(self, labels: Tensor, taken: Tensor, queries: int | None = None) -> Tensor:
        pairs = zip(self.terms, self._inputs(taken), strict=True)
        compared = () if queries is None else (queries,)
        return sum(weight * loss.call(labels, each, *compared) for (weight, loss), each in pairs)

    def statistics(self, labels, taken):
        """Returns the statistics of all losses. If there are several, names end with the index of the loss, from 0."""
        statistics = {}
        for place, (hooks, each) in enumerate(zip(self._hooks(), self._inputs(taken), strict=True)):
            of_loss = hooks.statistics(labels, each).items()
            statistics |= {f"{name}_of_loss_{place}" if len(self.terms) > 1 else name: value for name, value in of_loss}
        return statistics

    def with_levels(self, loss, by_level):
        return WeightedSum([(weight, hooks_of(term).with_levels(term, by_level)) for weight, term in loss.terms])

    def make_layer(self):
        parts = [layer_of(loss) for _, loss in self.terms]
        if all(part is None for part in parts):
            return None
        return LossInputs(parts, [weight for weight, _ in self.terms])

    def _hooks(self):
        return [hooks_of(loss) for _, loss in self.terms]

    def _inputs(self, taken):
        """Returns the arguments of each loss."""
        return [taken] * len(self.terms) if self._shapes is None else self._shapes.split(taken)

    def get_config(self):
        terms = [[weight, keras.saving.serialize_keras_object(loss)] for weight, loss in self.terms]
        return {**super().get_config(), "terms": terms}


def _numbers_anew(loss):
    """Whether a loss allows each batch to number its classes, which other Keras losses may not."""
    return isinstance(loss, EmbeddingLoss) and loss.numbers_anew


def _loss_of(loss):
    """Returns the loss itself, or the deserialized loss if it is a configuration."""
    loss = keras.saving.deserialize_keras_object(loss) if isinstance(loss, dict) else loss
    if not isinstance(loss, keras.losses.Loss):
        raise ValueError(f"Each term must have a keras.losses.Loss. Received: {loss!r}.")
    return loss


def _read_pair_loss(loss):
    """Raises a ValueError if a value is neither a loss nor its spec or configuration."""
    is_config = isinstance(loss, dict) and "class_name" in loss
    if not loss or not (is_config or isinstance(loss, str | keras.losses.Loss)):
        raise ValueError(loss)


InnerLoss = Annotated[str | keras.losses.Loss | dict, read_by(_read_pair_loss, "a loss or its spec")]


class OuterLoss(EmbeddingLoss):
    """Base class of losses that apply another pair-based loss and have its callbacks and batch parts.

    A subclass declares the argument `loss`, a `InnerLoss`: a loss without variables, or its spec.

    Args:
        reduction, name, dtype: see `EmbeddingLoss`.

    Raises:
        ValueError: If `loss` has variables, as losses on proxies do.
    """

    def check_arguments(self):
        loss = self.loss
        if isinstance(loss, dict):
            loss = keras.saving.deserialize_keras_object(loss)
        elif isinstance(loss, str):
            # A proxy loss without a number of classes would ask for it before the error below can explain the problem.
            loss = registry.create("loss", loss, classes=2)
        if layer_of(loss) is not None:
            raise ValueError(
                f"loss must be a pair-based loss in {type(self).__name__}, such as 'triplet'. Received: "
                f"{type(loss).__name__}, which has variables for the whole embedding."
            )
        self.loss = loss

    def callbacks(self, parts):
        return hooks_of(self.loss).callbacks(parts)

    def check_callbacks(self, callbacks):
        hooks_of(self.loss).check_callbacks(callbacks)

    @property
    def batch_parts(self):
        """The number of parts of a batch that the loss expects."""
        return hooks_of(self.loss).batch_parts

    @property
    def numbers_anew(self):
        """Whether each batch may number its classes, because the loss only compares labels."""
        return _numbers_anew(self.loss)

    @property
    def weights_penalty(self):
        """The factor of the squared distance between the weights and their initial values."""
        return hooks_of(self.loss).weights_penalty

    @property
    def variables(self):
        """The variables of the loss itself, which callbacks change."""
        return hooks_of(self.loss).variables

    def get_config(self):
        return {**super().get_config(), "loss": keras.saving.serialize_keras_object(self.loss)}


@register("loss", "nested")
class Nested(OuterLoss):
    """Computes a loss on the first 16, 32, ... dimensions, which become usable embeddings (Matryoshka).

    One model then serves embeddings of several sizes. The loss of an anchor is `mean_d L(x_1..d / |x_1..d|)`, the mean
    of a loss L over the first d dimensions: equation (1) of Matryoshka Representation Learning (Kusupati et al.,
    NeurIPS 2022) with equal weights of all d, divided by their number. d is each of `dims` and also the size of the
    embedding. The paper's L is the loss of a classifier; here it compares pairs. Use the batches that `loss` needs.

    After training, keep the first N of `dims` and L2-normalize them, as `python -m tfdml.export --dims=N` does.

    Args:
        loss: The loss L on pairs, without variables: a loss, its configuration, or its spec, such as
            `"triplet(margin=0.1)"`.
        dims: Sequence of integers. The numbers d of first dimensions, increasing, at most the size D of the embedding.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, D]` of any length. Their first d dimensions are L2-normalized.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per anchor. It is 0 if the loss is 0 for each d.

    Raises:
        ValueError: If `loss` has variables, or if `dims` do not increase or exceed the size of the embedding.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 1, 1], [0.6, 0.8, 0]], "float32")
    tfdml.losses.Nested("triplet(margin=0.1)", dims=(2,))(labels, embeddings)  # 0.021
    ```
    """

    loss: InnerLoss
    dims: Annotated[Sequence[int], several(integer(1))]

    def check_arguments(self):
        super().check_arguments()
        _check_dims(self.dims)

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        size = embeddings.shape[1]
        _check_dims(self.dims, size)
        compared = () if queries is None else (queries,)
        nested = self.dims if self.dims[-1] == size else (*self.dims, size)
        values = [self.loss.call(labels, unit_length(embeddings[:, :dim]), *compared) for dim in nested]
        return ops.mean(ops.stack(values), axis=0)

    def statistics(self, labels, embeddings):
        """Returns the statistics of the loss on the whole embedding."""
        labels, embeddings = self.check_input(labels, embeddings)
        _check_dims(self.dims, embeddings.shape[1])
        return hooks_of(self.loss).statistics(labels, unit_length(embeddings))

    @property
    def refuses_memory(self):
        """The reason why the loss cannot use cross-batch memory, or `None` if it can."""
        return hooks_of(self.loss).refuses_memory

    @property
    def nested_dims(self):
        """The argument `dims`."""
        return self.dims


def _check_dims(dims, size=None):
    if any(low >= high for low, high in zip(dims, dims[1:], strict=False)):
        raise ValueError(f"dims must increase, for example (16, 32, 64). Received: dims={dims}.")
    if size is not None and dims[-1] > size:
        raise ValueError(f"dims must be at most {size}, the size of the embedding. Received: dims={dims}.")


@register("loss", "by_level")
class ByLevel(OuterLoss):
    """Computes a loss at each level of a class hierarchy and sums the losses with weights, from coarse to fine.

    The loss of an anchor is `sum_l w_l L_l`, where L_l is the loss with the categories of level l instead of classes.
    This draws images of one category together, and images of one class even more. With one level, it is the loss
    itself. Use the batches that `loss` needs at the finest level.

    Args:
        loss: The loss on pairs, without variables: a loss, its configuration, or its spec. Defaults to `"triplet"`.
        weights: Sequence of floats or `None`. Weight of each level, from coarse to fine. If `None`, all levels have
            equal weights with a sum of 1. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B, L]` categories from coarse to fine. Other labels are passed to the loss as they are.
        embeddings: `[B, d]`.

    Returns:
        `[B]`, one loss per anchor. It is 0 if the loss is 0 at each level.

    Raises:
        ValueError: If `loss` has variables, or if there is not one weight per level.

    Example:

    ```python
    labels = np.array([[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2]])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8], [-1, 0], [-0.6, 0.8]], "float32")
    tfdml.losses.ByLevel("triplet", weights=(0.3, 1.0))(labels, embeddings)  # 0.0033
    ```
    """

    loss: InnerLoss = "triplet"
    weights: Annotated[Sequence[float] | None, optional(several(number(at_least=0)))] = None

    takes_levels = True
    refuses_memory = "it compares more than the class of images"

    def call(self, labels, embeddings):
        labels, embeddings = check_pairs_input(labels, embeddings)
        if is_graded(labels):
            return self.loss.call(labels, embeddings)
        levels = levels_of(labels)
        count = levels.shape[1]
        weights = (1.0 / count,) * count if self.weights is None else self.weights
        if len(weights) != count:
            raise ValueError(f"weights must have one value for each of {count} levels. Received: {tuple(weights)}.")
        return sum(weight * self.loss.call(levels[:, place], embeddings) for place, weight in enumerate(weights))

    def statistics(self, labels, embeddings):
        """Returns the statistics of the loss at the finest level."""
        labels, embeddings = self.check_input(labels, embeddings)
        return hooks_of(self.loss).statistics(labels if is_graded(labels) else finest(labels), embeddings)


@keras.saving.register_keras_serializable(package="tfdml")
class Divergence(EmbeddingLoss):
    """Computes the divergence loss, which drives apart what different learners compute for the same image.

    The loss of an image is `sum_{p != q} max(0, margin - |x_p - x_q|^2)` over its learners p and q, its part of
    equation (9) of Attention-based Ensemble. It is not a metric loss on its own, because it uses no classes; a method
    adds it to one.

    Args:
        margin: Float. Squared distance from which the loss of two learners is 0. Defaults to `1.0`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]`, not used.
        learners: `[B, K, d]` embeddings of the same images by K learners.

    Returns:
        `[B]`, one loss per image. With a single learner, it is 0.

    Example:

    ```python
    learners = np.array([[[1, 0], [0.8, 0.6]], [[0, 1], [0.6, 0.8]]], "float32")
    tfdml.losses.Divergence()(np.array([0, 1]), learners)  # 1.2
    ```
    """

    margin: float = 1.0

    needs_pairs = False
    numbers_anew = False

    def check_input(self, labels, learners):
        return ops.convert_to_tensor(labels), check_learners(learners)

    def call(self, labels, learners):
        del labels
        return divergence_loss(learners, margin=self.margin)
