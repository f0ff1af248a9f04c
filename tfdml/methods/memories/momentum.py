"""Cross-batch memory of a momentum encoder."""

from typing import Annotated

from tfdml.methods.memories.xbm import XBM
from tfdml.registry import register
from tfdml.registry.arguments import integer, number


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
