"""What the training steps on JAX and PyTorch have in common: a single device, without replicas and pieces."""

import contextlib

import keras
import numpy as np
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.methods.step.first_batch import LOOKED_AT
from tfdml.methods.step.keras_model import KerasModel, shape_of
from tfdml.runtime.backends import refuse_unless_tensorflow


class OneDeviceModel(KerasModel):
    """Keras model with a training step on one device, which sees the global batch."""

    replica_count = 1

    def compile(self, *args, **kwargs):
        if self.pieces != 1:
            refuse_unless_tensorflow(f"compile(pieces={self.pieces})", "Remove pieces and use smaller batches")
        super().compile(*args, **kwargs)

    def creating(self):
        return contextlib.nullcontext()

    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None):
        """Computes the embeddings of preprocessed images, like `keras.Model.predict`."""
        if isinstance(x, np.ndarray) or ops.is_tensor(x):
            self.check_pixels(x[:LOOKED_AT])
        return super().predict(x, batch_size, verbose, steps, callbacks)

    def _symbolic_build(self, iterator=None, data_batch=None):
        if self.learners_shape is None:
            if data_batch is None:
                # Keras creates the iterator of the epoch again after this method.
                _, _, batches = next(iter(iterator))
                data_batch = batches[0] if isinstance(batches, list | tuple) else next(batches)
            images = keras.utils.unpack_x_y_sample_weight(data_batch)[0]
            self.call_on(keras.tree.map_structure(shape_of, images))
        self._build_optimizer()

    @staticmethod
    def gather(values):
        return values

    @staticmethod
    def sum_gradients(gradients, variables):
        del variables
        return [None if each is None else at_least_float32(each) for each in gradients]

    @staticmethod
    def norm_of(gradients, variables):
        del variables
        return ops.sqrt(sum(ops.sum(ops.square(each)) for each in gradients if each is not None))

    def apply_summed(self, gradients, variables):
        self.optimizer.apply(gradients, variables)

    def finish_statistics(self):
        """Does nothing, because one device has computed the statistics of the whole batch."""

    def assign_where(self, changes):
        """Assigns `(variable, mask, values)`: an element of the variable becomes the value if its mask is False."""
        for variable, mask, values in changes:
            variable.assign(ops.where(mask, ops.convert_to_tensor(variable), values))

    @staticmethod
    def executes_now():
        """Returns False, because `predict` and the training step check pixels, and other calls would wait for them."""
        return False

    @staticmethod
    def prepare_batch_norms(model):
        """Does nothing. Only TensorFlow needs another batch normalization to be fast."""
