"""`keras.Model`, with variables made before the step is traced, and a step that several workers can take."""

import keras
import numpy as np
import tensorflow as tf

from tfdml.devices import is_multi_worker
from tfdml.keras_internals import batch_spec, forget_calls, spec_of_one_replica
from tfdml.methods.replicas import mean_of_replicas
from tfdml.optimizers.loss_scaling import without_loss_scaling
from tfdml.optimizers.replicated import prepare_for_replicas


class KerasModel(keras.Model):
    """Changes of Keras' model that the methods need.

    The model's and the optimizer's variables are made before the first step is traced: XLA, which `jit_compile="auto"`
    chooses where there is a GPU, cannot make them inside the step. A model that is loaded has been called, so that
    `summary` and `export` know its shapes.
    """

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        prepare_for_replicas(without_loss_scaling(self.optimizer), self.distribute_strategy.num_replicas_in_sync)

    def make_train_function(self, force=False):
        # Keras' reduction of the step's results fails with several workers.
        if not is_multi_worker(self.distribute_strategy):
            super().make_train_function(force)
        elif self.train_function is None or force:
            strategy = self.distribute_strategy

            @tf.function(reduce_retracing=True)
            def one_step(iterator):
                logs = strategy.run(lambda data: mean_of_replicas(self.train_step(data)), args=(next(iterator),))
                return {name: strategy.experimental_local_results(value)[0] for name, value in logs.items()}

            self.train_function = one_step

    def make_predict_function(self, force=False):
        if self.predict_function is None or force:
            super().make_predict_function(force)
            self.predict_function = _ChecksFirst(self.predict_function, self._check_pixels)
        # Keras asks for it once for each pass.
        self.predict_function.unchecked = True

    def build_from_config(self, config):
        if config:
            self(keras.KerasTensor(config["input_shape"]))
            forget_calls(self)

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        self._build_optimizer()

    def _build_optimizer(self):
        # Built again, a LossScaleOptimizer would begin with its first scale.
        if self.optimizer is not None and self.built and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        with self.distribute_strategy.scope():
            if not self.built:
                batch = data_batch if iterator is None else _of_one_replica(batch_spec(iterator))
                images = keras.utils.unpack_x_y_sample_weight(batch)[0]
                self(tf.nest.map_structure(_symbolic, images))
            self._build_optimizer()


class _ChecksFirst:
    """A function of lists of batches of images that looks at the first one of a pass, outside of what is compiled."""

    def __init__(self, function, check):
        self._function, self._check = function, check
        self.unchecked = True

    def __call__(self, batches):
        if self.unchecked:
            self.unchecked = False
            images = keras.utils.unpack_x_y_sample_weight(batches[0])[0]
            if tf.is_tensor(images) or isinstance(images, np.ndarray):
                self._check(images)
        return self._function(batches)


def _of_one_replica(specs):
    """The specs of a batch, where those of a distributed dataset name every replica's."""
    return tf.nest.map_structure(spec_of_one_replica, specs)


def _symbolic(values):
    if tf.TensorShape(values.shape).rank is None:
        raise ValueError(
            "The dataset does not say how many dimensions its images have. Call the model on a batch before fit, or "
            "set the shape in the dataset: image.set_shape((None, height, width, 3))."
        )
    return keras.KerasTensor(values.shape, keras.backend.standardize_dtype(values.dtype))
