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
from tfdml.layers import LossLayer
from tfdml.registry.arguments import Count, Labels, StepCounter, Verbosity, integer
from tfdml.registry.fields import Declared


class TrainingDiverged(FloatingPointError, RuntimeError):
    """Error that is raised if the loss, a gradient, a weight or an embedding becomes NaN or infinite in training.

    Args:
        problem: String. What is not finite, such as `"The loss is nan"`.
        step: Integer. Number of steps taken.

    Example:

    ```python
    str(tfdml.callbacks.TrainingDiverged("The loss is nan", step=3)).partition(".")[0]  # 'The loss is nan at step 3'
    ```
    """

    def __init__(self, problem: str, step: int):
        super().__init__(
            f"{problem} at step {step}. Use a lower learning rate, a larger margin of the loss, or float32: call "
            "keras.config.set_dtype_policy('float32'), or add --precision=float32 to the command. Earlier checkpoints "
            "are intact."
        )


class DivergenceGuard(keras.callbacks.Callback):
    """Callback that raises `TrainingDiverged` at the first step with a loss or gradient norm that is not finite.

    Models that are not tfdml models log no gradient norm. For these, the callback checks the weights after each epoch:
    on a CPU, ReLU turns the NaN of an image into zeros, so that the weights become NaN but the loss does not.

    Args:
        step: Function that returns the number of steps taken. If `None`, it is the optimizer's `iterations`. Defaults
            to `None`.

    Raises:
        TrainingDiverged: If the loss, the gradient norm or a weight is not finite.

    Example:

    ```python
    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "triplet")
    history = model.fit(images, labels, callbacks=[tfdml.callbacks.DivergenceGuard()], verbose=0)
    np.isfinite(history.history["loss"])  # [True]
    ```
    """

    def __init__(self, step: StepCounter | None = None):
        super().__init__()
        self._step = step or (lambda: steps_taken(self.model))

    def on_train_batch_end(self, batch, logs=None):
        # With loss scaling, an infinite gradient is not an error, because that step is skipped.
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


# Largest difference, relative to the largest value, at which embeddings count as equal. It allows for rounding.
EQUAL = 2.0**-20


class RetrievalEvaluation(Declared, keras.callbacks.Callback):
    """Callback that evaluates retrieval on held-out images before training and after every n epochs or steps.

    Use it to measure Recall@K during training. Pass images that are not used for training, if
    possible of other classes. The callback
    adds `val_recall_at_1` and other metrics to the logs of an epoch, so that Keras callbacks such as `ModelCheckpoint`
    and `EarlyStopping` can monitor them. List it before those callbacks.

    The attribute `history` is a list of all evaluations, each a dictionary with `step` and `metrics`, and `best` is the
    one with the highest value of `monitor`.

    Args:
        images: Held-out images: an array `[N, H, W, 3]` or a dataset of full batches, which may extend beyond N.
        labels: `[N]` integer class labels of the images.
        every: Integer. Number of epochs or steps between evaluations. Defaults to `1`.
        unit: Unit of `every`, `"epochs"` or `"steps"`. Defaults to `"epochs"`.
        prefix: String. Prefix of the metrics' names in the logs of an epoch. Defaults to `"val"`.
        measure: Function from the embeddings `[N, d]` to a dictionary of metrics. If `None`, it is
            `tfdml.evaluation.evaluate`, which computes Recall@K among all images. Defaults to `None`.
        monitor: String. Name of the metric that selects the best model, without the prefix. Defaults to
            `"recall_at_1"`.
        patience: Integer or `None`. Training stops after this number of evaluations without improvement. If `None`,
            training does not stop early. Defaults to `None`.
        patience_from: Integer. Number of steps from which evaluations count for `patience`. Set it for proxy-based
            losses, which make a pretrained model worse at first. Defaults to `0`.
        on_evaluation: Function `(step, metrics, is_best, seconds)` that is called after each evaluation, or `None`.
            Defaults to `None`.
        step: Function that returns the number of steps taken. If `None`, it is the optimizer's `iterations`. Defaults
            to `None`.
        embedder: Keras model from images to embeddings that shares its layers with the trained model. Pass it if the
            trained model has other outputs, such as the similarities of `tfdml.layers.Proxies`. If `None`, the trained
            model is evaluated. Defaults to `None`.
        average: `WeightAverage` or `None`. If set, the averaged weights are evaluated, and the model has them while
            `on_evaluation` is called. Defaults to `None`.
        verbose: Verbosity of embedding, see `tfdml.evaluation.embedder.Embedder`. Defaults to `0`.

    Raises:
        TrainingDiverged: If a weight or an embedding is not finite.
        ValueError: If `measure` does not return the metric `monitor`, or if the trained model ends with a layer of a
            loss and `embedder` is `None`.

    Example:

    ```python
    images, labels = np.random.uniform(-2, 2, (8, 16, 16, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    test_images, test_labels = np.random.uniform(-2, 2, (6, 16, 16, 3)), np.array([4, 4, 5, 5, 6, 6])
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=8)
    model.compile("adam", "triplet")
    evaluation = tfdml.callbacks.RetrievalEvaluation(test_images, test_labels)
    history = model.fit(images, labels, epochs=2, callbacks=[evaluation], verbose=0)
    "val_recall_at_1" in history.history  # True
    [each["step"] for each in evaluation.history]  # [0, 1, 2]
    ```
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
        # The embeddings of the last evaluation. They are not part of the state, so they are None after resuming.
        self.embeddings = None
        # The highest value that counts for patience, and the number of evaluations since then.
        self._waited, self._highest = 0, None
        self._ended = False
        self._told_of_equal = False
        self._step = step or (lambda: steps_taken(self.model))

    def set_model(self, model):
        super().set_model(model)
        if self.embedder is None and (layer := _loss_layer_at_the_end(model)):
            raise ValueError(
                f"The model {model.name} ends with the layer {type(layer).__name__} of a loss, so its outputs are not "
                "embeddings. Expected a model from images to embeddings. Pass the model before this layer: "
                "RetrievalEvaluation(..., embedder=keras.Model(inputs, embeddings))."
            )
        self._embedder = Embedder(self.embedder or model, verbose=self.verbose, of=f"{self.prefix} images")

    def check_order(self, callbacks: Sequence[keras.callbacks.Callback], model: keras.Model) -> None:
        """Checks that no callback that monitors these metrics is listed before this one.

        Args:
            callbacks: List of callbacks that contains this one.
            model: Keras model that they are used with.

        Raises:
            ValueError: If a callback is listed too early.
        """
        for callback in callbacks[: callbacks.index(self)]:
            watched = monitored(callback)
            name = watched.removeprefix(f"{self.prefix}_")
            # Keras computes the model's own metrics itself, on `validation_data`.
            if name != watched and name not in [metric.name for metric in model.metrics]:
                raise ValueError(
                    f"{type(callback).__name__}(monitor={watched!r}) is listed before RetrievalEvaluation, so it "
                    "cannot find this metric. List RetrievalEvaluation first."
                )

    def on_train_begin(self, logs=None):
        # A later `fit`, possibly with another model, starts with full patience.
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
        # Compare numbers of steps instead of counting batches: with `steps_per_execution`, Keras reports several steps
        # as one batch, and with gradient accumulation, several batches are one step.
        step, passed = self._step(), self._passed
        self._passed = step
        if step // self.every > passed // self.every:
            self._evaluate()

    def on_epoch_end(self, epoch, logs=None):
        if self.unit == "epochs" and (epoch + 1) % self.every == 0:
            self._evaluate()
        if logs is not None and len(self.history) > self._evaluations_before:
            metrics = self.history[-1]["metrics"].items()
            # Keras' progress bar averages these values and fails if one is None.
            values = {name: value for name, value in metrics if name != "queries" and value is not None}
            logs.update({f"{self.prefix}_{name}": value for name, value in values.items()})

    @property
    def exhausted(self) -> bool:
        """Whether there were `patience` evaluations without improvement."""
        return self.patience is not None and self._waited >= self.patience

    def get_state(self) -> dict[str, Any]:
        return {"history": self.history, "best": self.best, "waited": self._waited, "highest": self._highest}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state that `get_state` returned. The next `fit` continues with the remaining patience."""
        self._ended = False
        self.history, self.best = state["history"], state["best"]
        self._waited, self._highest = state["waited"], state["highest"]

    def evaluated_weights(self) -> AbstractContextManager[None]:
        """Returns a context in which the model has the weights that are evaluated: the averaged ones, if any."""
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
                "RetrievalEvaluation can only monitor a metric that it measures, named without the prefix "
                f"{self.prefix}_. Expected one of {', '.join(metrics)}. Received: monitor={self.monitor!r}."
            )
        if metrics[self.monitor] is None:
            raise ValueError(
                f"{self.monitor} has no value for these {len(self.labels)} images, so it cannot select the best model. "
                "Use another metric."
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
        """Warns once if all embeddings are equal, because every metric is then 0 or at chance level."""
        largest = np.abs(self.embeddings).max(initial=0.0)
        if self._told_of_equal or len(self.embeddings) < 2 or np.ptp(self.embeddings, axis=0).max() > EQUAL * largest:
            return
        self._told_of_equal = True
        warnings.warn(
            f"All {len(self.embeddings)} embeddings are equal at step {self._step()}, so retrieval finds nothing: "
            "Recall@1 is 0%. Check that the images differ and that their pixels are scaled as the backbone expects. If "
            "the embeddings differed before, use a lower learning rate, another loss or another mining strategy.",
            stacklevel=2,
        )


def _loss_layer_at_the_end(model):
    """Returns the last layer of a Sequential or functional model if it is a `LossLayer`, or None."""
    # The layers of other models are in the order of their attributes, so the last one may not compute the output.
    if not isinstance(model, keras.Sequential) and not hasattr(model, "outputs"):
        return None
    last = model.layers[-1] if model.layers else None
    return last if isinstance(last, LossLayer) else None


def monitored(callback: keras.callbacks.Callback) -> str:
    """Returns the name of the metric that a callback monitors, or "" if it monitors none."""
    # Keras has no common base class for the callbacks with this attribute, and users write their own.
    name = getattr(callback, "monitor", None)
    return name if isinstance(name, str) else ""


def check_monitors(callbacks: Sequence[keras.callbacks.Callback | None], model: keras.Model) -> None:
    """Raises a ValueError if a callback monitors a retrieval metric that no earlier callback measures."""
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
                f"{name}(monitor={watched!r}) does not specify whether larger values are better, and Keras cannot "
                "infer it from this name. Expected mode='max' or mode='min'. Received: mode='auto'."
            )


def _may_add_metrics(callback):
    """Whether a callback may add metrics to the logs, like a user's own callback or a LambdaCallback."""
    adds_none = type(callback).__module__.partition(".")[0] in ("keras", "tfdml")
    return isinstance(callback, keras.callbacks.LambdaCallback) or not adds_none
