"""Hooks of losses: what a loss declares beside the values it computes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfdml.registry.arguments import Tensor

if TYPE_CHECKING:
    from keras.callbacks import Callback
    from keras.layers import Layer
else:
    # Help is printed before Keras is imported.
    Callback = Layer = Any


class LossHooks:
    """Declarations of a loss for models, callbacks and `tfdml.train`, with defaults for a loss that declares nothing.

    `tfdml.losses.EmbeddingLoss` inherits them. Other losses of Keras, a user's own too, have the defaults; see
    `hooks_of`.
    """

    # Whether each image needs another image of its class in the batch.
    needs_pairs = False
    # In how many equal parts it takes the batch, row i of one with row i of the others, as `Sampler.parts` says.
    batch_parts = 1
    # Number of classes that it was made for; None: any.
    classes: int | None = None
    # How proxies that are features of images are moved, as arguments of `tfdml.callbacks.proxies`; None: it has
    # none. Only the callback `ImageProxies` sets them.
    image_proxies: dict[str, Any] | None = None
    # Whether `statistics` returns anything; if not, its input is not computed a second time.
    has_statistics = True
    # Whether each device holds a part of its variables.
    sharded = False
    # Whether it sees the levels of a hierarchy, and not only its classes.
    takes_levels = False
    # Numbers of first dimensions that it trains as embeddings of their own.
    nested_dims: Sequence[int] = ()

    # Why it cannot compare a batch with past ones, as part of a sentence; None: it can, and its `call` takes `queries`.
    refuses_memory: str | None = "it does not say how anchors are compared with other rows than those of their batch"

    def statistics(self, labels: Tensor, taken: Tensor) -> dict[str, Tensor]:
        """Scalars by name that tell whether the loss still learns from a batch; `tfdml.train` logs their means.

        NaN stands for what the batch has none of.

        Args:
            labels, taken: as `call` takes them.
        """
        del labels, taken
        return {}

    def callbacks(self, parts: Any) -> list[Callback]:
        """Callbacks that change the loss while it trains; `tfdml.train` adds them.

        Args:
            parts: `tfdml.callbacks.base.TrainingParts`.
        """
        del parts
        return []

    def check_callbacks(self, callbacks: Sequence[Callback]) -> None:
        """Raises a ValueError if a model of `tfdml.methods` is fitted without a callback that the loss needs.

        Args:
            callbacks: list of callbacks that `fit` has.
        """
        del callbacks

    def make_layer(self) -> Layer | None:
        """The layer that holds the loss' variables and gives what `call` takes, or None where it takes embeddings.

        The layer is a `tfdml.layers.LossLayer`, called with `(embeddings [B, d], labels [B])`. Keras tracks variables
        of layers only.
        """
        return None


def hooks_of(loss: Any) -> LossHooks:
    """Returns the loss itself if it declares hooks, else the defaults: for any other Keras loss, and for None."""
    return loss if isinstance(loss, LossHooks) else LossHooks()
