"""Ranked list loss with two arguments."""

from typing import Annotated

from tfdml.losses.ranked_lists import RankedLists
from tfdml.registry import register
from tfdml.registry.arguments import number


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
