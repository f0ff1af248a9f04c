"""Memories of past batches: cross-batch memory, its momentum encoder, and its filter for wrong labels."""

from typing import Annotated

from tfdml.registry import register
from tfdml.registry.arguments import Count, integer, number
from tfdml.registry.fields import Value


@register("memory", "xbm")
class XBM(Value):
    """Cross-batch memory: each image of a batch is compared with embeddings of past batches, too.

    Wang et al., Cross-Batch Memory for Embedding Learning, 2020: a queue of the last embeddings and their labels takes
    in the batch; then the images of the batch are the anchors of the loss, and the queue is their gallery. Past
    embeddings are constant to the gradient. Pairs of the batch are compared as without a memory, where the paper's
    algorithm 1 makes them constant on one side, too, and its authors' code adds the loss of the batch alone.

    Example: `model.compile("adam", "multi_similarity", memory=tfdml.memories.XBM(size=8192))`.

    Args:
        size: most embeddings in the queue, those of the batch included; the oldest leave it first.
        start: steps before the queue is used, in which embeddings change fast. It fills meanwhile.
    """

    size: Count = 8192
    start: Annotated[int, integer(0)] = 1000


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


@register("memory", "momentum")
class Momentum(XBM):
    """Cross-batch memory of embeddings by an average of past weights, which change slowly: MoCo's queue of keys.

    He et al., Momentum Contrast for Unsupervised Visual Representation Learning, 2020: images are embedded a second
    time, by weights that move towards those that train, equation (2), and these embeddings fill the queue. So old ones
    fit new ones, and a long queue can be used from the first step. Pairs of the batch are compared as without a memory,
    where the paper compares a batch with keys alone.

    Example: `model.compile("adam", "nt_xent", memory=tfdml.memories.Momentum(size=65536))`.

    Args:
        size, start: see `XBM`.
        decay: fraction of the average that remains in a step; 0 is `XBM`.
    """

    start: Annotated[int, integer(0)] = 0
    decay: Annotated[float, number(at_least=0, below=1)] = 0.999


__all__ = ["XBM", "Agreement", "Momentum"]
