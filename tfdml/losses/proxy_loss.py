"""Base of all losses on similarities to class proxies."""

import warnings
from dataclasses import KW_ONLY

import numpy as np
from keras import ops

from tfdml.functional.checks import check_similarities_input, concrete
from tfdml.layers.loss_layer import is_computed_by_layer
from tfdml.layers.proxies import Proxies
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.registry.arguments import Count, Tensor

# With what rounding adds in half precision.
LARGEST_COSINE = 1.01


class ProxyLoss(EmbeddingLoss):
    """Base of losses on `(labels [B], similarities [B, C])`, the similarities being those of a `Proxies` layer.

    The models of `tfdml.methods` make that layer themselves, with `make_layer`; in plain Keras it is the model's last.
    What is given as similarities must have a column for each of the `classes`, which tells it from embeddings.

    Labels are class numbers from 0 to C - 1. Another one is an error where the loss is called with NumPy arrays or
    eager tensors; inside a compiled function, where nothing can be raised, the loss of its row is NaN.

    Args:
        classes: number of classes; the training command fills it in.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    _: KW_ONLY
    classes: Count | None = None

    # Proxies of each class; with more than one, similarities are [B, C, per_class].
    per_class = 1

    needs_pairs = False
    numbers_anew = False
    has_statistics = False
    refuses_memory = "it compares images with proxies, not with each other"

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
        if len(expected) == 2 and _may_be_embeddings(similarities):
            warnings.warn(
                f"{name}(classes={self.classes}) takes what it receives, of shape {received}, for similarities to "
                f"proxies, but no layer of tfdml computed it: embeddings of {self.columns} dimensions have this shape, "
                "too. Let the model that is trained end with the layer of the proxies: "
                f"keras.Model(inputs, loss.make_layer()(embeddings)), where `loss` is this {name}.",
                stacklevel=3,
            )
        return check_similarities_input(labels, similarities, several=self.per_class > 1)

    def label_classes(self, similarities):
        return similarities.shape[1] if self.classes is None else self.classes

    @property
    def columns(self) -> int | None:
        """Similarities of a row: those to all classes."""
        return self.classes

    def statistics(self, labels: Tensor, similarities: Tensor) -> dict[str, Tensor]:
        """Nothing: proxies are compared with every anchor, and to compute the loss again would take long."""
        del labels, similarities
        return {}

    def make_layer(self) -> Proxies:
        return Proxies(self.known_classes(), per_class=self.per_class)

    def known_classes(self) -> int:
        """The number of classes, or a ValueError that says how to give it."""
        if self.classes is None:
            name = type(self).__name__
            raise ValueError(f"{name} needs the number of training classes to make its proxies: {name}(classes=...).")
        return self.classes


def _may_be_embeddings(similarities):
    """Whether `[B, C]` may not be similarities.

    No layer computed them, and as far as known rows have unit length, or numbers that are not cosines.
    """
    if is_computed_by_layer(similarities) is not False:
        return False
    known = concrete(similarities)
    if known is None or np.max(np.abs(known), initial=0.0) > LARGEST_COSINE:
        return True
    return len(known) > 1 and np.allclose(np.linalg.norm(known, axis=1), 1.0, atol=1e-3)
