"""Statistics of batch normalization in a network that begins at random."""

from tfdml.backbones.backbone import Backbone
from tfdml.layers.norms import batch_norms

# Of statistics that move; some networks of Keras have 0.999, for which they need 1,000 steps.
MOMENTUM = 0.9


def follow_batches(backbone: Backbone) -> float | None:
    """Lets moving statistics follow the last batches, because random weights change fast.

    Args:
        backbone: the network.

    Returns:
        The largest momentum that it had; None if none was larger than that of the networks here.
    """
    slow = [layer for layer in batch_norms(backbone) if layer.momentum > MOMENTUM]
    largest = max((layer.momentum for layer in slow), default=None)
    for layer in slow:
        layer.momentum = MOMENTUM
    return largest
