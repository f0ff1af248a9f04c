"""Ranked list loss with two arguments."""

from tfdml.losses.ranked_list import RankedList, ranked_list_loss
from tfdml.registry import register
from tfdml.registry.argument_checks import expects
from tfdml.registry.arguments import number, optional


@expects(margin=number(at_least=0, at_most=2))
def ranked_list_simpler_loss(
    labels,
    embeddings,
    queries=None,
    *,
    margin=0.4,
    negative_temperature=10.0,
    differentiate_weights=False,
    differentiate_gallery=False,
):
    """Ranked list loss of each query: its class within `1 - margin / 2`, others beyond `1 + margin / 2`.

    RLL-Simpler, section 3.4 of Ranked List Loss: `ranked_list_loss` with `alpha = 1 + margin / 2`, the same weight for
    all positives, and as much of positives as of negatives.

    Args:
        labels: `[B]` class numbers.
        embeddings: `[B, d]`; unit length in the paper.
        queries: number of anchors, which are the first rows; None: every row is one.
        margin, negative_temperature, differentiate_weights, differentiate_gallery: see `ranked_list_loss`.

    Returns:
        `[B]`; 0 for a query whose positives and negatives are all where they should be, or missing.
    """
    return ranked_list_loss(
        labels,
        embeddings,
        queries,
        alpha=_alpha(margin),
        margin=margin,
        negative_temperature=negative_temperature,
        differentiate_weights=differentiate_weights,
        differentiate_gallery=differentiate_gallery,
    )


def _alpha(margin):
    return 1.0 + margin / 2.0


@register("loss", "ranked_list_simpler", final_negative_temperature=optional(number()))
class RankedListSimpler(RankedList):
    """Ranked list loss with a margin around the distance 1 and one temperature: the form to try first.

    Example: `model.compile(optimizer="adam", loss=tfdml.losses.RankedListSimpler(margin=0.4))`.
    """

    function = staticmethod(ranked_list_simpler_loss)

    @property
    def alpha(self):
        """The argument of `RankedList`, which follows from the margin."""
        return _alpha(self.margin)
