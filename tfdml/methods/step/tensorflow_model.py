"""The training step on TensorFlow, for one or several replicas and workers."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdml.functional.checks import at_least_float32
from tfdml.layers.blocks import check_repeatable
from tfdml.layers.norms import batch_norms
from tfdml.methods.step import replicas
from tfdml.methods.step.keras_model import KerasModel, shape_of
from tfdml.methods.step.parts import message_of_check
from tfdml.methods.step.replicas import mean_of_replicas
from tfdml.methods.step.restrictions import check_scope
from tfdml.optimizers.optimizers import prepare_for_replicas, without_loss_scaling
from tfdml.runtime.devices import is_multi_worker
from tfdml.runtime.keras_internals import batch_spec, spec_of_one_replica


class StepModel(KerasModel):
    """Keras model with a training step on TensorFlow. `jit_compile="auto"` selects XLA on GPUs."""

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        check_scope(self)
        prepare_for_replicas(without_loss_scaling(self.optimizer), self.distribute_strategy.num_replicas_in_sync)

    def creating(self):
        # Replicas are inside the scope already and cannot enter it again.
        inside = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
        return contextlib.nullcontext() if inside else self.distribute_strategy.scope()

    def train_step(self, data):
        images, batch = self.unpack(data)
        # When a dataset of unknown length ends, TensorFlow still runs operations that do not depend on the batch, such
        # as the optimizer's counter. Therefore everything depends on the batch here.
        with tf.control_dependencies(tf.nest.flatten(images)):
            return self.learn(images, batch)

    def test_step(self, data):
        images, batch = self.unpack(data)
        with tf.control_dependencies(tf.nest.flatten(images)):
            return self.judge(images, batch)

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

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        with self.distribute_strategy.scope():
            # A subclass with its own `build` may have created only some of the variables.
            if self.learners_shape is None:
                # The spec of a batch of a distributed dataset contains the specs of all replicas.
                if iterator is not None:
                    data_batch = tf.nest.map_structure(spec_of_one_replica, batch_spec(iterator))
                images = keras.utils.unpack_x_y_sample_weight(data_batch)[0]
                self.call_on(tf.nest.map_structure(shape_of, images))
            check_scope(self)
            self._build_optimizer()

    gather = staticmethod(replicas.gather)
    sum_gradients = staticmethod(replicas.sum_gradients)
    norm_of = staticmethod(replicas.norm_of)

    @property
    def replica_count(self) -> int:
        return tf.distribute.get_replica_context().num_replicas_in_sync

    def gradients(self, images: Any, loss_of: Callable[..., Any], variables: Sequence[Any]) -> Any:
        if self.pieces == 1:
            return gradients_at_once(self, images, loss_of, variables)
        return gradients_in_pieces(self, images, loss_of, variables, self.pieces)

    def apply_summed(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        replicas.apply_summed_gradients(self.optimizer, gradients, variables)

    def finish_statistics(self) -> None:
        """Averages the variables that the forward pass changes in training over the replicas."""
        moving = self.non_trainable_variables
        if self.freeze_batch_norm != "none":
            norms = [norm for backbone in self.backbones() for norm in batch_norms(backbone)]
            frozen = {id(each) for norm in norms for each in norm.variables}
            moving = [variable for variable in moving if id(variable) not in frozen]
        replicas.average_moving_statistics(moving)

    def assign_where(self, changes: Sequence[Any]) -> None:
        """Assigns `(variable, mask, values)`: an element of the variable becomes the value if its mask is False."""
        variables, masks, values = zip(*((kept.value, *others) for kept, *others in changes), strict=True)

        def put_back(strategy, values, masks):
            def restored(variable, value, mask):
                return variable.assign(tf.where(mask, variable, value))

            for variable, value, mask in zip(variables, values, masks, strict=True):
                strategy.extended.update(variable, restored, args=(value, mask), group=False)

        # All replicas hold the same values, so each one restores its own copy.
        tf.distribute.get_replica_context().merge_call(put_back, args=(values, masks))

    @staticmethod
    def executes_now() -> bool:
        """Returns whether a call computes its result, in contrast to a graph."""
        return tf.executing_eagerly()

    prepare_batch_norms = staticmethod(replicas.fuse_batch_norms)


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
                self._model.call_on(tf.nest.map_structure(shape_of, images))
            if tf.is_tensor(images) or isinstance(images, np.ndarray):
                self._model.check_pixels(images)
        return self._function(batches)


def gradients_at_once(model, images, loss_of, variables):
    """Computes the gradients of a loss on the learner embeddings of images.

    `loss_of` is a function from learners `[B, K, d]` to the scalar loss and any other result, which is returned after
    the gradients. Gradients are None for variables that the loss does not depend on.
    """
    with _tape(model, variables) as tape:
        loss, found = loss_of(_embed(model, images))
    return tape.gradient(loss, variables), found


def gradients_in_pieces(model, images, loss_of, variables, pieces):
    """Computes the same gradients, up to rounding, with `pieces` times less memory for activations.

    The network embeds each image twice. Both results must be equal, independent of the batch, so the network must have
    no dropout, and its batch normalization must be frozen.
    """
    check_repeatable(model, "pieces", "use one piece")
    parts = tf.nest.map_structure(lambda whole: _divided(whole, pieces), images)
    dtype = "float64" if model.compute_dtype == "float64" else "float32"
    spec = tf.TensorSpec([None, *model.learners_shape], dtype)
    embedded = tf.map_fn(lambda part: _embed(model, part), parts, fn_output_signature=spec, parallel_iterations=1)
    learners = tf.reshape(embedded, [-1, *model.learners_shape])
    with tf.GradientTape() as tape:
        tape.watch(learners)
        loss, found = loss_of(learners)
    of_learners, *direct = tape.gradient(loss, [learners, *variables])
    passed = _passed_on(model, parts, tf.reshape(of_learners, tf.shape(embedded)), variables)
    return [_sum(*each) for each in zip(direct, passed, strict=True)], found


@contextlib.contextmanager
def _tape(model, variables):
    """A tape that records operations on variables. If backbones wait, it only watches the given variables."""
    with tf.GradientTape(watch_accessed_variables=not model.backbones_wait) as tape:
        for variable in variables if model.backbones_wait else ():
            tape.watch(variable.value)
        yield tape


def _embed(model, images):
    return at_least_float32(model(images, training=True, merged=False))


def _passed_on(model, parts, gradients, variables):
    """Computes the gradients of the variables, summed over pieces, from the gradients of the embeddings."""
    reached = {}

    def add(number, sums):
        with _tape(model, variables) as tape:
            learners = _embed(model, tf.nest.map_structure(lambda each: each[number], parts))
        found = tape.gradient(learners, variables, output_gradients=gradients[number])
        reached.update({place: each is not None for place, each in enumerate(found)})
        return number + 1, [_sum(*each) for each in zip(sums, found, strict=True)]

    zeros = [tf.zeros_like(tf.convert_to_tensor(variable)) for variable in variables]
    count = tf.shape(gradients)[0]
    _, sums = tf.while_loop(lambda number, _: number < count, add, (0, zeros), parallel_iterations=1)
    return [each if reached[place] else None for place, each in enumerate(sums)]


def _sum(first, second):
    if first is None or second is None:
        return second if first is None else first
    return tf.convert_to_tensor(first) + tf.convert_to_tensor(second)


def _divided(whole, pieces):
    """Reshapes `[B, ...]` to `[pieces, B / pieces, ...]`."""
    size = whole.shape[0]
    received = f"batches of {size} images" if size else "another batch size"
    message = f"The batch size must be a multiple of pieces={pieces}. Received: {received}."
    if size is not None and size % pieces:
        raise ValueError(message)
    check = tf.debugging.assert_equal(tf.shape(whole)[0] % pieces, 0, message=message_of_check(message))
    with tf.control_dependencies([check] if size is None else []):
        shape = tf.concat([[pieces, tf.shape(whole)[0] // pieces], tf.shape(whole)[1:]], axis=0)
        divided = tf.reshape(whole, shape)
    divided.set_shape([pieces, size and size // pieces, *whole.shape[1:]])
    return divided
