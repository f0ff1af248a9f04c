"""Progress of training, and of passes over images if the output is not a terminal."""

import time

import keras

from tfdml.console import scores
from tfdml.console.progress_bar import EVERY, Speed

# Metrics to show next to the one that selects the best model: the first of these that is measured.
SECOND = ("map_at_r", "recall_at_1")
SHOWN = 2


class EpochProgress(keras.callbacks.ProgbarLogger):
    """Keras' progress of training with the loss alone, and a line with two scores after each evaluation.

    The log of the run has all metrics. List this callback after the callbacks whose metrics it shows. In Keras' logs,
    the metrics of an evaluation start with `prefix`, such as `validation`; `monitor` is the metric, without the prefix,
    that selects the best model.
    """

    def __init__(self, prefix, monitor):
        super().__init__()
        self.prefix, self.first = prefix, (monitor, *SECOND)

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, _loss_in(logs))

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, _loss_in(logs))
        start = f"{self.prefix}_"
        found = {name.removeprefix(start): value for name, value in (logs or {}).items() if name.startswith(start)}
        names = [name for name in dict.fromkeys((*self.first, *found)) if name in found][:SHOWN]
        if names and self.verbose:
            shown = ", ".join(f"{scores.titled(name)} {scores.score(name, found[name])}" for name in names)
            print(f"{self.prefix}: {shown}", flush=True)


def _loss_in(logs):
    return {name: value for name, value in (logs or {}).items() if name == "loss"}


class ProgressLines(keras.callbacks.Callback):
    """Prints the current batch every ten seconds, during training or while images are embedded.

    `of` is what is embedded, such as `1,000 test images`.
    """

    def __init__(self, every=EVERY, of="the images"):
        super().__init__()
        self.every, self.of = every, of

    def on_epoch_begin(self, epoch, logs=None):
        # The number of the epoch is printed by Keras.
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
