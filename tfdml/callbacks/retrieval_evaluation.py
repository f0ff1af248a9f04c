"""Measures retrieval while training, and keeps the best model."""

import contextlib
import time

import keras
import numpy as np

from tfdml.callbacks.steps_taken import steps_taken
from tfdml.errors import TrainingDiverged
from tfdml.evaluation.embed import Embedder
from tfdml.evaluation.retrieval import recall_at_k


class RetrievalEvaluation(keras.callbacks.Callback):
    """Recall@K of a held-out split at the start and every so many epochs or steps.

    Epoch logs gain `val_recall_at_1` and so on, so that Keras' own callbacks can watch them. In the list of callbacks
    it stands before these.

    Example: `model.fit(batches, callbacks=[RetrievalEvaluation(test_images, test_labels)])`.

    Args:
        images: dataset of full batches of images, or an array `[N, H, W, 3]`.
        labels: `[N]` class numbers; a dataset's batches may go on beyond N.
        every: how many epochs or steps pass between evaluations.
        unit: `epochs` or `steps`.
        prefix: what the metrics' names begin with in epoch logs.
        measure: function of the embeddings `[N, d]` that gives metrics; Recall@K of all against all if None.
        monitor: the metric that decides which model is best.
        patience: training stops after that many evaluations without a better one; None never stops.
        on_evaluation: function `(step, metrics, is_best, seconds)` called after each evaluation.
        step: function that gives the number of steps taken; Keras' count of the optimizer if None.
        embedder: Keras model from images to embeddings that shares its layers with the one that is trained, where that
            has other outputs; None: the model that is trained.
        average: `WeightAverage` whose weights are evaluated, and stay in the model during `on_evaluation`; or None.
        verbose: Keras' verbosity of the embedding pass.
    """

    def __init__(
        self,
        images,
        labels,
        *,
        every=1,
        unit="epochs",
        prefix="val",
        measure=None,
        monitor="recall_at_1",
        patience=None,
        on_evaluation=None,
        step=None,
        embedder=None,
        average=None,
        verbose=0,
    ):
        super().__init__()
        if unit not in ("epochs", "steps") or every < 1 or patience == 0:
            raise ValueError(
                "Expected every >= 1, unit 'epochs' or 'steps', and patience >= 1 or None; "
                f"received {every}, {unit!r} and {patience}."
            )
        self.images, self.labels = images, labels
        self.every, self.unit = every, unit
        self.prefix = prefix
        self.measure = measure or (lambda embeddings: recall_at_k(embeddings, labels))
        self.monitor, self.patience = monitor, patience
        self.on_evaluation = on_evaluation
        self.embedder = embedder
        self.average = average
        self.verbose = verbose
        self.history = []
        self.best = None
        self._waited = 0
        self._step = step or (lambda: steps_taken(self.model))

    def set_model(self, model):
        super().set_model(model)
        self._embedder = Embedder(self.embedder or model, verbose=self.verbose)

    def check_order(self, callbacks, model):
        """Raises a ValueError where a callback that watches these metrics stands before this one in the list."""
        for callback in callbacks[: callbacks.index(self)]:
            watched = getattr(callback, "monitor", None)
            name = watched.removeprefix(f"{self.prefix}_") if isinstance(watched, str) else watched
            # Keras measures the model's own metrics itself, on `validation_data`.
            if name != watched and name not in [metric.name for metric in model.metrics]:
                raise ValueError(
                    f"{type(callback).__name__}(monitor={watched!r}) stands before RetrievalEvaluation: "
                    "it would look for this metric before it is measured. Put RetrievalEvaluation first."
                )

    def on_train_begin(self, logs=None):
        if self._step() == 0:
            self._evaluate()

    def on_epoch_begin(self, epoch, logs=None):
        self._evaluations_before = len(self.history)

    def on_train_batch_end(self, batch, logs=None):
        if self.unit == "steps" and self._step() % self.every == 0:
            self._evaluate()

    def on_epoch_end(self, epoch, logs=None):
        if self.unit == "epochs" and (epoch + 1) % self.every == 0:
            self._evaluate()
        if logs is not None and len(self.history) > self._evaluations_before:
            recalls = {name: value for name, value in self.history[-1]["metrics"].items() if name != "queries"}
            logs.update({f"{self.prefix}_{name}": value for name, value in recalls.items()})

    @property
    def exhausted(self):
        """True when patience has run out."""
        return self.patience is not None and self._waited >= self.patience

    def get_state(self):
        return {"history": self.history, "best": self.best, "waited": self._waited}

    def set_state(self, state):
        self.history, self.best, self._waited = state["history"], state["best"], state["waited"]

    def evaluated_weights(self):
        """Context in which the model has the weights that are evaluated."""
        return self.average.applied() if self.average else contextlib.nullcontext()

    def _evaluate(self):
        with self.evaluated_weights():
            self._measure()
        if self.exhausted:
            self.model.stop_training = True

    def _measure(self):
        began = time.monotonic()
        embeddings = self._embedder(self.images, len(self.labels))
        if not np.isfinite(embeddings).all():
            raise TrainingDiverged("Embeddings are not finite", self._step())
        metrics = self.measure(embeddings)
        entry = {"step": self._step(), "metrics": metrics}
        self.history.append(entry)
        is_best = self.best is None or metrics[self.monitor] > self.best["metrics"][self.monitor]
        self._waited = 0 if is_best else self._waited + 1
        if is_best:
            self.best = entry
        if self.on_evaluation:
            self.on_evaluation(entry["step"], metrics, is_best, time.monotonic() - began)
