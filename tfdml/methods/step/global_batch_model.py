"""The training step, in which every replica computes the loss on the embeddings of all replicas."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import keras
import tensorflow as tf
from keras import ops

from tfdml.functional.checks import at_least_float32, nan_with
from tfdml.functional.distances import unit_length
from tfdml.layers.blocks import Block, blocks_of, check_repeatable
from tfdml.layers.norms import batch_norms
from tfdml.methods.step.first_batch import FirstBatch
from tfdml.methods.step.keras_model import KerasModel
from tfdml.methods.step.parts import EvaluateArguments, Measures, measure, message_of_check
from tfdml.methods.step.replicas import (
    apply_summed_gradients,
    average_moving_statistics,
    gather,
    norm_of,
    sum_gradients,
)
from tfdml.methods.step.restrictions import check_targets
from tfdml.registry.arguments import ModelArguments, Tensor, Verbosity


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


# Name of the target with the weight of each image.
WEIGHT = "weight"


class GlobalBatchModel(KerasModel):
    """Keras model with a training step that computes the loss on the global batch.

    `EmbeddingModel` adds the embeddings, `loss_values` and the variables of the loss.
    """

    # Number of pieces in which a batch is embedded, one after the other, to save memory.
    pieces = 1
    # Whether the step skips the gradients of the backbones and uses zeros instead.
    backbones_wait = False
    # The `PastBatches` that batches are compared with in training, or None.
    past_batches = None

    def __init__(self, **kwargs: Unpack[ModelArguments]):
        super().__init__(**kwargs)
        self._measures = Measures()
        self.first_batch = FirstBatch(self)
        self._evaluates = False

    @property
    def metrics(self):
        # Keras resets these metrics before it evaluates, and `fit` evaluates before the end of an epoch.
        if self._evaluates:
            return self._measures.of_evaluation()
        return [*self._measures.means.values(), *self.training_metrics()]

    def training_metrics(self) -> list[keras.metrics.Metric]:
        """Returns the metrics that only training updates. They keep their values when the model is evaluated."""
        return []

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Verbosity = "auto",
        *args: Any,
        **kwargs: Unpack[EvaluateArguments],
    ) -> Any:
        """Computes the loss and the metrics on labeled images, like `keras.Model.evaluate`.

        Args:
            x: Images, or a dataset of `(images, labels)`.
            y: `[N]` integer class labels. Defaults to `None`.
            batch_size: Integer or `None`. Number of images per batch. Defaults to `None`.
            verbose: `"auto"`, `0`, `1` or `2`. Verbosity. Defaults to `"auto"`.
            *args, **kwargs: Other arguments of `keras.Model.evaluate`.

        Returns:
            List of values, or a dictionary with `return_dict=True`. To compute Recall@K, use
            `tfdml.evaluation.evaluate`.
        """
        self._evaluates = True
        try:
            return super().evaluate(x, y, batch_size, verbose, *args, **kwargs)
        finally:
            self._evaluates = False

    def get_compile_config(self):
        config = super().get_compile_config()
        # A loaded model starts with an empty memory.
        more = {"pieces": self.pieces, "memory": self.past_batches and self.past_batches.spec}
        return config and {**config, **more}

    def blocks(self) -> list[Block]:
        """Returns the blocks of the backbone, from stem to head, to which `layer_decay` applies."""
        return blocks_of(self.backbones())

    def learning_variables(self) -> list[keras.Variable]:
        """Returns the variables that a step changes."""
        return self.trainable_variables

    def let_backbones_wait(self, wait: bool) -> None:
        """Sets whether steps skip the gradients of the backbones; see `tfdml.callbacks.WaitingBackbone`.

        Args:
            wait: Boolean. If `True`, steps do not compute these gradients.
        """
        if wait != self.backbones_wait:
            self.backbones_wait = wait
            if self.train_function is not None:
                self.make_train_function(force=True)

    def regularization(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Returns the sum of the losses that layers add to the loss of a batch."""
        del batch
        return sum(self.losses)

    def apply_gradients(self, batch: Mapping[str, Tensor], gradients: Sequence[Tensor]) -> None:
        """Updates the variables with gradients that are summed over replicas."""
        del batch
        apply_summed_gradients(self.optimizer, gradients, self.learning_variables())

    def train_step(self, data):
        images, batch = _unpack(data)
        # When a dataset of unknown length ends, TensorFlow still runs operations that do not depend on the batch, such
        # as the optimizer's counter. Therefore everything depends on the batch here.
        with tf.control_dependencies(tf.nest.flatten(images)):
            return self._train_on(images, batch)

    def test_step(self, data):
        images, batch = _unpack(data)
        with tf.control_dependencies(tf.nest.flatten(images)):
            batch = _gathered(batch)
            learners = at_least_float32(self(images, training=False, merged=False))
            _, measured, values = self._global_loss(learners, batch, training=False)
            return self.update_measures(batch, measured, values)

    def _train_on(self, images, batch):
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        batch = _gathered(batch)
        keys = self.past_batches.keys(self, images) if self.past_batches else None
        if keys is not None:
            batch["keys"] = gather(keys)

        def loss_of(learners):
            loss, measured, values = self._global_loss(learners, batch, training=True)
            return self.optimizer.scale_loss(loss / replicas), (measured, values)

        waiting = {id(each) for net in self.backbones() for each in net.variables} if self.backbones_wait else ()
        variables = [each for each in self.learning_variables() if id(each) not in waiting]
        arguments = (self, images, loss_of, variables)
        if self.pieces == 1:
            gradients, (measured, values) = gradients_at_once(*arguments)
        else:
            gradients, (measured, values) = gradients_in_pieces(*arguments, self.pieces)
        gradients = sum_gradients(gradients, variables)
        norm = norm_of(gradients, variables)
        measured["gradient_norm"] = norm / self.optimizer.scale_loss(1.0)
        if not self._skips_infinite():
            # ReLU can turn the NaN of an image into zeros, so that only the gradients, and then the weights, are NaN.
            measured["loss"] = nan_with(measured["loss"], norm)
        self.first_batch.note(images, batch["label"], measured)
        # The optimizer needs a gradient for each variable, so waiting variables have zeros.
        known = {id(variable): gradient for variable, gradient in zip(variables, gradients, strict=True)}
        learning = self.learning_variables()
        self.apply_gradients(
            batch, [known[id(each)] if id(each) in known else tf.zeros_like(each) for each in learning]
        )
        average_moving_statistics(self._moving_variables())
        return self.update_measures(batch, measured, values)

    def _moving_variables(self):
        """Returns the variables that the forward pass changes in training."""
        if self.freeze_batch_norm == "none":
            return self.non_trainable_variables
        frozen = {
            id(each) for backbone in self.backbones() for norm in batch_norms(backbone) for each in norm.variables
        }
        return [variable for variable in self.non_trainable_variables if id(variable) not in frozen]

    def _global_loss(self, learners, batch, training):
        if self.loss is None:
            raise ValueError(
                "The model was compiled without a loss. Expected compile(loss=...) with one of tfdml.losses, such as "
                "loss=tfdml.losses.Triplet(), or its spec, such as loss='triplet'."
            )
        learners = gather(learners)
        values = self.loss_values(batch, learners, training)
        if WEIGHT in batch:
            values *= ops.cast(batch[WEIGHT], values.dtype)
        if training:
            self.observe(batch, learners)
        loss = ops.mean(values) + self.regularization(batch)
        # Use NaN only in the logged loss, because the step would round differently with another loss.
        logged = nan_with(loss, learners, batch["label"])
        return loss, {"loss": logged, **measure(batch["label"], self.for_retrieval(learners), values)}, values

    def for_retrieval(self, learners: Tensor) -> tf.Tensor:
        """Concatenates learners `[B, K, d]` to the L2-normalized embedding for retrieval `[B, K * d]`."""
        return side_by_side(learners)

    def observe(self, batch: Mapping[str, Tensor], learners: Tensor) -> None:
        """Observes the learners `[B, K, d]` of the global batch in a training step, for statistics."""

    def update_measures(
        self, batch: Mapping[str, Tensor], measured: Mapping[str, Tensor], values: Tensor
    ) -> dict[str, Tensor]:
        """Adds the measurements of a batch to the epoch's means and returns the means.

        Args:
            batch: Dictionary with the targets of the batch.
            measured: Dictionary from the name of a metric to its value.
            values: `[B]` loss of each image.
        """
        del batch
        return self._measures.update(measured, tf.shape(values)[0], self._skips_infinite())

    def _skips_infinite(self):
        """Whether loss scaling skips steps with gradients that overflow. Their norms are not counted."""
        return isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer)


def side_by_side(learners):
    """Concatenates learners `[B, K, d]` and L2-normalizes the result `[B, K * d]`."""
    return unit_length(at_least_float32(ops.reshape(learners, (-1, learners.shape[1] * learners.shape[2]))))


def _gathered(batch):
    return {name: gather(value) for name, value in batch.items()}


def _unpack(data):
    images, batch, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if batch is None:
        raise ValueError("Training needs labels. Expected a dataset of (images, labels). Received: only images.")
    batch = dict(batch) if isinstance(batch, dict) else {"label": batch}
    if "label" not in batch:
        raise ValueError(f"A dictionary of targets must have the key 'label'. Received: keys {', '.join(batch)}.")
    if sample_weight is not None:
        batch[WEIGHT] = sample_weight
    # Keras passes arrays unchanged if it runs eagerly.
    batch = {name: tf.convert_to_tensor(values) for name, values in batch.items()}
    check_targets(batch)
    # Targets `[B, 1]` or of unknown shape become `[B]`. Labels with more information per image stay unchanged.
    return images, {
        name: target if target.shape.rank == 2 and target.shape[1] != 1 else tf.reshape(target, [-1])
        for name, target in batch.items()
    }
