"""Base of proxy losses whose proxies can be features of images."""

import warnings
from dataclasses import KW_ONLY
from typing import Annotated, Literal

from tfdml.layers.proxies import Proxies
from tfdml.losses.proxy_loss import ProxyLoss
from tfdml.registry.arguments import NotNegative, Positive, integer


class ImageProxyLoss(ProxyLoss):
    """Base of losses on proxies that are learnt, or the features of one image of each class, as in EDMS.

    Args:
        proxies: `learnt` trains them to lower the loss. `images` are the features of a random image of each class,
            drawn once, and computed anew every epoch. `hard` moves these by equation (7) of EDMS to raise the loss, see
            `tfdml.callbacks.proxies`. The callback `tfdml.callbacks.ImageProxies` computes both; `tfdml.train`
            adds it.
        proxy_steps: most steps of (7) from each epoch's features. The paper does not say how many; very many make
            proxies that stand for no class.
        proxy_rate: learning rate of these steps.
        proxy_tolerance: a proxy stays where it is once its gradient is at most this long.
        classes: number of classes; the training command fills it in.
        reduction, name, dtype: see `EmbeddingLoss`.
    """

    _: KW_ONLY
    proxies: Literal["learnt", "images", "hard"] = "learnt"
    proxy_steps: Annotated[int, integer(0)] = 1000
    proxy_rate: Positive = 1e-3
    proxy_tolerance: NotNegative = 1e-3

    def __call__(self, labels, similarities, sample_weight=None):
        if not self.learns_proxies:
            warnings.warn(
                f"In plain Keras nothing sets the proxies of {type(self).__name__}(proxies={self.proxies!r}): they "
                "stay random unless you call assign_image_proxies of the loss's layer. Use proxies='learnt', or a "
                "model of tfdml.methods with tfdml.callbacks.ImageProxies.",
                stacklevel=2,
            )
        return super().__call__(labels, similarities, sample_weight=sample_weight)

    @property
    def learns_proxies(self) -> bool:
        """Whether gradients move the proxies."""
        return self.proxies == "learnt"

    @property
    def image_proxies(self):
        if self.learns_proxies:
            return None
        steps = self.proxy_steps if self.proxies == "hard" else 0
        return {"steps": steps, "learning_rate": self.proxy_rate, "tolerance": self.proxy_tolerance}

    def callbacks(self, parts):
        if self.learns_proxies:
            return []
        # Here, because losses run on Keras backends that callbacks do not run on.
        from tfdml.callbacks.proxies import ImageProxies

        return [ImageProxies(parts.images(), parts.labels, seed=parts.seed, **parts.of_passes())]

    def check_callbacks(self, callbacks):
        if self.learns_proxies:
            return
        # Here, because losses run on Keras backends that callbacks do not run on.
        from tfdml.callbacks.proxies import ImageProxies

        if not any(isinstance(each, ImageProxies) for each in callbacks):
            raise ValueError(
                "The loss has proxies that are features of images, which nothing would compute. Pass "
                "callbacks=[tfdml.callbacks.ImageProxies(images, labels)], or use proxies='learnt'."
            )

    def make_layer(self):
        return Proxies(self.known_classes(), trainable=self.learns_proxies)
