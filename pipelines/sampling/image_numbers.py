"""Numbers of images as labels."""

import numpy as np

from tfdml.registry import register
from tfdml.registry.arguments import Labels
from tfdml.registry.fields import Value


@register("labels", "images")
class ImageNumbers(Value):
    """Each training image is a class of its own, as if there were no classes; for the sampler views."""

    def first(self, labels: Labels, seed: int) -> np.ndarray:
        """Returns the labels of training images, in place of those they have."""
        del seed
        return np.arange(len(labels))
