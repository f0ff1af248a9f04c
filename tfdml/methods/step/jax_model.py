"""The training step on JAX, as a function from the state of all variables to their next state."""

import jax
import keras
from keras import ops

from tfdml.functional.checks import at_least_float32
from tfdml.methods.step.one_device_model import OneDeviceModel
from tfdml.registry.loss_hooks import hooks_of


class StepModel(OneDeviceModel):
    """Keras model with a training step that JAX compiles.

    A step reads and assigns variables as on the other backends. Inside of a `keras.StatelessScope`, the variables have
    the values of the state, and their new values are collected. The state also contains the variables of the training
    that are not part of the model.
    """

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            raise ValueError(
                "mixed_float16 needs loss scaling, which tfdml models do not support on the Keras backend JAX. Use "
                "bfloat16 instead: keras.config.set_dtype_policy('mixed_bfloat16')."
            )

    @property
    def metrics_variables(self):
        memory = self.past_batches.variables if self.past_batches else []
        return [*super().metrics_variables, *memory, *hooks_of(self.loss).variables, self.first_batch.variable]

    def train_step(self, state, data):
        variables = [*self._variables_of_model(), self.optimizer.variables, self.metrics_variables]
        return self._stateless(self.learn, state, variables, data)

    def test_step(self, state, data):
        return self._stateless(self.judge, state, [*self._variables_of_model(), self.metrics_variables], data)

    def make_train_function(self, force=False):
        if self.train_function is not None and not force:
            return
        super().make_train_function(force)
        steps = self.train_function

        def steps_and_check(state, iterator):
            logs, state = steps(state, iterator)
            if self.first_batch.unchecked:
                # The last variable of the metrics.
                self.first_batch.check(state[3][-1])
            return logs, state

        self.train_function = steps_and_check

    # JAX cannot differentiate a condition that contains a function with its own gradient, as most losses are. Therefore
    # all results are computed. The network needs much more time.

    @staticmethod
    def either(condition, first, second):
        return ops.where(condition, first(), second())

    @staticmethod
    def one_of(index, results):
        return ops.take(ops.stack([result() for result in results]), index, axis=0)

    def gradients(self, images, loss_of, variables):
        """Returns the gradients of `loss_of(learners)`, a scalar and another result, and that result."""
        everything = [*self.variables, *self.optimizer.variables, *self.metrics_variables]
        values = {id(variable): variable.value for variable in everything}

        def loss_of_values(trained):
            mapping = [*zip(everything, values.values(), strict=True), *zip(variables, trained, strict=True)]
            with keras.StatelessScope(mapping, collect_losses=True) as scope:
                loss, found = loss_of(at_least_float32(self(images, training=True, merged=False)))
            return loss, (found, [scope.get_current_value(variable) for variable in everything])

        differentiated = jax.value_and_grad(loss_of_values, has_aux=True)
        (_, (found, after)), gradients = differentiated([values[id(variable)] for variable in variables])
        for variable, value in zip(everything, after, strict=True):
            if value is not values[id(variable)]:
                variable.assign(value)
        return gradients, found

    def _variables_of_model(self):
        return [self.trainable_variables, self.non_trainable_variables]

    def _stateless(self, step, state, variables, data):
        """Returns the logs of a step, and the state after it. `variables` are lists, as in the state."""
        pairs = zip(variables, state, strict=True)
        mapping = [pair for each in pairs for pair in zip(*each, strict=True)]
        with keras.StatelessScope(mapping, collect_losses=True) as scope:
            logs = step(*self.unpack(data))
        return logs, tuple([scope.get_current_value(variable) for variable in each] for each in variables)
