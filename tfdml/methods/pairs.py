"""Base class of models that train on two inputs per row."""

from collections.abc import Mapping

from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.registry.arguments import Tensor


class PairedModel(EmbeddingModel):
    """Embedding model that can train on pairs: dictionaries with two inputs per row.

    Calling the model on inputs without a dictionary returns their embeddings, so it evaluates, exports and searches
    like every other model. Subclasses implement `learner_embeddings` for both: `[B, 1, d]` without a dictionary, and
    `[B, 2, d]` of pairs. The first embedding of a pair belongs to the input `first`.

    Args:
        backbone, freeze_batch_norm, head, preprocessing: see `EmbeddingModel`.
    """

    # Key of the input that a call without a dictionary embeds.
    first = ""
    # Whether training batches are pairs.
    takes_pairs = True

    @property
    def learners_shape(self) -> tuple[int, int] | None:
        """Rows for each element of a training batch and their dimensions, or `None` before the first call."""
        return self._learners_shape and (1 + self.takes_pairs, self._learners_shape[-1])

    @property
    def learner_count(self) -> int | None:
        """1, because an image has one embedding, or `None` before the first call of the model."""
        return self._learners_shape and 1

    def call(self, images, training=False, merged=True):
        if not isinstance(images, Mapping):
            return super().call(images, training=training, merged=merged)
        if self._learners_shape is None:
            # The first call makes the layers of the loss, for the embeddings of one input.
            super().call(images[self.first])
        learners = self.learner_embeddings(images, training=training)
        return self.for_retrieval(learners) if merged else learners

    def for_retrieval(self, learners) -> Tensor:
        return learners[:, 0]
