"""Cross-batch memory that leaves out images whose labels may be wrong."""

from typing import Annotated

from tfdml.methods.memories.xbm import XBM
from tfdml.registry import register
from tfdml.registry.arguments import number


@register("memory", "agreement")
class Agreement(XBM):
    """Cross-batch memory that leaves out the images of a batch that agree least with it: their labels may be wrong.

    Liu et al., Noise-Resistant Deep Metric Learning with Ranking-Based Instance Selection, 2021: the mean cosine of an
    image with the memory's images of each class, in a softmax over these classes, is the probability that its label is
    right. The images of a batch with the lowest are neither anchors nor pairs of others, and stay out of the memory.
    Images of a class that the memory does not have are not judged. The paper compares a probability with those of the
    last batches, here it is compared with those of its batch.

    Example: `model.compile("adam", "multi_similarity", memory=tfdml.memories.Agreement(share=0.2))`.

    Args:
        size, start: see `XBM`; before `start` steps no image is left out.
        share: fraction of the images that have wrong labels.
    """

    share: Annotated[float, number(above=0, below=1)] = 0.2
