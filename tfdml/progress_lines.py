"""Progress for output that is not a terminal."""

import time

import keras


class ProgressLines(keras.callbacks.Callback):
    """Prints a line every few seconds of training or of a pass over images: which batch it is at.

    Args:
        every: seconds from one line to the next.
    """

    def __init__(self, every=5.0):
        super().__init__()
        self.every = every

    def on_epoch_begin(self, epoch, logs=None):
        # Keras prints the number of the epoch.
        self._told = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        self._tell("step", batch, f" - loss: {float(logs['loss']):.4f}" if "loss" in (logs or {}) else "")

    def on_predict_begin(self, logs=None):
        self._told = time.monotonic()

    def on_predict_batch_end(self, batch, logs=None):
        self._tell("embedded batch", batch, "")

    def _tell(self, what, batch, more):
        now = time.monotonic()
        if now - self._told >= self.every:
            self._told = now
            print(f"{what} {batch + 1}/{self.params['steps'] or '?'}{more}", flush=True)
