"""Progress of training, and of passes over images for output that is not a terminal."""

import time

import keras

from tfdml.console.progress_bar import EVERY, Speed

# Metrics of retrieval that are shown next to the one that selects the best model, the first that is measured.
SECOND = ("map_at_r", "recall_at_1")
SHOWN = 3


class EpochProgress(keras.callbacks.ProgbarLogger):
    """Keras' own progress of training with three metrics at most: the loss, the one that selects the model and another.

    List it after the callbacks whose metrics it shows. The log of the run has all metrics. `prefix` is that of metrics
    of retrieval, such as `validation`, which `monitor` lacks, the metric that selects the best model.
    """

    def __init__(self, prefix, monitor):
        super().__init__()
        self.prefix, self.first = f"{prefix}_", ("loss", *(f"{prefix}_{name}" for name in (monitor, *SECOND)))

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, self._shown(logs))

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, self._shown(logs))

    def _shown(self, logs):
        logs = logs or {}
        others = [name for name in logs if name.startswith(self.prefix)]
        names = [name for name in dict.fromkeys((*self.first, *others)) if name in logs]
        return {name: logs[name] for name in names[:SHOWN]}


class ProgressLines(keras.callbacks.Callback):
    """Prints a line every ten seconds of training or of a pass over images: which batch it is at.

    `of` is what a pass embeds, such as `1,000 test images`.
    """

    def __init__(self, every=EVERY, of="the images"):
        super().__init__()
        self.every, self.of = every, of

    def on_epoch_begin(self, epoch, logs=None):
        # Keras prints the number of the epoch.
        self._begin()

    def on_train_batch_end(self, batch, logs=None):
        self._tell("step", batch, f" - loss: {float(logs['loss']):.4f}" if "loss" in (logs or {}) else "")

    def on_predict_begin(self, logs=None):
        self._begin()

    def on_predict_batch_end(self, batch, logs=None):
        self._tell("embedded batch", batch, "", of=f" of {self.of}")

    def _begin(self):
        self._speed, self._printed = Speed(), time.monotonic()

    def _tell(self, what, batch, more, of=""):
        now, steps = time.monotonic(), self.params["steps"]
        self._speed.add(1)
        if now - self._printed >= self.every:
            self._printed = now
            speed = self._speed.in_words(steps and steps - batch - 1)
            print(f"{what} {batch + 1}/{steps or '?'}{of}{speed}{more}", flush=True)
