"""Loss hooks: what a loss declares in addition to the values that it computes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tfdml.registry.arguments import Tensor

if TYPE_CHECKING:
    from keras.callbacks import Callback
    from keras.layers import Layer
else:
    # Keras is not imported here, because help is printed without it.
    Callback = Layer = Any


# Targets of a batch with reference vectors: the vectors of a teacher, and the embeddings of the initial model.
TEACHER, INITIAL = REFERENCES = ("teacher", "initial")
# Target with other images. The model compares their embeddings with the initial embeddings, instead of the batch's.
ANCHOR = "anchor"


class LossHooks:
    """Declarations of a loss for models, callbacks and `tfdml.train`, with defaults for a loss that declares nothing.

    `tfdml.losses.EmbeddingLoss` inherits them. Any other Keras loss has the defaults; see `hooks_of`.
    """

    # Whether each image needs another image of its class in the batch.
    needs_pairs = False
    # Number of equal parts of a batch. Row i of one part belongs to row i of the others; see `Sampler.parts`.
    batch_parts = 1
    # Number of classes that the loss was created for. If None, any number.
    classes: int | None = None
    # How to move proxies that are features of images, as arguments of `tfdml.callbacks.proxies`. If None, the loss has
    # none. Only the callback `ImageProxies` sets such proxies.
    image_proxies: dict[str, Any] | None = None
    # Whether `statistics` returns anything. If not, its input is not computed a second time.
    has_statistics = True
    # Whether each device holds a part of the loss's variables.
    sharded = False
    # Whether the loss uses the levels of a class hierarchy instead of only the finest classes.
    takes_levels = False
    # Sizes of leading parts of the embedding that the loss trains as separate embeddings.
    nested_dims: Sequence[int] = ()

    # Names of the targets with vectors of another network that embeddings are compared with, such as `("teacher",)`.
    references: Sequence[str] = ()
    # Whether embeddings learn to equal the teacher's vectors, so that both networks share a space.
    shares_space = False
    # Factor of the squared distance between the backbone's weights and their initial values, which the step adds.
    weights_penalty = 0.0

    # Keras variables of the loss itself, which callbacks change. On JAX, a step only sees variables of its state.
    variables: Sequence[Any] = ()

    # Why the loss cannot use cross-batch memory, as part of a sentence. If None, it can, and `call` accepts `queries`.
    refuses_memory: str | None = "it does not define how to compare anchors with rows outside of their batch"

    def statistics(self, labels: Tensor, taken: Tensor) -> dict[str, Tensor]:
        """Returns scalars by name that show whether the loss still learns from a batch. `tfdml.train` logs their means.

        A statistic is NaN if the batch has nothing to compute it from.

        Args:
            labels, taken: the arguments of `call`.
        """
        del labels, taken
        return {}

    def callbacks(self, parts: Any) -> list[Callback]:
        """Returns callbacks that change the loss during training. `tfdml.train` adds them.

        Args:
            parts: `tfdml.callbacks.base.TrainingParts`.
        """
        del parts
        return []

    def check_callbacks(self, callbacks: Sequence[Callback]) -> None:
        """Raises a ValueError if a `tfdml.methods` model is fitted without a callback that the loss needs.

        Args:
            callbacks: callbacks that were passed to `fit`.
        """
        del callbacks

    def with_levels(self, loss: Any, by_level: Callable[[Any], Any]) -> Any:
        """Returns what `tfdml.train` uses instead of a loss if classes have levels. By default, the loss by level.

        Args:
            loss: the loss that declares these hooks.
            by_level: function from a loss to its `ByLevel`.
        """
        return by_level(loss)

    def make_layer(self) -> Layer | None:
        """Returns a layer that holds the loss's variables and computes the input of `call`, or None.

        The layer is a `tfdml.layers.LossLayer`, which is called with `(embeddings [B, d], labels [B])`. Variables need
        a layer because Keras does not track the variables of losses. If the result is None, `call` receives embeddings.
        """
        return None


def hooks_of(loss: Any) -> LossHooks:
    """Returns the loss itself if it declares hooks, or the defaults for any other Keras loss and for None."""
    return loss if isinstance(loss, LossHooks) else LossHooks()
