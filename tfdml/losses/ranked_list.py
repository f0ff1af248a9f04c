"""Ranked list loss."""

from tfdml.losses.ranked_lists import RankedLists
from tfdml.registry import register
from tfdml.registry.arguments import NotNegative, Positive, Share


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
