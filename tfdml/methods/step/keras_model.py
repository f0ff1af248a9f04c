"""`keras.Model` with the changes that the methods need on every backend."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Unpack

import keras
import numpy as np
from keras import ops

from pipelines.preprocessing import Preprocessing, VectorPreprocessing
from tfdml.callbacks.base import MethodModel
from tfdml.methods.step.parts import FitArguments, images_explained, plain_errors, rank_of
from tfdml.methods.step.restrictions import check_fit_arguments
from tfdml.registry.arguments import Tensor, Verbosity
from tfdml.runtime.keras_internals import calls_forgotten


class KerasModel(MethodModel):
    """Keras model with the changes that the methods need.

    `StepModel` of each backend is its subclass, and calls `learn` and `judge` of `GlobalBatchModel`, which is the step
    itself. It provides gradients and, if there are several replicas, sums. It creates the variables of the model and
    the optimizer before the first step is traced, because compilers cannot create them inside the step.
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
        with self.creating():
            super().compile(*args, **kwargs)

    def creating(self) -> AbstractContextManager:
        """Returns the context in which variables of the model are created."""
        raise NotImplementedError

    @staticmethod
    def either(condition: Tensor, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
        """Computes the first or the second result, as a condition selects."""
        return ops.cond(condition, first, second)

    @staticmethod
    def one_of(index: Tensor, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
        """Computes the result that an index selects."""
        return ops.switch(index, branches, *operands)

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
        with calls_forgotten(self), self.creating():
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


def shape_of(values):
    """Returns the shape of a batch of images as a tuple, or raises a ValueError if it is unknown."""
    if rank_of(values) is None:
        raise ValueError(
            "The dataset does not specify how many dimensions its images have. Call the model on a batch before fit(), "
            "or set the shape in the dataset: image.set_shape((None, height, width, 3))."
        )
    return tuple(values.shape)
