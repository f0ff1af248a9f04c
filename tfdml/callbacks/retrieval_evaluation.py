"""Evaluates retrieval during training, tracks the best model, and stops runs that diverge."""

import contextlib
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

import keras
import numpy as np
from keras import ops

from tfdml.callbacks.base import steps_taken
from tfdml.callbacks.schedules import WeightAverage
from tfdml.evaluation.embedder import Embedder, ImageBatches, NanWeight
from tfdml.evaluation.evaluate import evaluate
from tfdml.evaluation.metrics import is_metric
from tfdml.registry.arguments import Count, Labels, StepCounter, Verbosity, integer
from tfdml.registry.fields import Declared


class TrainingDiverged(FloatingPointError, RuntimeError):
    """Raised when the loss, the gradient, or a result of these is NaN or infinite.

    Args:
        problem: what is not finite.
        step: number of steps taken.
    """

    def __init__(self, problem: str, step: int):
        super().__init__(
            f"{problem} at step {step}. Try a lower learning rate, a larger margin of the loss, or float32: "
            "keras.config.set_dtype_policy('float32'), in a command --precision=float32. Earlier checkpoints are "
            "intact."
        )


class DivergenceGuard(keras.callbacks.Callback):
    """Raises `TrainingDiverged` at the first step whose loss or gradient norm is not finite.

    A model that is not of tfdml logs no gradient norm. Its weights are looked at after each epoch: on a CPU, relu makes
    zeros of the NaN in an image, so that the weights become NaN and the loss does not.

    Args:
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
    """

    def __init__(self, step: StepCounter | None = None):
        super().__init__()
        self._step = step or (lambda: steps_taken(self.model))

    def on_train_batch_end(self, batch, logs=None):
        # Loss scaling skips steps whose gradient overflows, which is correct.
        scaled = isinstance(self.model.optimizer, keras.optimizers.LossScaleOptimizer)
        watched = ("loss",) if scaled else ("loss", "gradient_norm")
        for name in watched:
            value = float((logs or {}).get(name, 0.0))
            if not np.isfinite(value):
                raise TrainingDiverged(f"The {name.replace('_', ' ')} is {value}", self._step())

    def on_epoch_end(self, epoch, logs=None):
        if "gradient_norm" in (logs or {}):
            return
        for weight in self.model.trainable_variables:
            if not np.all(ops.isfinite(weight)):
                raise TrainingDiverged(f"The weight {weight.path} is not finite", self._step())


# Difference at which embeddings count as equal, relative to the largest value: what rounding makes of equal ones.
EQUAL = 2.0**-20


class RetrievalEvaluation(Declared, keras.callbacks.Callback):
    """Evaluates retrieval of a held-out split at the start, and every N epochs or steps.

    It adds `val_recall_at_1` and so on to the epoch logs, so that Keras' own callbacks can monitor them. List it before
    those callbacks.

    Example: `model.fit(batches, shuffle=False, callbacks=[RetrievalEvaluation(test_images, test_labels)])`.

    Args:
        images: dataset of full batches of images, or an array `[N, H, W, 3]`.
        labels: `[N]` class numbers; a dataset's batches may extend beyond N.
        every: number of epochs or steps between evaluations.
        unit: `epochs` or `steps`.
        prefix: prefix of the metrics' names in epoch logs.
        measure: function of the embeddings `[N, d]` that returns metrics; None: Recall@K among all images.
        monitor: the metric that selects the best model.
        patience: number of evaluations without improvement after which training stops; None: never.
        patience_from: number of steps before which evaluations do not count for it: a loss on proxies makes a
            pretrained model worse at first.
        on_evaluation: function `(step, metrics, is_best, seconds)` called after each evaluation.
        step: function that returns the number of steps taken; None: the optimizer's `iterations`.
        embedder: Keras model from images to embeddings that shares layers with the trained model, if that has other
            outputs; None: the trained model.
        average: `WeightAverage` whose weights are evaluated, and are in the model during `on_evaluation`; or None.
        verbose: verbosity of embedding, see `tfdml.evaluation.embedder.Embedder`.
    """

    def __init__(
        self,
        images: ImageBatches,
        labels: Labels,
        *,
        every: Count = 1,
        unit: Literal["epochs", "steps"] = "epochs",
        prefix: str = "val",
        measure: Callable[[np.ndarray], dict[str, Any]] | None = None,
        monitor: str = "recall_at_1",
        patience: Count | None = None,
        patience_from: Annotated[int, integer(0)] = 0,
        on_evaluation: Callable[[int, dict[str, Any], bool, float], Any] | None = None,
        step: StepCounter | None = None,
        embedder: keras.Model | None = None,
        average: WeightAverage | None = None,
        verbose: Verbosity = 0,
    ):
        super().__init__()
        self.images, self.labels = images, labels
        self.every, self.unit = every, unit
        self.prefix = prefix
        self.measure = measure or (lambda embeddings: evaluate(embeddings, labels))
        self.monitor, self.patience, self.patience_from = monitor, patience, patience_from
        self.on_evaluation = on_evaluation
        self.embedder = embedder
        self.average = average
        self.verbose = verbose
        self.history = []
        self.best = None
        # Of the last evaluation; not in the state, so None after a resume.
        self.embeddings = None
        # Evaluations since the highest value that counts for patience, and that value.
        self._waited, self._highest = 0, None
        self._ended = False
        self._told_of_equal = False
        self._step = step or (lambda: steps_taken(self.model))

    def set_model(self, model):
        super().set_model(model)
        self._embedder = Embedder(self.embedder or model, verbose=self.verbose, of=f"{self.prefix} images")

    def check_order(self, callbacks: Sequence[keras.callbacks.Callback], model: keras.Model) -> None:
        """Raises a ValueError if a callback that monitors these metrics is listed before this one."""
        for callback in callbacks[: callbacks.index(self)]:
            watched = monitored(callback)
            name = watched.removeprefix(f"{self.prefix}_")
            # Keras computes the model's own metrics itself, on `validation_data`.
            if name != watched and name not in [metric.name for metric in model.metrics]:
                raise ValueError(
                    f"{type(callback).__name__}(monitor={watched!r}) is listed before RetrievalEvaluation, so it "
                    "would not find this metric. List RetrievalEvaluation first."
                )

    def on_train_begin(self, logs=None):
        # Of an earlier `fit`, maybe of another model.
        if self._ended:
            self._waited = 0
        if self._step() == 0:
            self.history, self.best, self._waited, self._highest = [], None, 0, None
            self._evaluate()
        self._passed = self._step()

    def on_train_end(self, logs=None):
        self._ended = True

    def on_epoch_begin(self, epoch, logs=None):
        self._evaluations_before = len(self.history)

    def on_train_batch_end(self, batch, logs=None):
        if self.unit != "steps":
            return
        # Several steps are one batch here if they are executed together, and several batches one step if gradients are
        # accumulated.
        step, passed = self._step(), self._passed
        self._passed = step
        if step // self.every > passed // self.every:
            self._evaluate()

    def on_epoch_end(self, epoch, logs=None):
        if self.unit == "epochs" and (epoch + 1) % self.every == 0:
            self._evaluate()
        if logs is not None and len(self.history) > self._evaluations_before:
            metrics = self.history[-1]["metrics"].items()
            # Keras' progress bar averages these values, and fails at None.
            values = {name: value for name, value in metrics if name != "queries" and value is not None}
            logs.update({f"{self.prefix}_{name}": value for name, value in values.items()})

    @property
    def exhausted(self) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and self._waited >= self.patience

    def get_state(self) -> dict[str, Any]:
        return {"history": self.history, "best": self.best, "waited": self._waited, "highest": self._highest}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state; the next `fit` goes on with it, with the patience that was left."""
        self._ended = False
        self.history, self.best = state["history"], state["best"]
        self._waited, self._highest = state["waited"], state["highest"]

    def evaluated_weights(self) -> AbstractContextManager[None]:
        """Returns a context in which the model has the weights to evaluate."""
        return self.average.applied() if self.average else contextlib.nullcontext()

    def _evaluate(self):
        with self.evaluated_weights():
            self._measure()
        if self.exhausted:
            self.model.stop_training = True

    def _measure(self):
        began = time.monotonic()
        try:
            self.embeddings = self._embedder(self.images, len(self.labels))
        except NanWeight as error:
            raise TrainingDiverged(f"The weight {error.path} is NaN", self._step()) from None
        if not np.isfinite(self.embeddings).all():
            raise TrainingDiverged("Embeddings are not finite", self._step())
        self._warn_of_equal()
        metrics = self.measure(self.embeddings)
        if self.monitor not in metrics:
            raise ValueError(
                f"RetrievalEvaluation(monitor={self.monitor!r}): no such metric is measured. Measured are "
                f"{', '.join(metrics)}; only Keras' logs add the prefix {self.prefix}_."
            )
        if metrics[self.monitor] is None:
            raise ValueError(
                f"{self.monitor} selects the best model, and has no value for these {len(self.labels)} images. "
                "Select by another metric."
            )
        entry = {"step": self._step(), "metrics": metrics}
        self.history.append(entry)
        is_best = self.best is None or metrics[self.monitor] > self.best["metrics"][self.monitor]
        if is_best:
            self.best = entry
        if entry["step"] >= self.patience_from:
            improves = self._highest is None or metrics[self.monitor] > self._highest
            self._waited = 0 if improves else self._waited + 1
            self._highest = metrics[self.monitor] if improves else self._highest
        if self.on_evaluation:
            self.on_evaluation(entry["step"], metrics, is_best, time.monotonic() - began)

    def _warn_of_equal(self):
        """Warns once if all embeddings are equal, with which every metric is that of chance or 0."""
        largest = np.abs(self.embeddings).max(initial=0.0)
        if self._told_of_equal or len(self.embeddings) < 2 or np.ptp(self.embeddings, axis=0).max() > EQUAL * largest:
            return
        self._told_of_equal = True
        warnings.warn(
            f"All {len(self.embeddings)} embeddings are equal at step {self._step()}, so that no image is found: "
            "Recall@1 is 0. Check that the images differ and that their pixels are scaled as the backbone expects; if "
            "the embeddings differed before, lower the learning rate or use another loss or mining.",
            stacklevel=2,
        )


def monitored(callback: keras.callbacks.Callback) -> str:
    """Returns the name of the metric that a callback monitors, "" if it monitors none."""
    # Several classes of Keras have one, and a user's own.
    name = getattr(callback, "monitor", None)
    return name if isinstance(name, str) else ""


def check_monitors(callbacks: Sequence[keras.callbacks.Callback | None], model: keras.Model) -> None:
    """Raises a ValueError for callbacks of `fit` that monitor metrics of retrieval not measured before them."""
    evaluations = [each for each in callbacks if isinstance(each, RetrievalEvaluation)]
    for evaluation in evaluations:
        evaluation.check_order(callbacks, model)
    for place, callback in enumerate(callbacks):
        watched, name = monitored(callback), type(callback).__name__
        if not watched.startswith("val_") or not is_metric(watched.removeprefix("val_")):
            continue
        if not evaluations and not any(_may_add_metrics(each) for each in callbacks[:place]):
            raise ValueError(
                f"{name}(monitor={watched!r}) monitors a metric that nothing measures. Expected RetrievalEvaluation "
                f"before it. Use callbacks=[tfdml.callbacks.RetrievalEvaluation(images, labels), {name}(...)] with "
                "held-out images."
            )
        if isinstance(callback, keras.callbacks.EarlyStopping) and callback.mode == "auto":
            raise ValueError(
                f"{name}(monitor={watched!r}) does not say whether larger values are better, which Keras cannot infer "
                "from this name. Expected mode='max' or mode='min'. Received: mode='auto'."
            )


def _may_add_metrics(callback):
    """Whether a callback may add metrics to the logs: a user's own, or the functions of a LambdaCallback."""
    adds_none = type(callback).__module__.partition(".")[0] in ("keras", "tfdml")
    return isinstance(callback, keras.callbacks.LambdaCallback) or not adds_none
