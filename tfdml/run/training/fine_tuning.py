"""Replaces flags that say `auto`, by whether the backbone is pretrained."""

from pipelines.sampling import each_alone
from tfdml.backbones import Identity

# With pretrained weights that train, and without: docs/choosing.md tells how much a higher rate costs.
OPTIMIZERS = {True: "adam(learning_rate=0.0001)", False: "adam(learning_rate=0.001)"}


def without_auto(settings, backbone, labels=()):
    """Returns settings that name an optimizer, what to freeze in batch norm, and how the embedding begins.

    Args:
        settings: `Settings`.
        backbone: `Backbone`, whose weights are loaded.
        labels: class numbers of the training images.
    """
    pretrained = is_pretrained(settings, backbone)
    frozen = "statistics" if pretrained and backbone.has_batch_norm else "none"
    # With classes, `InitialEmbedding` compares the kinds itself.
    first = "auto" if has_classes(settings.data, labels) else "pca_whitened"
    chosen = {
        "optimizer": OPTIMIZERS[pretrained and not isinstance(backbone, Identity)],
        "freeze_batch_norm": frozen,
        "initial_embedding": first if pretrained else "random",
    }
    values = settings.values()
    return settings.replace(**{name: value for name, value in chosen.items() if values[name] == "auto"})


def has_classes(data, labels):
    """Whether labels `[N]` tell which training images are alike, so that discriminants separate their classes.

    Of clusters the first ones are random, and so are meta-classes of images.
    """
    random = data.labels or (data.meta_classes and data.meta_classes_of == "images")
    return not random and (len(labels) == 0 or not each_alone(labels))


def is_pretrained(settings, backbone):
    """Whether a backbone begins with pretrained weights, its own or those that settings name."""
    return bool(settings.network.initial_weights) or backbone.pretrained
