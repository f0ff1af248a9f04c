"""What pretrained weights suggest where flags leave it open."""

from types import SimpleNamespace

from tfdml.layers.frozen_batch_norm import batch_norms

# Pretrained, and not: docs/choosing.md has measured what a higher rate does to ImageNet weights.
OPTIMIZERS = {True: "adam(learning_rate=0.0001)", False: "adam(learning_rate=0.001)"}


def with_defaults(settings, backbone):
    """Returns settings that name an optimizer, and what to freeze in batch norm.

    Args:
        settings: namespace with the flags' values.
        backbone: `Backbone`, whose weights are loaded.
    """
    pretrained = bool(settings.initial_weights) or backbone.pretrained
    optimizer, frozen = settings.optimizer, settings.freeze_batch_norm
    if frozen == "auto":
        frozen = "statistics" if pretrained and batch_norms(backbone) else "none"
    chosen = {"optimizer": optimizer or OPTIMIZERS[pretrained], "freeze_batch_norm": frozen}
    return SimpleNamespace(**vars(settings) | chosen)
