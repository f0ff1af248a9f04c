"""Ranked list loss, and its variant with two arguments."""

from dataclasses import KW_ONLY
from typing import Annotated

import keras
from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances
from tfdml.functional.pairs import masked_softmax, negative_pairs, positive_pairs
from tfdml.functional.statistics import mean_of, mined_pairs
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive, Share, number

TEMPERATURES = ("positive_temperature", "negative_temperature")


class RankedLists(EmbeddingLoss):
    """Base of losses on the list of each query: its class within `alpha - margin`, others beyond `alpha`.

    Arguments are those of `RankedList`; a loss that has no `balance` has 0.5, and one without a temperature has 0.
    Temperatures can be set while training, which compiled steps see; the configuration keeps the first ones.

    Args:
        final_negative_temperature: see `RankedList`.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    _: KW_ONLY
    final_negative_temperature: float | None = None

    takes_queries = True
    balance = 0.5
    # Temperatures as variables, which compiled functions read anew at each call; they do not do so with an attribute.
    _variables = {}

    def check_arguments(self):
        if self.margin > self.alpha:
            raise ValueError(f"Expected a margin from 0 to alpha, which is {self.alpha!r}, received {self.margin!r}.")
        self._first = {name: getattr(self, name) for name in TEMPERATURES if name in self.fields}
        options = {"dtype": self.dtype, "trainable": False, "name": "temperature"}
        self._variables = {name: keras.Variable(first, **options) for name, first in self._first.items()}

    def __setattr__(self, name, value):
        if name in TEMPERATURES and name not in self.fields:
            raise AttributeError(f"{type(self).__name__} has no {name}.")
        super().__setattr__(name, value)
        if name in self._variables:
            self._variables[name].assign(value)

    def call(self, labels, embeddings, queries=None):
        labels, embeddings = check_pairs_input(labels, embeddings)
        distance = distances(embeddings, constant_gallery=not self.differentiate_gallery, queries=queries)
        near, far = positive_pairs(labels, queries), negative_pairs(labels, queries)
        pull = self._weighted(near, distance - (self.alpha - self.margin), "positive_temperature")
        push = self._weighted(far, self.alpha - distance, "negative_temperature")
        return (1.0 - self.balance) * pull + self.balance * push

    def _weighted(self, pairs, violations, temperature):
        """Equations (11) and (12): the mean `[B]` of each row's violations, weighted by equations (9) and (10)."""
        # Written so that NaN counts as a violation, and the loss is NaN too.
        violated = ops.logical_and(pairs, ops.logical_not(violations <= 0.0))
        weights = masked_softmax(violated, ops.cast(self._temperature(temperature), violations.dtype) * violations)
        if not self.differentiate_weights:
            weights = ops.stop_gradient(weights)
        return ops.sum(weights * ops.where(violated, violations, 0.0), axis=1)

    def _temperature(self, name):
        return self._variables.get(name, 0.0)

    def statistics(self, labels, embeddings):
        """Of the pairs that violate the boundaries, see `mined_pairs`: also their mean weights, (9) and (10)."""
        labels, embeddings = self.check_input(labels, embeddings)
        distance, inner = distances(embeddings), self.alpha - self.margin
        positives = ops.logical_and(positive_pairs(labels), distance > inner)
        negatives = ops.logical_and(negative_pairs(labels), distance < self.alpha)
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
        # Here, because losses run on Keras backends that callbacks do not run on.
        from tfdml.callbacks.schedules import TemperatureSchedule

        first, last = self.negative_temperature, self.final_negative_temperature
        return [TemperatureSchedule(first, last, parts.steps, step=parts.step, loss=self)]

    def check_callbacks(self, callbacks):
        last = self.final_negative_temperature
        if last is None:
            return
        # Here, because losses run on Keras backends that callbacks do not run on.
        from tfdml.callbacks.schedules import TemperatureSchedule

        if not any(isinstance(each, TemperatureSchedule) for each in callbacks):
            first = self.negative_temperature
            raise ValueError(
                f"Nothing would bring the temperature to final_negative_temperature={last}. Pass "
                f"callbacks=[tfdml.callbacks.TemperatureSchedule({first}, {last}, steps)], or leave it out."
            )

    def get_config(self):
        return {**super().get_config(), **self._first}


@register("loss", "ranked_list")
class RankedList(RankedLists):
    """Ranked list loss: a class within a sphere, others beyond a margin, all violations weighted by hardness.

    Equations (8) to (13) of Ranked List Loss, a query's part of (14); the mean over queries is (14). A positive at a
    distance d costs `v = max(0, d - (alpha - margin))`, a negative `v = max(0, alpha - d)`. Those that cost nothing are
    left out; the others weigh `exp(temperature v)`, divided by the sum within positives and within negatives:
    `(1 - balance) sum_p w_p v_p + balance sum_n w_n v_n`.

    As in the paper the query's gallery is constant to the gradient, so that each row is moved by its own list only. As
    in its authors' code the weights are, too: then the gradient of a pair is its weight, which differentiating through
    them could turn round.

    `positive_temperature` and `negative_temperature` can be set while training, as the callback `TemperatureSchedule`
    does; with TensorFlow compiled steps see it. The configuration keeps those that the loss was made with.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.RankedList(alpha=1.2, margin=0.4))`.

    Args:
        alpha: distance that negatives shall keep.
        margin: how much nearer positives shall be; `alpha - margin` is the diameter of a class.
        positive_temperature: T_p, how much more the farther positives weigh; below 0 the nearer ones do.
        negative_temperature: T_n, how much more the nearer negatives weigh; 0 weighs all the same.
        balance: part λ of the negatives, the positives having the rest.
        differentiate_weights: whether gradients go through the weights.
        differentiate_gallery: whether gradients move the rows of the gallery, too.
        final_negative_temperature: where the callback `TemperatureSchedule` brings `negative_temperature` from step to
            step, equation (15) of the paper; None: it stays. The training command adds the callback.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`; unit length in the paper.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for a query whose positives and negatives are all where they should be, or missing.
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
    """Ranked list loss with a margin around the distance 1 and one temperature: the form to try first.

    RLL-Simpler, section 3.4 of Ranked List Loss: a query's class shall be within `1 - margin / 2`, others beyond
    `1 + margin / 2`. It is `RankedList` with `alpha = 1 + margin / 2`, the same weight for all positives, and as much
    of positives as of negatives.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.RankedListSimpler(margin=0.4))`.

    Args:
        margin: by how much positives shall be nearer than negatives.
        negative_temperature: how much more the nearer negatives weigh; 0 weighs all the same.
        differentiate_weights, differentiate_gallery, final_negative_temperature: see `RankedList`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Call arguments:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`; unit length in the paper.
        queries: number of anchors, which are the first rows; None: every row is one.

    Returns:
        `[B]`; 0 for a query whose positives and negatives are all where they should be, or missing.
    """

    margin: Annotated[float, number(at_least=0, at_most=2)] = 0.4
    negative_temperature: float = 10.0
    differentiate_weights: bool = False
    differentiate_gallery: bool = False

    @property
    def alpha(self) -> float:
        """The argument of `RankedList`, which follows from the margin."""
        return 1.0 + self.margin / 2.0
