"""Base of proxy losses that are a softmax over classes."""

from keras import ops

from tfdml.argument_checks import expects
from tfdml.arguments import integer, one_of, optional
from tfdml.layers.sampled_proxies import SampledProxies
from tfdml.losses.proxy_loss import ProxyLoss


@expects(sampled_classes=optional(integer(2)), sampling=one_of("corrected", "partial_fc"))
class SoftmaxProxyLoss(ProxyLoss):
    """Base of losses that compare the own class with the others in a sum of exponentials, which a sample can stand for.

    With `sampled_classes` the layer of `make_layer` is `SampledProxies`, and the loss takes what it computes. Where
    there are no more classes than that, all are taken.

    Args:
        sampled_classes: classes whose proxies a step sees: those of the batch, and a random sample of the others. None:
            all.
        sampling: whether sampled classes count for those that are left out (`corrected`), which keeps the sum of
            exponentials on average, or for themselves alone (`partial_fc`); see `tfdml.layers.SampledProxies`.
    """

    # First, as it was the last argument before there were others.
    classes: int | None = None
    sampled_classes: int | None = None
    sampling: str = "corrected"

    @property
    def exponent_scale(self):
        """The factor of similarities in exponents."""
        return self.scale

    @property
    def columns(self):
        return 1 + self.sampled_classes if self._samples else super().columns

    def call(self, labels, similarities):
        # The own class comes first.
        return super().call(ops.zeros_like(labels) if self._samples else labels, similarities)

    def make_layer(self):
        if not self._samples:
            return super().make_layer()
        scale = self.exponent_scale if self.sampling == "corrected" else None
        return SampledProxies(self.known_classes(), self.sampled_classes, scale=scale, per_class=self.per_class)

    @property
    def _samples(self):
        if self.sampled_classes is None:
            return False
        return self.sampled_classes < self.known_classes()
