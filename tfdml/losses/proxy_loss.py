"""What all losses on similarities to class proxies share."""

import keras

from tfdml.arguments import integer, optional
from tfdml.functional.checks import check_similarities_input
from tfdml.layers.proxies import Proxies
from tfdml.losses.embedding_loss import EmbeddingLoss

CLASSES = optional(integer(1))


class ProxyLoss(EmbeddingLoss):
    """Base of losses on `(labels [B], similarities [B, C])`, the similarities being those of a `Proxies` layer.

    The models of `tfdml.methods` make that layer themselves, with `make_layer`; in plain Keras it is the model's last.
    Labels are class numbers from 0 to C - 1; the loss of another one is not a number.

    Args:
        classes: number of classes, for `make_layer`; the training command fills it in.
        **kwargs: see `EmbeddingLoss`.
    """

    # Proxies of each class; with more than one, similarities are [B, C, per_class].
    per_class = 1

    needs_pairs = False

    def __init__(self, classes=None, **kwargs):
        super().__init__(**kwargs)
        self.classes = classes

    def __call__(self, labels, similarities, sample_weight=None):
        labels, similarities = check_similarities_input(labels, similarities, several=self.per_class > 1)
        # Not the parent's, which numbers classes anew in every batch.
        return keras.losses.Loss.__call__(self, labels, similarities, sample_weight=sample_weight)

    def make_layer(self):
        return Proxies(self.known_classes(), per_class=self.per_class)

    def known_classes(self):
        """The number of classes, or a ValueError that says how to give it."""
        if self.classes is None:
            name = type(self).__name__
            raise ValueError(f"{name} needs the number of training classes to make its proxies: {name}(classes=...).")
        return self.classes

    def get_config(self):
        return {**super().get_config(), "classes": self.classes}
