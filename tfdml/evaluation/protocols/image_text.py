"""The protocol for images and texts."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from tfdml.evaluation.image_text import DIRECTIONS, image_text_recall
from tfdml.evaluation.protocols.protocol import MetricSpecs, Protocol
from tfdml.evaluation.scores import Scores
from tfdml.evaluation.statistics import bootstrap_intervals
from tfdml.evaluation.verification.text_pairs import classes_of_texts
from tfdml.registry import register
from tfdml.registry.arguments import Embeddings, integer, several


@register("protocol", "image_text")
class ImageTextRetrieval(Protocol):
    """Searches images by their captions, and captions by their images.

    It measures `text_to_image_recall_at_1` and so on, see `tfdml.evaluation.image_text_recall`, of a model with two
    towers on a dataset with captions. The metrics of images alone, such as Recall@K among images of a class, can be
    measured as well.

    Args:
        metrics: Metric spec or sequence of specs, for the embeddings of images. Defaults to `("effective_rank",)`.
        at: Sequence of integers K. Defaults to `(1, 5, 10)`.
    """

    takes_texts = True

    def __init__(
        self,
        metrics: MetricSpecs = ("effective_rank",),
        at: Annotated[Sequence[int], several(integer(1))] = (1, 5, 10),
    ):
        super().__init__(metrics, "cosine")
        self.at = tuple(at)

    @property
    def text_metrics(self) -> list[str]:
        """The names of the metrics of images and texts."""
        return [f"{direction}_recall_at_{count}" for direction in DIRECTIONS for count in self.at]

    def selecting(self, name):
        return (name or self.text_metrics[0]) if name in ("", *self.text_metrics) else super().selecting(name)

    def text_scores(self, images: Embeddings, texts: Embeddings, pairs: np.ndarray) -> dict[str, Scores]:
        """Returns the `Scores` of both directions; see `tfdml.evaluation.image_text_recall`."""
        return image_text_recall(images, texts, pairs, self.at)


def text_intervals(found: dict[str, Scores], pairs: np.ndarray, labels: np.ndarray) -> dict[str, list[float]]:
    """Returns 95% bootstrap intervals over classes of the `Scores` of both directions.

    Args:
        found: Dictionary of `Scores` from `image_text_recall`.
        pairs: Its pairs.
        labels: `[N]` labels of the images. A text has the class of its first image.
    """
    clusters = dict(zip(DIRECTIONS, (classes_of_texts(pairs, labels), labels), strict=True))
    intervals = {}
    for direction, scores in found.items():
        intervals |= bootstrap_intervals(scores.per_query, clusters[direction][scores.queries])
    return intervals
