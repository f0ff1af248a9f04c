"""Ranked list loss and its simpler variant."""

from dataclasses import KW_ONLY
from typing import Annotated

import keras
from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances
from tfdml.functional.pairs import masked_softmax
from tfdml.functional.statistics import mean_of, mined_pairs
from tfdml.losses.base import AllPairsLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive, Share, number

TEMPERATURES = ("positive_temperature", "negative_temperature")


class RankedLists(AllPairsLoss):
    """Base class of ranked list losses: own class within `alpha - margin`, other classes beyond `alpha`.

    See `RankedList` for the arguments. A loss without `balance` has a balance of 0.5, and a loss without a temperature
    has a temperature of 0. You can set temperatures during training, and compiled steps see the change. The
    configuration keeps the initial values.

    Args:
        final_negative_temperature: see `RankedList`.
        mining, mean: see `AllPairsLoss`. Terms are queries. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Raises:
        ValueError: If `margin` is larger than `alpha`.
    """

    _: KW_ONLY
    final_negative_temperature: float | None = None

    balance = 0.5
    # Temperatures are variables, because compiled functions read these at each call, but not plain attributes.
    _variables = {}

    def check_arguments(self):
        super().check_arguments()
        if self.margin > self.alpha:
            raise ValueError(
                f"margin must be from 0 to alpha, which is {self.alpha!r}. Received: margin={self.margin!r}."
            )
        self._first = {name: getattr(self, name) for name in TEMPERATURES if name in self.fields}
        options = {"dtype": self.dtype, "trainable": False, "name": "temperature"}
        self._variables = {name: keras.Variable(first, **options) for name, first in self._first.items()}

    @property
    def variables(self):
        """The temperatures, which `tfdml.callbacks.TemperatureSchedule` changes."""
        return list(self._variables.values())

    def __setattr__(self, name, value):
        if name in TEMPERATURES and name not in self.fields:
            raise AttributeError(f"{type(self).__name__} has no {name}.")
        super().__setattr__(name, value)
        if name in self._variables:
            self._variables[name].assign(value)

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        distance = distances(embeddings, constant_gallery=not self.differentiate_gallery, queries=queries)
        near, far = self.selected(labels, embeddings, distance, queries)
        pull = self._weighted(near, distance - (self.alpha - self.margin), "positive_temperature")
        push = self._weighted(far, self.alpha - distance, "negative_temperature")
        has_pair = ops.any(ops.logical_or(near, far), axis=1)
        return self.of_anchors((1.0 - self.balance) * pull + self.balance * push, has_pair)

    def _weighted(self, pairs, violations, temperature):
        """Returns the weighted mean `[B]` of each row's violations, equations (9) to (12)."""
        # The negated comparison counts NaN as a violation, so that the loss is NaN.
        violated = ops.logical_and(pairs, ops.logical_not(violations <= 0.0))
        weights = masked_softmax(violated, ops.cast(self._temperature(temperature), violations.dtype) * violations)
        if not self.differentiate_weights:
            weights = ops.stop_gradient(weights)
        return ops.sum(weights * ops.where(violated, violations, 0.0), axis=1)

    def _temperature(self, name):
        return self._variables.get(name, 0.0)

    def statistics(self, labels, embeddings):
        """Returns statistics of the pairs that violate the boundaries, and their mean weights; see `mined_pairs`."""
        labels, embeddings = self.check_input(labels, embeddings)
        distance, inner = distances(embeddings), self.alpha - self.margin
        positives, negatives = self.selected(labels, embeddings, distance)
        positives = ops.logical_and(positives, distance > inner)
        negatives = ops.logical_and(negatives, distance < self.alpha)
        of_positives = ops.exp(self._temperature("positive_temperature") * (distance - inner))
        of_negatives = ops.exp(self._temperature("negative_temperature") * (self.alpha - distance))
        return {
            **mined_pairs(distance, positives, negatives),
            "positive_boundary": inner,
            "negative_boundary": self.alpha,
            "positive_weight": mean_of(positives, of_positives),
            "negative_weight": mean_of(negatives, of_negatives),
        }

    def callbacks(self, parts):
        if self.final_negative_temperature is None:
            return []
        # Imported here, because losses run on Keras backends that callbacks do not support.
        from tfdml.callbacks.schedules import TemperatureSchedule

        first, last = self.negative_temperature, self.final_negative_temperature
        return [TemperatureSchedule(first, last, parts.steps, step=parts.step, loss=self)]

    def check_callbacks(self, callbacks):
        last = self.final_negative_temperature
        if last is None:
            return
        # Imported here, because losses run on Keras backends that callbacks do not support.
        from tfdml.callbacks.schedules import TemperatureSchedule

        if not any(isinstance(each, TemperatureSchedule) for each in callbacks):
            first = self.negative_temperature
            raise ValueError(
                f"final_negative_temperature={last} has no effect without a callback. Pass "
                f"callbacks=[tfdml.callbacks.TemperatureSchedule({first}, {last}, steps)], or remove the argument."
            )

    def get_config(self):
        return {**super().get_config(), **self._first}


@register("loss", "ranked_list")
class RankedList(RankedLists):
    """Computes the ranked list loss: a class within a sphere, others beyond it, hard violations weighted more.

    A positive at a distance d costs `v = max(0, d - (alpha - margin))`, a negative `v = max(0, alpha - d)`. Pairs that
    cost nothing are left out. The others have weights `exp(temperature v)`, normalized among the positives and among
    the negatives: `(1 - balance) sum_p w_p v_p + balance sum_n w_n v_n`. These are equations (8) to (13) of Ranked List
    Loss, a query's part of (14); the mean over queries is (14).

    As in the paper, the query's gallery is constant for the gradient, so that each row is moved by its own list only.
    As in its authors' code, the weights are constant as well. The gradient of a pair is then its weight, which
    differentiating through the weights could reverse.

    You can set `positive_temperature` and `negative_temperature` during training, as the callback `TemperatureSchedule`
    does. Compiled TensorFlow steps see the change. The configuration keeps the initial values.

    Use this loss for classes with inner structure, but try `RankedListSimpler` first. Use batches with several images
    of each of several classes, for example from `tfdml.data.pxk`. The loss does not normalize embeddings.

    Args:
        alpha: Float. Minimum distance to negatives. Defaults to `1.2`.
        margin: Float, at most `alpha`. How much nearer than `alpha` positives should be; `alpha - margin` is the
            diameter of a class. Defaults to `0.4`.
        positive_temperature: Float. T_p. With larger values, farther positives weigh more; below 0, nearer ones do.
            Defaults to `0.0`.
        negative_temperature: Float. T_n. With larger values, nearer negatives weigh more; with 0, all weigh the same.
            Defaults to `10.0`.
        balance: Float from 0 to 1. Weight λ of the negatives; positives have the rest. Defaults to `0.5`.
        differentiate_weights: Boolean. Whether gradients flow through the weights. Defaults to `False`.
        differentiate_gallery: Boolean. Whether gradients also move the rows of the gallery. Defaults to `False`.
        final_negative_temperature: Float or `None`. Value to which the callback `TemperatureSchedule` changes
            `negative_temperature` step by step, equation (15) of the paper. The training command adds the callback. If
            `None`, the temperature stays the same. Defaults to `None`.
        mining, mean: see `AllPairsLoss`. Terms are queries. Defaults to `"all"` and `"anchors"`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`; unit length in the paper.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per query. It is 0 if all positives and negatives of the query satisfy the boundaries, or are
        missing.

    Raises:
        ValueError: If `margin` is larger than `alpha`.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.RankedList(alpha=1.2, margin=0.4)(labels, embeddings)  # 0.305
    ```
    """

    alpha: Positive = 1.2
    margin: NotNegative = 0.4
    positive_temperature: float = 0.0
    negative_temperature: float = 10.0
    balance: Share = 0.5
    differentiate_weights: bool = False
    differentiate_gallery: bool = False


@register("loss", "ranked_list_simpler")
class RankedListSimpler(RankedLists):
    """Computes the ranked list loss with a margin around distance 1 and one temperature.

    This is RLL-Simpler, section 3.4 of Ranked List Loss: a query's class should be within `1 - margin / 2`, and others
    beyond `1 + margin / 2`. It is `RankedList` with `alpha = 1 + margin / 2`, the same weight for all positives, and
    equal weight of positives and negatives.

    Try this form before `RankedList`. Use batches with several images of each of several classes, for example from
    `tfdml.data.pxk`. The loss does not normalize embeddings.

    Args:
        margin: Float from 0 to 2. Minimum gap between the distances to positives and to negatives. Defaults to `0.4`.
        negative_temperature: Float. With larger values, nearer negatives weigh more; with 0, all weigh the same.
            Defaults to `10.0`.
        differentiate_weights, differentiate_gallery, final_negative_temperature, mining, mean: see `RankedList`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` integer class labels.
        embeddings: `[B, d]`; unit length in the paper.
        queries: Integer or `None`. Number of anchors, which are the first rows. If `None`, every row is an anchor.

    Returns:
        `[B]`, one loss per query. It is 0 if all positives and negatives of the query satisfy the boundaries, or are
        missing.

    Example:

    ```python
    labels = np.array([0, 0, 1, 1])
    embeddings = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], "float32")
    tfdml.losses.RankedListSimpler(margin=0.4)(labels, embeddings)  # 0.305
    ```
    """

    margin: Annotated[float, number(at_least=0, at_most=2)] = 0.4
    negative_temperature: float = 10.0
    differentiate_weights: bool = False
    differentiate_gallery: bool = False

    @property
    def alpha(self) -> float:
        """The argument `alpha` of `RankedList`, which is computed from the margin."""
        return 1.0 + self.margin / 2.0
