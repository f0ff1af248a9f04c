"""Weighted sum of losses."""

import itertools
import math
from collections.abc import Sequence

import keras
from keras import ops

from tfdml.functional.checks import check_pairs_input
from tfdml.layers.loss_layer import LossInputs, layer_of
from tfdml.layers.proxies import check_plain_keras
from tfdml.losses.embedding_loss import EmbeddingLoss
from tfdml.registry import register_sum
from tfdml.registry.arguments import Tensor
from tfdml.registry.loss_hooks import hooks_of


def _joined(name, join):
    """The property of a sum that a function makes of the hooks of this name of its losses."""
    return property(lambda loss: join([getattr(hooks, name) for hooks in loss._hooks()]))


@register_sum("loss")
@keras.saving.register_keras_serializable(package="tfdml")
class WeightedSum(EmbeddingLoss):
    """The sum of several losses, each times its weight: `--loss="triplet+0.5*proxy_anchor"`.

    Example:

    ```python
    loss = tfdml.losses.WeightedSum([(1.0, tfdml.losses.Triplet()), (0.5, tfdml.losses.ProxyAnchor(classes=100))])
    ```

    Where a loss has variables, so has the sum: the layer that `make_layer` gives holds those of all its losses. The
    models of `tfdml.methods` make it themselves; in plain Keras the model ends with it,
    `outputs = loss.make_layer()(embeddings, labels)`. The labels may be left out unless a loss learns boundaries.

    Args:
        terms: list of `(weight, loss)`, weights being 0 or more. A regularizer of a loss' layer gets its loss' weight.
        reduction, name, dtype: see `EmbeddingLoss`; reductions of the single losses count for nothing.
    """

    terms: Sequence[tuple[float, keras.losses.Loss]]

    # What it declares is joined from its losses, see `LossHooks`.
    needs_pairs = _joined("needs_pairs", any)
    has_statistics = _joined("has_statistics", any)
    sharded = _joined("sharded", any)
    takes_levels = _joined("takes_levels", any)
    batch_parts = _joined("batch_parts", max)
    classes = _joined("classes", lambda each: min(filter(None, each), default=None))
    nested_dims = _joined("nested_dims", lambda each: tuple(sorted({*itertools.chain(*each)})))
    refuses_memory = _joined("refuses_memory", lambda each: next(filter(None, each), None))
    image_proxies = _joined("image_proxies", lambda each: next(filter(None, each), None))

    def check_arguments(self):
        terms = self.terms
        if not all(isinstance(term, list | tuple) and len(term) == 2 for term in terms):
            raise ValueError(f"Expected pairs of a weight and a loss, such as (1.0, Triplet()); received {terms!r}.")
        self.terms = [(weight, _loss_of(loss)) for weight, loss in terms]
        _check([weight for weight, _ in self.terms])
        of_images = [hooks for hooks in self._hooks() if hooks.image_proxies]
        if len(of_images) > 1:
            raise ValueError(
                f"{len(of_images)} losses of the sum have proxies that are features of images, and would set each "
                "other's. Use proxies='learnt' for all but one."
            )
        parts = sorted({hooks.batch_parts for hooks in self._hooks()} - {1})
        if len(parts) > 1:
            raise ValueError(
                f"Losses of the sum take batches in {parts[0]} and in {parts[1]} parts, such as given pairs and given "
                "triplets, and no batch is both."
            )
        # Made for the shapes that it tells; models make their own.
        self._shapes = self.make_layer()

    def callbacks(self, parts):
        return [callback for hooks in self._hooks() for callback in hooks.callbacks(parts)]

    def check_callbacks(self, callbacks):
        for hooks in self._hooks():
            hooks.check_callbacks(callbacks)

    def __call__(self, labels, taken, sample_weight=None):
        check_plain_keras(self.sharded)
        return super().__call__(labels, taken, sample_weight=sample_weight)

    def check_input(self, labels, taken):
        if self._shapes is None:
            return super().check_input(labels, taken)
        taken = ops.convert_to_tensor(taken)
        # Raises for another shape.
        self._shapes.split(taken)
        labels, rows = check_pairs_input(labels, taken[:, 0])
        return labels, rows[:, None]

    @property
    def numbers_anew(self):
        """Whether no loss takes labels for the numbers of its classes."""
        return self._shapes is None or self._shapes.classes == 1

    def label_classes(self, taken):
        return None if self.numbers_anew else self._shapes.classes

    def call(self, labels: Tensor, taken: Tensor, queries: int | None = None) -> Tensor:
        pairs = zip(self.terms, self._inputs(taken), strict=True)
        compared = () if queries is None else (queries,)
        return sum(weight * loss.call(labels, each, *compared) for (weight, loss), each in pairs)

    def statistics(self, labels, taken):
        """Those of the losses of the sum; where it has several, their places are told, from 0."""
        found = {}
        for place, (hooks, each) in enumerate(zip(self._hooks(), self._inputs(taken), strict=True)):
            of_loss = hooks.statistics(labels, each).items()
            found |= {f"{name}_of_loss_{place}" if len(self.terms) > 1 else name: value for name, value in of_loss}
        return found

    def make_layer(self):
        parts = [layer_of(loss) for _, loss in self.terms]
        if all(part is None for part in parts):
            return None
        return LossInputs(parts, [weight for weight, _ in self.terms])

    def _hooks(self):
        return [hooks_of(loss) for _, loss in self.terms]

    def _inputs(self, taken):
        """Returns the arguments of each loss."""
        return [taken] * len(self.terms) if self._shapes is None else self._shapes.split(taken)

    def get_config(self):
        terms = [[weight, keras.saving.serialize_keras_object(loss)] for weight, loss in self.terms]
        return {**super().get_config(), "terms": terms}


def _loss_of(loss):
    """The loss, or that of a serialized one."""
    loss = keras.saving.deserialize_keras_object(loss) if isinstance(loss, dict) else loss
    if not isinstance(loss, keras.losses.Loss):
        raise ValueError(f"Expected a keras.losses.Loss in each term, received {loss!r}.")
    return loss


def _check(weights):
    if not weights:
        raise ValueError("Expected one or more terms (weight, loss), received none.")
    for weight in weights:
        if not (isinstance(weight, int | float) and not isinstance(weight, bool) and 0 <= weight < math.inf):
            raise ValueError(f"Expected each weight to be a number of 0 or more, received {weight!r}.")
