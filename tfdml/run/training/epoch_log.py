"""Logs what each epoch of training measured."""

import time

import keras


class EpochLog(keras.callbacks.Callback):
    """Writes an epoch's training metrics, the learning rate of the next step, and what the loss found, to the log.

    Args:
        log: `RunLog`.
        step: function that gives the number of steps taken.
    """

    def __init__(self, log, step):
        super().__init__()
        self.log = log
        self._step = step

    def on_epoch_begin(self, epoch, logs=None):
        self._began = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        values = {name: float(value) for name, value in (logs or {}).items()}
        values["learning_rate"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        seconds = round(time.monotonic() - self._began, 3)
        self.log.write("train", self._step(), values, epoch=epoch + 1, seconds=seconds)
        found = {name: float(f"{value:.6g}") for name, value in self.model.loss_statistics().items()}
        self.log.write("pairs", self._step(), found, epoch=epoch + 1)
