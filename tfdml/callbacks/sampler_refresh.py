"""Renews the tables of a sampler that follows the embedding, at intervals."""

import keras
import numpy as np

from tfdml.callbacks.steps_taken import steps_taken
from tfdml.clustering import check_finite
from tfdml.evaluation.embed import Embedder


class SamplerRefresh(keras.callbacks.Callback):
    """Embeds all training images every `sampler.refresh_every` epochs, and calls `sampler.refresh` with the embeddings.

    The first time is after so many epochs. No dataset is rebuilt and no function is traced again.

    Example: after `sampler = HardNeighbors(pairs=8)` and `sampler.bind(labels)`,
    `model.fit(batches, callbacks=[SamplerRefresh(images, sampler)])`.

    Args:
        images: all training images in the order of the sampler's rows, preprocessed as in evaluation: a dataset of
            full batches, which may extend beyond the last row, or an array.
        sampler: a sampler with `refresh_every`, bound to the labels.
        count: number of training images; None: all of `images`.
        log: object with `write(event, step, values)`, or None.
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
        verbose: verbosity of embedding, see `tfdml.evaluation.embed.Embedder`.
    """

    def __init__(self, images, sampler, *, count=None, log=None, step=None, verbose=0):
        super().__init__()
        self.images, self.sampler, self.count = images, sampler, count
        self.log, self.verbose = log, verbose
        # Of what a refresh changed, for checkpoints: far smaller as arrays than as numbers of a state.
        self.variables = [_copy(place, table) for place, table in enumerate(sampler.refreshed())]
        self._last = None
        self._epoch = self._goes_on_in = None
        self._step = step or (lambda: steps_taken(self.model))

    def set_model(self, model):
        super().set_model(model)
        self._embedder = Embedder(model, verbose=self.verbose)

    def on_train_begin(self, logs=None):
        # Another call of `fit` may begin with the same epoch number; only a resumed run has its tables.
        self._epoch, self._goes_on_in = self._goes_on_in, None

    def on_epoch_begin(self, epoch, logs=None):
        goes_on = epoch == self._epoch
        self._epoch = epoch
        if goes_on or not epoch or epoch % self.sampler.refresh_every:
            return
        embeddings = self._embedder(self.images, self.count)
        # A single one that is not would leave all rows without neighbors.
        check_finite(embeddings)
        self.sampler.refresh(embeddings, self._embedder.workers)
        changed = [_take_over(*both) for both in zip(self.variables, self.sampler.refreshed(), strict=True)]
        self._last = {"epoch": epoch, "changed": float(np.mean(changed))}
        if self.log:
            self.log.write("sampler", self._step(), {"changed": self._last["changed"]})

    def finding(self):
        """Returns the epoch of the last refresh and the fraction of the tables that it changed; None before it."""
        return self._last

    def get_state(self):
        return {"epoch": self._epoch, "last": self._last}

    def set_state(self, state):
        """Restores a state; the `variables` are restored before, and go into the sampler's tables."""
        self._goes_on_in, self._last = state["epoch"], state["last"]
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
