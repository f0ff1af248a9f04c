"""The training step on PyTorch."""

import keras
import torch

from tfdml.functional.checks import at_least_float32
from tfdml.methods.step.one_device_model import OneDeviceModel


class StepModel(OneDeviceModel):
    """Keras model with a training step on PyTorch, which runs one operation after the other."""

    def train_step(self, data):
        with torch.no_grad():
            logs = self.learn(*self.unpack(data))
        if self.first_batch.unchecked:
            self.first_batch.check()
        return logs

    def test_step(self, data):
        return self.judge(*self.unpack(data))

    def gradients(self, images, loss_of, variables):
        """Returns the gradients of `loss_of(learners)`, a scalar and another result, and that result."""
        with torch.enable_grad():
            loss, found = loss_of(at_least_float32(self(images, training=True, merged=False)))
        values = [variable.value for variable in variables]
        # A variable without an effect has a gradient of zeros, as on JAX.
        gradients = torch.autograd.grad(loss, values, allow_unused=True, materialize_grads=True)
        return gradients, keras.tree.map_structure(torch.Tensor.detach, found)
