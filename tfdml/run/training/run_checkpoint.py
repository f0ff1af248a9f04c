"""Saves and restores the state of a run, and stops it on request."""

import logging

import keras
import numpy as np

from tfdml.callbacks.retrieval_evaluation import TrainingDiverged
from tfdml.console.startup import TrainingStopped
from tfdml.run.directory.checkpoints import restore, snapshot


class RunCheckpoint(keras.callbacks.Callback):
    """Saves checkpoints at the end of epochs, every few steps, and when a `StopRequest` asks the run to stop.

    It is the last callback, so that checkpoints include the changes of the others. `parts` maps names to objects with
    `get_state()` and `set_state(state)`; their state and their Keras `variables` are saved as well. If `every_steps` is
    0, it saves only at the end of epochs. Only the chief worker `writes`.
    """

    def __init__(self, folder, progress, parts, *, every_steps=0, stop=None, writes=True):
        super().__init__()
        self.folder, self.progress, self.parts = folder, progress, parts
        self.every_steps, self.stop, self.writes = every_steps, stop, writes
        self._metrics_to_restore = None

    def resume(self, model, warn):
        """Restores the model, its optimizer and the parts from the newest checkpoint; returns whether there is one."""
        newest = self.folder.read_newest(warn)
        if newest is None:
            return False
        step, arrays, state = newest
        kept = self._kept_variables(model)
        restore(kept, arrays[: len(kept)], model.distribute_strategy)
        self._metrics_to_restore = arrays[len(kept) :]
        self.progress.step = step
        for name, part in self.parts.items():
            part.set_state(state[name])
        return True

    def on_epoch_begin(self, epoch, logs=None):
        # Keras has just reset the metrics, but those of a partial epoch include its first steps.
        if self._metrics_to_restore is not None and not self.progress.at_epoch_end:
            restore(self.model.metrics_variables, self._metrics_to_restore, self.model.distribute_strategy)
        self._metrics_to_restore = None

    def on_train_batch_end(self, batch, logs=None):
        # After the last step of an epoch, or if patience stops the run, on_epoch_end saves what all callbacks did.
        if self.progress.at_epoch_end or self.model.stop_training:
            return
        asked = self._asked_to_stop()
        if asked or (self.every_steps and self.progress.step % self.every_steps == 0):
            self._save()
        if asked:
            self._leave()

    def on_epoch_end(self, epoch, logs=None):
        self._save()
        if self._asked_to_stop():
            self._leave()

    def _asked_to_stop(self):
        # Only the chief worker decides to stop. The other workers notice that it is gone.
        return self.writes and self.stop is not None and self.stop.requested

    def _save(self):
        if self.writes:
            variables = self._kept_variables(self.model) + self.model.metrics_variables
            arrays = snapshot(variables, self.model.distribute_strategy)
            # A step with a finite loss can produce weights that are not finite. They must not replace good checkpoints.
            for name, array in arrays[: len(self.model.variables)]:
                if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
                    raise TrainingDiverged(f"The variable {name.partition('|')[2]} is not finite", self.progress.step)
            state = {name: part.get_state() for name, part in self.parts.items()}
            self.folder.write(self.progress.step, arrays, state)

    def _kept_variables(self, model):
        # Few of the parts have variables.
        of_parts = [variable for part in self.parts.values() for variable in getattr(part, "variables", [])]
        return model.variables + model.optimizer.variables + of_parts

    def _leave(self):
        raise TrainingStopped(f"Stopped by {self.stop.requested} after step {self.progress.step}, and saved.")


class BadImages(keras.callbacks.Callback):
    """Logs each image that cannot be read once, and stops the run if there are too many of them.

    `unreadable` is a boolean variable `[N]` with the rows that could not be read so far, and `most` is their maximum
    number. `describe` returns the name of a row and the reason.
    """

    def __init__(self, unreadable, *, most, describe):
        super().__init__()
        self.unreadable, self.most, self.describe = unreadable, most, describe
        self._logged = []

    def on_train_batch_end(self, batch, logs=None):
        rows = np.flatnonzero(self.unreadable.numpy()).tolist()
        for row in sorted(set(rows) - set(self._logged)):
            self._logged.append(row)
            message = "Cannot read %s. Other images of its class replace it (%d of at most %d unreadable images)."
            logging.getLogger(__name__).warning(message, self.describe(row), len(self._logged), self.most)
        if len(rows) > self.most:
            raise ValueError(
                f"{len(rows)} training images cannot be read, more than --max_bad_images={self.most}: "
                f"{', '.join(self.describe(row) for row in self._logged)}. Replace or remove them."
            )

    def finding(self):
        return int(np.count_nonzero(self.unreadable.numpy()))

    def get_state(self):
        return {"rows": self._logged}

    def set_state(self, state):
        """Restores the images that have already been logged."""
        self._logged = list(state["rows"])
        unreadable = np.zeros(self.unreadable.shape, bool)
        unreadable[self._logged] = True
        self.unreadable.assign(unreadable)
