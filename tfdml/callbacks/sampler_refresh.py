"""Renews the tables of a sampler that follows the embedding, at intervals."""

from collections.abc import Mapping
from typing import Any, Unpack

import keras
import numpy as np

from tfdml.callbacks.embedding_callback import EmbeddingCallback, PassArguments
from tfdml.evaluation.embedder import ImageBatches


class SamplerRefresh(EmbeddingCallback):
    """Embeds all training images every `sampler.refresh_every` epochs, and calls `sampler.refresh` with the embeddings.

    The first time is after so many epochs. No dataset is rebuilt and no function is traced again.

    Example: after `sampler = HardNeighbors(pairs=8)` and `sampler.bind(labels)`,
    `model.fit(batches, shuffle=False, callbacks=[SamplerRefresh(images, sampler)])`.

    Args:
        images: all training images in the order of the sampler's rows, see `EmbeddingCallback`.
        sampler: a sampler with `refresh_every`, bound to the labels.
        **kwargs: other arguments of `EmbeddingCallback`.
    """

    def __init__(self, images: ImageBatches, sampler: Any, **kwargs: Unpack[PassArguments]):
        super().__init__(images, **kwargs)
        self.sampler = sampler
        # Of what a refresh changed, for checkpoints: far smaller as arrays than as numbers of a state.
        self.variables = [_copy(place, table) for place, table in enumerate(sampler.refreshed())]
        self._last = None

    def begin_epoch(self, epoch, goes_on):
        if goes_on or not epoch or epoch % self.sampler.refresh_every:
            return
        self.sampler.refresh(self.embed(), self.workers)
        changed = [_take_over(*both) for both in zip(self.variables, self.sampler.refreshed(), strict=True)]
        self._last = {"epoch": epoch, "changed": float(np.mean(changed))}
        self.tell("sampler", {"changed": self._last["changed"]})

    def finding(self) -> dict[str, Any] | None:
        """Returns the epoch of the last refresh and the fraction of the tables that it changed; None before it."""
        return self._last

    def get_state(self) -> dict[str, Any]:
        return {"last": self._last}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state; the `variables` are restored before, and go into the sampler's tables."""
        self._last = state["last"]
        for variable, table in zip(self.variables, self.sampler.refreshed(), strict=True):
            table.assign(variable.numpy())


def _copy(place, table):
    value = table.numpy()
    return keras.Variable(value, name=f"sampler_table_{place}", dtype=str(value.dtype), trainable=False)


def _take_over(variable, table):
    """Assigns the table to the variable, and returns the fraction that changed."""
    before, after = variable.numpy(), table.numpy()
    variable.assign(after)
    return np.mean(before != after)
