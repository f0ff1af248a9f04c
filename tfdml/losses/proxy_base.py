"""Base classes of losses on similarities to class proxies."""

import warnings
from dataclasses import KW_ONLY, replace
from typing import Annotated, Literal

import numpy as np
from keras import ops

from tfdml.functional.checks import check_similarities_input, concrete
from tfdml.layers.loss_layer import is_computed_by_layer
from tfdml.layers.proxies import Proxies, SampledProxies, ShardedProxies
from tfdml.losses.base import EmbeddingLoss
from tfdml.registry.arguments import Count, NotNegative, Positive, Tensor, integer, one_of

# 1 plus the rounding error of half precision.
LARGEST_COSINE = 1.01
# Saved models and flags of earlier runs contain the old spelling.
OLD_SPELLING = "learnt"
_KINDS = one_of("learned", "images", "hard")
KIND_OF_PROXIES = replace(
    _KINDS, read=lambda value: _KINDS.read("learned" if isinstance(value, str) and value == OLD_SPELLING else value)
)


class ProxyLoss(EmbeddingLoss):
    """Base class of losses on labels `[B]` and similarities `[B, C]` to class proxies, from a `Proxies` layer.

    The models of `tfdml.methods` create that layer with `make_layer`. In plain Keras, it is the last layer of the model
    that you train. The similarities must have one column for each of the `classes`, which distinguishes them from
    embeddings.

    Labels are integers from 0 to C - 1. A label outside this range raises an error if you call the loss with NumPy
    arrays or eager tensors. In a compiled function, which cannot raise errors, the loss of its row is NaN.

    Args:
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    _: KW_ONLY
    classes: Count | None = None

    # Number of proxies per class. If there are several, similarities are [B, C, per_class].
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
                f"classes is not set, so {name} cannot check that its input of shape {received} contains similarities "
                f"to class proxies. Set it with {name}(classes=...).",
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
                f"{name} needs similarities to proxies. Expected shape [{axes}] = [batch, "
                f"{', '.join(map(str, expected[1:]))}]. Received: shape={received}. The layer {layer.__name__} "
                "computes similarities from embeddings. End the model that you train with this layer: "
                f"keras.Model(inputs, loss.make_layer()(embeddings)), with this {name} as `loss`."
            )
        if len(expected) == 2 and _may_be_embeddings(similarities):
            warnings.warn(
                f"{name}(classes={self.classes}) needs similarities to proxies, but no tfdml layer computed its input "
                f"of shape {received}. Embeddings with {self.columns} dimensions have the same shape. End the model "
                "that you train with the layer of proxies: "
                f"keras.Model(inputs, loss.make_layer()(embeddings)), with this {name} as `loss`.",
                stacklevel=3,
            )
        return check_similarities_input(labels, similarities, several=self.per_class > 1)

    def label_classes(self, similarities):
        return similarities.shape[1] if self.classes is None else self.classes

    @property
    def columns(self) -> int | None:
        """The number of similarities per row, one for each class."""
        return self.classes

    def statistics(self, labels: Tensor, similarities: Tensor) -> dict[str, Tensor]:
        """Returns no statistics: every anchor is compared with all proxies, so computing the loss again is slow."""
        del labels, similarities
        return {}

    def make_layer(self) -> Proxies:
        return Proxies(self.known_classes(), per_class=self.per_class)

    def known_classes(self) -> int:
        """Returns the number of classes, or raises a ValueError that explains how to set it."""
        if self.classes is None:
            name = type(self).__name__
            raise ValueError(
                f"{name} needs the number of training classes to create its proxies. Set it with {name}(classes=...)."
            )
        return self.classes


def _may_be_embeddings(similarities):
    """Whether `[B, C]` might be embeddings instead of similarities.

    That is the case if no layer computed them, and the values are unknown, not cosines, or rows of unit length.
    """
    if is_computed_by_layer(similarities) is not False:
        return False
    values = concrete(similarities)
    if values is None or np.max(np.abs(values), initial=0.0) > LARGEST_COSINE:
        return True
    return len(values) > 1 and np.allclose(np.linalg.norm(values, axis=1), 1.0, atol=1e-3)


class SoftmaxProxyLoss(ProxyLoss):
    """Base class of proxy losses with a softmax over classes, which a sample of the classes can represent.

    With `sampled_classes`, `make_layer` returns a `SampledProxies` layer, and the loss receives its output. If there
    are no more classes than that, all of them are compared. With `sharded=True`, `make_layer` returns a
    `ShardedProxies` layer.

    A loss calls `check_taken` first in its `call`.

    Args:
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        sampled_classes: Integer or `None`. Number of classes that a step compares images with: the classes of the batch
            and a random sample of the others. Larger values need more time and memory. If `None`, all classes. If it is
            set, the layer also needs the labels: `loss.make_layer()(embeddings, labels)`. Defaults to `None`.
        sampling: How sampled classes count in the sum of exponentials. With `"corrected"`, they also represent the
            classes that are left out, so the sum is right on average. With `"partial_fc"`, they count only for
            themselves. See `tfdml.layers.SampledProxies`. Defaults to `"corrected"`.
        sharded: Boolean. Whether each device holds the proxies of a part of the classes instead of all. On one device,
            it has no effect. It needs a `tfdml.methods` model and does not work in plain Keras. Defaults to `False`.
        reduction, name, dtype: see `EmbeddingLoss`.

    Raises:
        ValueError: If `sharded` is `True` and `sampled_classes` is set.
    """

    _: KW_ONLY
    # Declared here again so that it comes before these arguments, as in other proxy losses.
    classes: Count | None = None
    sampled_classes: Annotated[int, integer(2)] | None = None
    sampling: Literal["corrected", "partial_fc"] = "corrected"
    sharded: bool = False

    def check_arguments(self):
        super().check_arguments()
        if self.sharded and self.sampled_classes is not None:
            raise ValueError(
                "sharded=True and sampled_classes cannot be combined. "
                f"Received: sampled_classes={self.sampled_classes}. Set only one of them."
            )

    @property
    def exponent_scale(self) -> float:
        """The factor of similarities in the exponents of the softmax."""
        return self.scale

    @property
    def columns(self):
        return 1 + self.sampled_classes if self._samples else super().columns

    def check_taken(self, labels: Tensor, similarities: Tensor, several: bool = False) -> tuple[Tensor, Tensor]:
        """Returns labels and similarities as `call` uses them. If classes are sampled, an image's own class is first.

        Args:
            labels: `[B]` integer class labels.
            similarities: Output of the layer that `make_layer` returns.
            several: Boolean. Whether similarities may be `[B, C, n]`. Defaults to `False`.
        """
        is_sharded = self.sharded and self.known_classes() > 1
        of_shards = is_sharded and len(similarities.shape) == 3 and similarities.shape[1] == 1
        if of_shards:
            similarities = similarities[:, 0]
        labels = ops.zeros_like(labels) if of_shards or self._samples else labels
        return check_similarities_input(labels, similarities, several and len(similarities.shape) == 3)

    def make_layer(self) -> Proxies:
        if self.sharded and self.known_classes() > 1:
            return ShardedProxies(self.known_classes(), self.exponent_scale, per_class=self.per_class)
        if not self._samples:
            return super().make_layer()
        scale = self.exponent_scale if self.sampling == "corrected" else None
        return SampledProxies(self.known_classes(), self.sampled_classes, scale=scale, per_class=self.per_class)

    @property
    def _samples(self):
        if self.sampled_classes is None:
            return False
        return self.sampled_classes < self.known_classes()


class ImageProxyLoss(ProxyLoss):
    """Base class of losses on proxies that are learned, or are features of one image per class, as in EDMS.

    Args:
        proxies: `"learned"` trains the proxies to lower the loss. `"images"` uses the features of a random image of
            each class, drawn once and computed again every epoch. `"hard"` moves these features by equation (7) of EDMS
            to raise the loss; see `tfdml.callbacks.proxies`. The callback `tfdml.callbacks.ImageProxies` computes both
            kinds; `tfdml.train` adds it. Defaults to `"learned"`.
        proxy_steps: Integer. Maximum number of steps of (7) from each epoch's features. The paper does not specify a
            number. After very many steps, proxies no longer represent a class. Defaults to `1000`.
        proxy_rate: Float. Learning rate of these steps. Defaults to `0.001`.
        proxy_tolerance: Float. A proxy stops moving when the length of its gradient is at most this. Defaults to
            `0.001`.
        classes: Integer or `None`. Number of classes. The training command sets it. Defaults to `None`.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    _: KW_ONLY
    proxies: Annotated[Literal["learned", "images", "hard"], KIND_OF_PROXIES] = "learned"
    proxy_steps: Annotated[int, integer(0)] = 1000
    proxy_rate: Positive = 1e-3
    proxy_tolerance: NotNegative = 1e-3

    def __call__(self, labels, similarities, sample_weight=None):
        if not self.learns_proxies:
            warnings.warn(
                f"In plain Keras, nothing sets the proxies of {type(self).__name__}(proxies={self.proxies!r}). They "
                "stay random unless you call assign_image_proxies of the loss's layer. Use proxies='learned', or a "
                "tfdml.methods model with tfdml.callbacks.ImageProxies.",
                stacklevel=2,
            )
        return super().__call__(labels, similarities, sample_weight=sample_weight)

    @property
    def learns_proxies(self) -> bool:
        """Whether gradients move the proxies."""
        return self.proxies == "learned"

    @property
    def image_proxies(self):
        if self.learns_proxies:
            return None
        steps = self.proxy_steps if self.proxies == "hard" else 0
        return {"steps": steps, "learning_rate": self.proxy_rate, "tolerance": self.proxy_tolerance}

    def callbacks(self, parts):
        if self.learns_proxies:
            return []
        # Imported here, because losses run on Keras backends that callbacks do not support.
        from tfdml.callbacks.proxies import ImageProxies

        return [ImageProxies(parts.images(), parts.labels, seed=parts.seed, **parts.of_passes())]

    def check_callbacks(self, callbacks):
        if self.learns_proxies:
            return
        # Imported here, because losses run on Keras backends that callbacks do not support.
        from tfdml.callbacks.proxies import ImageProxies

        if not any(isinstance(each, ImageProxies) for each in callbacks):
            raise ValueError(
                "The proxies of the loss are features of images, and no callback computes them. Pass "
                "callbacks=[tfdml.callbacks.ImageProxies(images, labels)], or use proxies='learned'."
            )

    def make_layer(self):
        return Proxies(self.known_classes(), trainable=self.learns_proxies)
