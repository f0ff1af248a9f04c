"""`keras.Model` with variables that exist before the step is traced, and with a step for several workers."""

import contextlib
from collections.abc import Sequence
from typing import Any, Unpack

import keras
import numpy as np
import tensorflow as tf

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml.callbacks.base import MethodModel
from tfdml.methods.step.parts import FitArguments, images_explained, plain_errors
from tfdml.methods.step.replicas import mean_of_replicas
from tfdml.methods.step.restrictions import check_fit_arguments, check_scope, warn_of_missing_loss
from tfdml.optimizers.optimizers import prepare_for_replicas, without_loss_scaling
from tfdml.registry.arguments import Tensor, Verbosity
from tfdml.runtime.devices import is_multi_worker
from tfdml.runtime.keras_internals import batch_spec, calls_forgotten, spec_of_one_replica


class KerasModel(MethodModel):
    """Keras model with the changes that the methods need.

    It creates the variables of the model and the optimizer before the first step is traced, because XLA cannot create
    them inside the step. `jit_compile="auto"` selects XLA on GPUs.
    """

    @property
    def preprocessing(self) -> Preprocessing | VectorPreprocessing | None:
        """The `tfdml.Preprocessing` of the images, a `VectorPreprocessing` for stored features, or `None`."""
        return self._preprocessing

    @preprocessing.setter
    def preprocessing(self, value: Preprocessing | VectorPreprocessing | None):
        if isinstance(value, dict):
            value = VectorPreprocessing(**value) if value.keys() == {"dims"} else Preprocessing(**value)
        if not isinstance(value, Preprocessing | VectorPreprocessing | None):
            raise ValueError(f"preprocessing must be a tfdml.Preprocessing or None. Received: {value!r}.")
        self._preprocessing = value

    def compile(self, *args, **kwargs):
        warn_of_missing_loss(self, kwargs.get("loss"))
        with self.distribute_strategy.scope():
            super().compile(*args, **kwargs)
        check_scope(self)
        prepare_for_replicas(without_loss_scaling(self.optimizer), self.distribute_strategy.num_replicas_in_sync)

    evaluate = plain_errors()(keras.Model.evaluate)
    train_on_batch = plain_errors()(keras.Model.train_on_batch)
    test_on_batch = plain_errors()(keras.Model.test_on_batch)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Verbosity = "auto",
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        *args: Any,
        **kwargs: Unpack[FitArguments],
    ):
        """Trains the model, like `keras.Model.fit`.

        Args:
            x: Images `[N, H, W, 3]`, or a dataset of `(images, labels)`.
            y: `[N]` integer class labels. Defaults to `None`.
            batch_size: Integer or `None`. Number of images per batch. Defaults to `None`.
            epochs: Integer. Number of epochs. Defaults to `1`.
            verbose: `"auto"`, `0`, `1` or `2`. Verbosity. Defaults to `"auto"`.
            callbacks: List of callbacks, for example from `tfdml.callbacks`. Defaults to `None`.
            *args, **kwargs: Other arguments of `keras.Model.fit`.

        Returns:
            Keras `History` object.

        Raises:
            ValueError: If the labels or callbacks cannot work with the loss of the model.
        """
        check_fit_arguments(self, y, callbacks)
        self.first_batch.unchecked = True
        with plain_errors():
            return super().fit(x, y, batch_size, epochs, verbose, callbacks, *args, **kwargs)

    @plain_errors()
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Verbosity = "auto",
        steps: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
    ) -> np.ndarray:
        """Computes the embeddings of preprocessed images, like `keras.Model.predict`.

        Args:
            x: Images `[N, H, W, 3]`, or a dataset of batches of images.
            batch_size: Integer or `None`. Number of images per batch. Defaults to `None`.
            verbose: `"auto"`, `0`, `1` or `2`. Verbosity. Defaults to `"auto"`.
            steps: Integer or `None`. Number of batches. If `None`, all of them. Defaults to `None`.
            callbacks: List of callbacks. Defaults to `None`.

        Returns:
            NumPy array of shape `[N, K * d]`.
        """
        return super().predict(x, batch_size, verbose, steps, callbacks)

    def __call__(self, images, *args, **kwargs):
        with plain_errors(), images_explained(images):
            return super().__call__(images, *args, **kwargs)

    def make_train_function(self, force=False):
        if self.train_function is not None and not force:
            return
        strategy = self.distribute_strategy
        # Keras cannot reduce the results of a step over several workers.
        if not is_multi_worker(strategy):
            super().make_train_function(force)
        else:

            @tf.function(reduce_retracing=True)
            def one_step(iterator):
                logs = strategy.run(lambda data: mean_of_replicas(self.train_step(data)), args=(next(iterator),))
                return {name: strategy.experimental_local_results(value)[0] for name, value in logs.items()}

            self.train_function = one_step
        steps = self.train_function

        def steps_and_check(iterator):
            logs = steps(iterator)
            if self.first_batch.unchecked:
                self.first_batch.check()
            return logs

        self.train_function = steps_and_check

    def make_predict_function(self, force=False):
        if self.predict_function is None or force:
            super().make_predict_function(force)
            self.predict_function = _ChecksFirst(self.predict_function, self)
        # Keras calls this method once per pass.
        self.predict_function.unchecked = True

    def build(self, input_shape):
        """Creates the variables, like the first call, for images of a shape such as `(None, 224, 224, 3)`."""
        # Mark the model as built, because the call would build it again otherwise.
        before, self.built = self.built, True
        try:
            self.call_on(input_shape)
        except Exception:
            self.built = before
            raise

    def call_on(self, input_shape: tuple[int | None, ...]) -> Tensor:
        """Calls the model symbolically, so that it has its variables and knows its shapes.

        Args:
            input_shape: Shape of a batch of images, such as `(None, 224, 224, 3)`.
        """
        # Replicas are inside the scope already and cannot enter it again.
        inside = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
        with calls_forgotten(self), contextlib.nullcontext() if inside else self.distribute_strategy.scope():
            self(keras.tree.map_shape_structure(keras.KerasTensor, input_shape))

    def compute_output_shape(self, input_shape):
        """Returns the shape of the embeddings for a shape of images. It builds the model if necessary."""
        if not self.built:
            self.build(input_shape)
        return self.compute_output_spec(keras.tree.map_shape_structure(keras.KerasTensor, input_shape)).shape

    def compute_output_spec(self, *args, **kwargs):
        # Keras would use `compute_output_shape`, which knows neither `merged` nor the dtype.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def build_from_config(self, config):
        if config:
            self.call_on(config["input_shape"])

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        self._build_optimizer()

    def _build_optimizer(self):
        # Building a LossScaleOptimizer again would reset its scale.
        if self.optimizer is not None and self.built and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        with self.distribute_strategy.scope():
            # A subclass with its own `build` may have created only some of the variables.
            if self.learners_shape is None:
                # The spec of a batch of a distributed dataset contains the specs of all replicas.
                if iterator is not None:
                    data_batch = tf.nest.map_structure(spec_of_one_replica, batch_spec(iterator))
                images = keras.utils.unpack_x_y_sample_weight(data_batch)[0]
                self.call_on(tf.nest.map_structure(_shape, images))
            check_scope(self)
            self._build_optimizer()


class _ChecksFirst:
    """Predict function that checks the first batch of a pass outside of the compiled function.

    It also builds the model there, because replicas cannot create variables.
    """

    def __init__(self, function, model):
        self._function, self._model = function, model
        self.unchecked = True

    def __call__(self, batches):
        if self.unchecked:
            self.unchecked = False
            images = self._model.distribute_strategy.experimental_local_results(batches[0])[0]
            images = keras.utils.unpack_x_y_sample_weight(images)[0]
            if self._model.learners_shape is None:
                self._model.call_on(tf.nest.map_structure(_shape, images))
            if tf.is_tensor(images) or isinstance(images, np.ndarray):
                self._model.check_pixels(images)
        return self._function(batches)


def _shape(values):
    if tf.TensorShape(values.shape).rank is None:
        raise ValueError(
            "The dataset does not specify how many dimensions its images have. Call the model on a batch before fit(), "
            "or set the shape in the dataset: image.set_shape((None, height, width, 3))."
        )
    return tuple(values.shape)
