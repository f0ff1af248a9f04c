"""What all losses on embeddings share."""

import keras

from tfdml.functional.checks import check_pairs_input
from tfdml.functional.pairs import batch_ids


class EmbeddingLoss(keras.losses.Loss):
    """Base of losses on `(labels [B], embeddings [B, d])` with one value for each anchor, `[B]`.

    Works in `keras.Model.compile(loss=...)`. Integer labels of any size are kept apart; values are computed in
    float32 whatever the policy.

    Args:
        reduction: Keras' reduction of the `[B]` values.
        name: name of the loss.
        dtype: precision of the values, float32 or float64.
    """

    # Whether it learns nothing from an image without another one of its class in the batch.
    needs_pairs = True

    def __init__(self, *, reduction="sum_over_batch_size", name=None, dtype="float32"):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        # Keras casts labels to it, too: half precision would make one of several classes of a large batch.
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"Losses are computed in float32 or float64, received {dtype!r}.")

    def __call__(self, labels, embeddings, sample_weight=None):
        labels, embeddings = self.check_input(labels, embeddings)
        return super().__call__(batch_ids(labels), embeddings, sample_weight=sample_weight)

    def check_input(self, labels, embeddings):
        """Returns both as `call` computes with them, or raises a ValueError; a loss may take other than embeddings."""
        return check_pairs_input(labels, embeddings)

    def callbacks(self, parts):
        """Callbacks that change the loss while it trains; `tfdml.train` adds them.

        Args:
            parts: `tfdml.callbacks.training_parts.TrainingParts`.
        """
        del parts
        return []

    def make_layer(self):
        """The layer that holds the loss' variables and gives what `call` takes, or None where it takes embeddings.

        The layer is called with `(embeddings [B, d], labels [B])`. Keras tracks variables of layers only.
        """
        return None

    def get_config(self):
        return {**super().get_config(), "dtype": self.dtype}
