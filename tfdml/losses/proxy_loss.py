"""Base of all losses on similarities to class proxies."""

import warnings

import keras
import numpy as np
from keras import ops

from tfdml.argument_checks import expects
from tfdml.arguments import integer, optional
from tfdml.functional.checks import check_similarities_input, concrete
from tfdml.layers.proxies import Proxies
from tfdml.losses.embedding_loss import EmbeddingLoss


@expects(classes=optional(integer(1)))
class ProxyLoss(EmbeddingLoss):
    """Base of losses on `(labels [B], similarities [B, C])`, the similarities being those of a `Proxies` layer.

    The models of `tfdml.methods` make that layer themselves, with `make_layer`; in plain Keras it is the model's last.
    What is given as similarities must have a column for each of the `classes`, which tells it from embeddings.

    Labels are class numbers from 0 to C - 1. Another one is an error where the loss is called with NumPy arrays or
    eager tensors; inside a compiled function, where nothing can be raised, the loss of its row is NaN.

    Args:
        classes: number of classes; the training command fills it in.
    """

    classes: int | None = None

    # Proxies of each class; with more than one, similarities are [B, C, per_class].
    per_class = 1

    needs_pairs = False
    has_statistics = False
    refuses_memory = "it compares images with proxies, not with each other"

    def __call__(self, labels, similarities, sample_weight=None):
        labels, similarities = self.check_input(labels, similarities)
        self._check_labels(labels, similarities.shape[1] if self.classes is None else self.classes)
        # Not the parent's, which numbers classes anew in every batch.
        return keras.losses.Loss.__call__(self, labels, similarities, sample_weight=sample_weight)

    def check_input(self, labels, similarities):
        similarities = ops.convert_to_tensor(similarities)
        received, name = tuple(similarities.shape), type(self).__name__
        if self.classes is None:
            warnings.warn(
                f"{name} was not told the number of classes, so it takes what it receives, of shape {received}, for "
                f"similarities to the classes' proxies. Write {name}(classes=...), so that this is checked.",
                stacklevel=3,
            )
            return check_similarities_input(labels, similarities, several=self.per_class > 1)
        expected = (None, self.columns, *[self.per_class] * (self.per_class > 1))
        if len(received) != len(expected) or any(
            None not in sizes and sizes[0] != sizes[1] for sizes in zip(received, expected, strict=True)
        ):
            axes = ", ".join(("batch", "classes", "per_class")[: len(expected)])
            layer = type(self.make_layer())
            raise ValueError(
                f"{name} takes similarities to proxies: expected shape [{axes}] = [batch, "
                f"{', '.join(map(str, expected[1:]))}], received shape {received}. Embeddings become similarities in "
                f"the layer {layer.__name__}, with which the model that is trained has to end: "
                f"keras.Model(inputs, loss.make_layer()(embeddings)), where `loss` is this {name}."
            )
        return check_similarities_input(labels, similarities, several=self.per_class > 1)

    def _check_labels(self, labels, classes):
        known = concrete(labels)
        if known is None or classes is None:
            return
        (wrong,) = np.nonzero((known < 0) | (known >= classes))
        if len(wrong):
            raise ValueError(
                f"{type(self).__name__} was made for {classes} classes: expected labels from 0 to {classes - 1}, "
                f"received {known[wrong[0]]} at position {wrong[0]} of the batch."
            )

    @property
    def columns(self):
        """Similarities of a row: those to all classes."""
        return self.classes

    def statistics(self, labels, similarities):
        """Nothing: proxies are compared with every anchor, and to compute the loss again would take long."""
        del labels, similarities
        return {}

    def make_layer(self):
        return Proxies(self.known_classes(), per_class=self.per_class)

    def known_classes(self):
        """The number of classes, or a ValueError that says how to give it."""
        if self.classes is None:
            name = type(self).__name__
            raise ValueError(f"{name} needs the number of training classes to make its proxies: {name}(classes=...).")
        return self.classes
