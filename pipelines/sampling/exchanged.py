"""Classes with mistakes as labels."""

from typing import Annotated

import numpy as np

from pipelines.sampling.rows_by_class import each_alone
from tfdml.registry import register
from tfdml.registry.arguments import Labels, number
from tfdml.registry.fields import Value


@register("labels", "exchanged")
class Exchanged(Value):
    """The classes, those of a share of the training images exchanged for others at random, to see what mistakes cost.

    Which images and for which classes is decided by the seed of the run. Classes of validation and test stay right.

    Args:
        share: share of the images whose class is exchanged.
    """

    share: Annotated[float, number(above=0, below=1)] = 0.2

    def first(self, labels: Labels, seed: int) -> np.ndarray:
        """Returns the labels of training images, those of a share of them of any other class, each as probable."""
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2 or each_alone(labels):
            raise ValueError(
                "Labels cannot be exchanged. Expected images that share several classes, received "
                f"{len(numbers)} images of {len(classes)} classes."
            )
        random = np.random.default_rng(seed)
        rows = random.permutation(len(numbers))[: round(self.share * len(numbers))]
        numbers[rows] += random.integers(1, len(classes), len(rows))
        # A class may have lost all its images; the numbers of the others have no gap.
        return np.unique(numbers % len(classes), return_inverse=True)[1]
