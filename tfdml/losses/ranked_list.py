"""Ranked list loss."""

import inspect

import keras
from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.distances import distances
from tfdml.functional.log_sums import masked_softmax
from tfdml.functional.pair_statistics import mean_of, mined_pairs
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number, optional


@expects(alpha=number(above=0), margin=number(at_least=0), balance=number(at_least=0, at_most=1))
def ranked_list_loss(
    labels,
    embeddings,
    queries=None,
    *,
    alpha=1.2,
    margin=0.4,
    positive_temperature=0.0,
    negative_temperature=10.0,
    balance=0.5,
    differentiate_weights=False,
    differentiate_gallery=False,
):
    """Ranked list loss of each query: its class within `alpha - margin`, others beyond `alpha`, harder ones first.

    Equations (8) to (13) of Ranked List Loss, a query's part of (14); the mean over queries is (14). A positive at a
    distance d costs `v = max(0, d - (alpha - margin))`, a negative `v = max(0, alpha - d)`. Those that cost nothing are
    left out; the others weigh `exp(temperature v)`, divided by the sum within positives and within negatives:
    `(1 - balance) sum_p w_p v_p + balance sum_n w_n v_n`.

    As in the paper the query's gallery is constant to the gradient, so that each row is moved by its own list only. As
    in its authors' code the weights are, too: then the gradient of a pair is its weight, which differentiating through
    them could turn round.

    Args:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`; unit length in the paper.
        queries: number of anchors, which are the first rows; None: every row is one.
        alpha: distance that negatives shall keep.
        margin: how much nearer positives shall be; `alpha - margin` is the diameter of a class.
        positive_temperature: T_p, how much more the farther positives weigh; below 0 the nearer ones do.
        negative_temperature: T_n, how much more the nearer negatives weigh; 0 weighs all the same.
        balance: part λ of the negatives, the positives having the rest.
        differentiate_weights: whether gradients go through the weights.
        differentiate_gallery: whether gradients move the rows of the gallery, too.

    Returns:
        `[B]`; 0 for a query whose positives and negatives are all where they should be, or missing.
    """
    _check_margin(alpha, margin)
    labels, embeddings = check_pairs_input(labels, embeddings)
    distance = distances(embeddings, constant_gallery=not differentiate_gallery, queries=queries)
    near, far = positive_pairs(labels, queries), negative_pairs(labels, queries)
    pull = _weighted(near, distance - (alpha - margin), positive_temperature, differentiate_weights)
    push = _weighted(far, alpha - distance, negative_temperature, differentiate_weights)
    return (1.0 - balance) * pull + balance * push


def _weighted(pairs, violations, temperature, differentiate_weights):
    """Equations (11) and (12): the mean `[B]` of each row's violations, weighted by equations (9) and (10)."""
    # Written so that NaN counts as a violation, and the loss is NaN too.
    violated = ops.logical_and(pairs, ops.logical_not(violations <= 0.0))
    weights = masked_softmax(violated, ops.cast(temperature, violations.dtype) * violations)
    if not differentiate_weights:
        weights = ops.stop_gradient(weights)
    return ops.sum(weights * ops.where(violated, violations, 0.0), axis=1)


def _check_margin(alpha, margin):
    if margin > alpha:
        raise ValueError(f"Expected a margin from 0 to alpha, which is {alpha!r}, received {margin!r}.")


class _Temperature:
    """A number that compiled functions read anew at each call, which they do not do with an attribute."""

    def __init__(self, number, dtype):
        self.first = self.number = number
        self.variable = keras.Variable(number, dtype=dtype, trainable=False, name="temperature")

    def assign(self, number):
        self.number = number
        self.variable.assign(number)


def _temperature(name):
    """The property of a loss that reads and sets such a number."""

    def read(loss):
        if name not in loss._temperatures:
            raise AttributeError(f"{type(loss).__name__} has no {name}.")
        return loss._temperatures[name].number

    def assign(loss, number):
        if name not in inspect.signature(loss.function).parameters:
            raise AttributeError(f"{type(loss).__name__} has no {name}.")
        temperatures = vars(loss).setdefault("_temperatures", {})
        if name in temperatures:
            temperatures[name].assign(number)
        else:
            temperatures[name] = _Temperature(number, loss.dtype)

    return property(read, assign)


@register("loss", "ranked_list", final_negative_temperature=optional(number()))
class RankedList(EmbeddingLoss):
    """Ranked list loss: a class within a sphere, others beyond a margin, all violations weighted by hardness.

    `positive_temperature` and `negative_temperature` can be set while training, as the callback `TemperatureSchedule`
    does; with TensorFlow compiled steps see it. The configuration keeps those that the loss was made with.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.RankedList(alpha=1.2, margin=0.4))`.

    Args:
        final_negative_temperature: where the callback `TemperatureSchedule` brings `negative_temperature` from step to
            step, equation (15) of the paper; None: it stays. The training command adds the callback.
    """

    function = staticmethod(ranked_list_loss)
    final_negative_temperature: float | None = None

    positive_temperature = _temperature("positive_temperature")
    negative_temperature = _temperature("negative_temperature")

    def check_arguments(self):
        _check_margin(self.alpha, self.margin)

    def callbacks(self, parts):
        if self.final_negative_temperature is None:
            return []
        # Here, because losses run on Keras backends that callbacks do not run on.
        from tfdml.callbacks.temperature_schedule import TemperatureSchedule

        first, last = self.negative_temperature, self.final_negative_temperature
        return [TemperatureSchedule(first, last, parts.steps, step=parts.step, loss=self)]

    def check_callbacks(self, callbacks):
        first, last = self.negative_temperature, self.final_negative_temperature
        if last is not None and not any(getattr(each, "changes_temperatures", False) for each in callbacks):
            raise ValueError(
                f"Nothing would bring the temperature to final_negative_temperature={last}. Pass "
                f"callbacks=[tfdml.callbacks.TemperatureSchedule({first}, {last}, steps)], or leave it out."
            )

    def statistics(self, labels, embeddings):
        """Of the pairs that violate the boundaries, see `mined_pairs`: also their mean weights, (9) and (10)."""
        labels, embeddings = self.check_input(labels, embeddings)
        distance, temperatures = distances(embeddings), self.function_arguments()
        inner = self.alpha - self.margin
        positives = ops.logical_and(positive_pairs(labels), distance > inner)
        negatives = ops.logical_and(negative_pairs(labels), distance < self.alpha)
        of_positives = ops.exp(temperatures.get("positive_temperature", 0.0) * (distance - inner))
        of_negatives = ops.exp(temperatures["negative_temperature"] * (self.alpha - distance))
        return {
            **mined_pairs(distance, positives, negatives),
            "positive_boundary": inner,
            "negative_boundary": self.alpha,
            "positive_weight": mean_of(positives, of_positives),
            "negative_weight": mean_of(negatives, of_negatives),
        }

    def function_arguments(self):
        variables = {name: each.variable for name, each in self._temperatures.items()}
        return {**super().function_arguments(), **variables}

    def get_config(self):
        first = {name: each.first for name, each in self._temperatures.items()}
        return {**super().get_config(), **first}
