"""Memories of past batches: cross-batch memory, its momentum encoder and its filter for label noise."""

from typing import Annotated

from tfdml.registry import register
from tfdml.registry.arguments import Count, integer, number
from tfdml.registry.fields import Value


@register("memory", "xbm")
class XBM(Value):
    """Cross-batch memory (XBM), which also compares each image of a batch with the embeddings of past batches.

    Use it if small batches limit a pair-based loss: it provides thousands of negatives without embedding more images.
    The memory is a queue of the last embeddings and their labels. The images of the batch enter the queue and are the
    anchors of the loss, and all embeddings in the queue are their gallery. Gradients do not flow through past
    embeddings. See Wang et al., Cross-Batch Memory for Embedding Learning, 2020.

    Pairs within the batch are compared as without a memory. In the paper's algorithm 1, they have a gradient on one
    side only, and the authors' code adds the loss of the batch alone.

    Args:
        size: Integer. Maximum number of embeddings in the queue, including the batch. The oldest ones leave it first.
            Defaults to `8192`.
        start: Integer. Number of steps before the queue is used. Embeddings change fast at the start of training, and
            outdated ones would mislead the loss. The queue fills during these steps. Defaults to `1000`.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "multi_similarity", memory=tfdml.memories.XBM(size=64, start=0))
    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    history = model.fit(images, labels, epochs=2, verbose=0)
    len(history.history["loss"])  # 2
    ```
    """

    size: Count = 8192
    start: Annotated[int, integer(0)] = 1000


@register("memory", "agreement")
class Agreement(XBM):
    """Cross-batch memory for label noise, which ignores the images with labels that agree least with the memory.

    Use it if some labels are wrong. For each image of a batch, it estimates the probability that the label is correct:
    a softmax over the classes of the mean cosines to the images of each class in the memory. The images with the lowest
    probabilities are neither anchors nor positives nor negatives, and they do not enter the memory. Images of a class
    that the memory does not contain are always used.

    The method is from Liu et al., Noise-Resistant Deep Metric Learning with Ranking-Based Instance Selection, 2021. The
    paper compares each probability with those from the last batches. Here it is compared within its batch.

    Args:
        size, start: see `XBM`. Before `start` steps, no image is ignored.
        share: Float. Fraction of the images that is ignored. Set it to the fraction of wrong labels that you expect.
            Defaults to `0.2`.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "multi_similarity", memory=tfdml.memories.Agreement(size=64, start=1, share=0.25))
    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    history = model.fit(images, labels, epochs=2, verbose=0)
    len(history.history["loss"])  # 2
    ```
    """

    share: Annotated[float, number(above=0, below=1)] = 0.2


@register("memory", "momentum")
class Momentum(XBM):
    """Cross-batch memory that a slowly changing momentum encoder fills, as in MoCo.

    Use it for self-supervised losses, or if the embeddings in an `XBM` become outdated. Each batch is embedded a second
    time with an exponential moving average of the weights, equation (2) of the paper, and these embeddings fill the
    queue. Old and new embeddings in the queue remain comparable, so a long queue can be used from the first step. A
    training step needs more time for the second pass. See He et al., Momentum Contrast for Unsupervised Visual
    Representation Learning, 2020.

    Pairs within the batch are compared as without a memory. The paper compares a batch with the queue only.

    Args:
        size, start: see `XBM`. `start` defaults to `0`.
        decay: Float. Fraction of the average that remains in a step. With larger values, the encoder changes more
            slowly. With `0`, the memory is an `XBM`. Defaults to `0.999`.

    Example:

    ```python
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "multi_similarity", memory=tfdml.memories.Momentum(size=64))
    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    history = model.fit(images, labels, epochs=2, verbose=0)
    len(history.history["loss"])  # 2
    ```
    """

    start: Annotated[int, integer(0)] = 0
    decay: Annotated[float, number(at_least=0, below=1)] = 0.999


__all__ = ["XBM", "Agreement", "Momentum"]
