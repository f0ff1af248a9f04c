"""Base of proxy losses that are a softmax over classes."""

from dataclasses import KW_ONLY
from typing import Annotated, Literal

from keras import ops

from tfdml.functional.checks import check_similarities_input
from tfdml.layers.proxies import Proxies, SampledProxies, ShardedProxies, check_plain_keras
from tfdml.losses.proxy_loss import ProxyLoss
from tfdml.registry.arguments import Count, Tensor, integer


class SoftmaxProxyLoss(ProxyLoss):
    """Base of losses that compare a class with the others in a sum of exponentials, which a sample can stand for.

    With `sampled_classes` the layer of `make_layer` is `SampledProxies`, and the loss takes what it computes. Where
    there are no more classes than that, all are taken. With `sharded` the layer is `ShardedProxies`.

    A loss calls `check_taken` first in its `call`.

    Args:
        classes: number of classes; the training command fills it in.
        sampled_classes: classes whose proxies a step sees: those of the batch, and a random sample of the others. None:
            all.
        sampling: whether sampled classes count for those that are left out (`corrected`), which keeps the sum of
            exponentials on average, or for themselves alone (`partial_fc`); see `tfdml.layers.SampledProxies`.
        sharded: whether each device holds the proxies of a part of the classes instead of all; on one device it changes
            nothing. For the models of `tfdml.methods`, not for plain Keras.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    _: KW_ONLY
    # Declared here once more, so that it comes before these arguments, as in other losses on proxies.
    classes: Count | None = None
    sampled_classes: Annotated[int, integer(2)] | None = None
    sampling: Literal["corrected", "partial_fc"] = "corrected"
    sharded: bool = False

    def check_arguments(self):
        super().check_arguments()
        if self.sharded and self.sampled_classes is not None:
            raise ValueError("Proxies are sharded or sampled: expected sharded=True or sampled_classes, not both.")

    def __call__(self, labels, similarities, sample_weight=None):
        check_plain_keras(self.sharded)
        return super().__call__(labels, similarities, sample_weight=sample_weight)

    @property
    def exponent_scale(self) -> float:
        """The factor of similarities in exponents."""
        return self.scale

    @property
    def columns(self):
        return 1 + self.sampled_classes if self._samples else super().columns

    def check_taken(self, labels: Tensor, similarities: Tensor, several: bool = False) -> tuple[Tensor, Tensor]:
        """Returns both as `call` computes with them; where not all classes are taken, an image's own is the first.

        Args:
            several: whether similarities may be `[B, C, n]`.
        """
        of_shards = self.sharded and len(similarities.shape) == 3 and similarities.shape[1] == 1
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
