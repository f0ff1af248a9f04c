"""Saves and restores everything that decides how a run goes on."""

import keras
import numpy as np

from tfdml.callbacks.retrieval_evaluation import TrainingDiverged
from tfdml.console.startup import TrainingStopped
from tfdml.run.directory.checkpoint_folder import restore, snapshot


class RunCheckpoint(keras.callbacks.Callback):
    """Checkpoints at the end of epochs, every so many steps, and when the run is asked to stop.

    Stands last among the callbacks, so that what it saves includes what the others did.

    Args:
        folder: `CheckpointFolder`.
        progress: `Progress` of the run.
        parts: name to object with `get_state()` and `set_state(state)`, saved along, and so are its Keras `variables`
            if it has any.
        every_steps: also save after so many steps; 0 saves at the end of epochs only.
        stop: `StopRequest`, or None.
        writes: False for all but the chief of several workers.
    """

    def __init__(self, folder, progress, parts, *, every_steps=0, stop=None, writes=True):
        super().__init__()
        self.folder, self.progress, self.parts = folder, progress, parts
        self.every_steps, self.stop, self.writes = every_steps, stop, writes
        self._metrics_to_restore = None

    def resume(self, model, warn):
        """Restores the model, its optimizer and the parts from the newest checkpoint; False without a checkpoint."""
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
        # Keras has just reset the metrics; the rest of an epoch goes on from what its beginning had measured.
        if self._metrics_to_restore is not None and not self.progress.at_epoch_end:
            restore(self.model.metrics_variables, self._metrics_to_restore, self.model.distribute_strategy)
        self._metrics_to_restore = None

    def on_train_batch_end(self, batch, logs=None):
        # At an epoch's last step, or where patience ends it, its end is still to come and belongs into what is saved.
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
        # Of several workers the one that writes decides: the others notice that it has left.
        return self.writes and self.stop is not None and self.stop.requested

    def _save(self):
        if self.writes:
            variables = self._kept_variables(self.model) + self.model.metrics_variables
            arrays = snapshot(variables, self.model.distribute_strategy)
            self._check_finite(arrays[: len(self.model.variables)])
            state = {name: part.get_state() for name, part in self.parts.items()}
            self.folder.write(self.progress.step, arrays, state)

    def _kept_variables(self, model):
        # Parts are callbacks of any kind, of which few have variables.
        of_parts = [variable for part in self.parts.values() for variable in getattr(part, "variables", [])]
        return model.variables + model.optimizer.variables + of_parts

    def _check_finite(self, arrays):
        # A step whose loss was finite can leave weights that are not; saved, they would push out the good ones.
        for name, array in arrays:
            if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
                raise TrainingDiverged(f"The variable {name.partition('|')[2]} is not finite", self.progress.step)

    def _leave(self):
        raise TrainingStopped(f"Stopped by {self.stop.requested} after step {self.progress.step}, which is saved.")
