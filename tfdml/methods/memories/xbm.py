"""Cross-batch memory."""

from typing import Annotated

from tfdml.registry import register
from tfdml.registry.arguments import Count, integer
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
