"""Progress for output that is not a terminal."""

import time

import keras

from tfdml.console.progress_bar import EVERY, Speed


class ProgressLines(keras.callbacks.Callback):
    """Prints a line every ten seconds of training or of a pass over images: which batch it is at.

    Args:
        every: seconds from one line to the next.
    """

    def __init__(self, every=EVERY):
        super().__init__()
        self.every = every

    def on_epoch_begin(self, epoch, logs=None):
        # Keras prints the number of the epoch.
        self._begin()

    def on_train_batch_end(self, batch, logs=None):
        self._tell("step", batch, f" - loss: {float(logs['loss']):.4f}" if "loss" in (logs or {}) else "")

    def on_predict_begin(self, logs=None):
        self._begin()

    def on_predict_batch_end(self, batch, logs=None):
        self._tell("embedded batch", batch, "")

    def _begin(self):
        self._speed, self._printed = Speed(), time.monotonic()

    def _tell(self, what, batch, more):
        now, steps = time.monotonic(), self.params["steps"]
        self._speed.add(1)
        if now - self._printed >= self.every:
            self._printed = now
            print(f"{what} {batch + 1}/{steps or '?'}{self._speed.told(steps and steps - batch - 1)}{more}", flush=True)
