"""The training step, in which every replica computes the loss on the embeddings of all replicas."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, nan_with
from tfdml.functional.distances import unit_length
from tfdml.layers.blocks import Block, blocks_of
from tfdml.methods.step.first_batch import FirstBatch
from tfdml.methods.step.parts import EvaluateArguments, Measures, measure, rank_of
from tfdml.methods.step.restrictions import check_targets
from tfdml.registry.arguments import ModelArguments, Tensor, Verbosity
from tfdml.registry.loss_hooks import ANCHOR
from tfdml.runtime.backends import backend_name

if TYPE_CHECKING or backend_name() == "tensorflow":
    from tfdml.methods.step.tensorflow_model import StepModel
elif backend_name() == "jax":
    from tfdml.methods.step.jax_model import StepModel
else:
    from tfdml.methods.step.torch_model import StepModel


# Name of the target with the weight of each image.
WEIGHT = "weight"


class GlobalBatchModel(StepModel):
    """Keras model with a training step that computes the loss on the global batch.

    `EmbeddingModel` adds the embeddings, `loss_values` and the variables of the loss.
    """

    # Number of pieces in which a batch is embedded, one after the other, to save memory.
    pieces = 1
    # Whether the step skips the gradients of the backbones and uses zeros instead.
    backbones_wait = False
    # The `PastBatches` that batches are compared with in training, or None.
    past_batches = None
    # The `InitialWeights` that the loss keeps the weights of the backbones near, or None.
    initial_weights = None

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
        """Returns the sum of the losses that layers and the distance to initial weights add to the loss of a batch."""
        del batch
        return sum(self.losses) + (self.initial_weights.penalty() if self.initial_weights else 0)

    def apply_gradients(self, batch: Mapping[str, Tensor], gradients: Sequence[Tensor]) -> None:
        """Updates the variables with gradients that are summed over replicas."""
        del batch
        self.apply_summed(gradients, self.learning_variables())

    def unpack(self, data: Any) -> tuple[Any, dict[str, Tensor]]:
        """Returns the images and the targets of a batch from a dataset. Targets are checked, and `[B, 1]` is `[B]`."""
        images, batch, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if batch is None:
            raise ValueError("Training needs labels. Expected a dataset of (images, labels). Received: only images.")
        batch = dict(batch) if isinstance(batch, dict) else {"label": batch}
        if "label" not in batch:
            raise ValueError(f"A dictionary of targets must have the key 'label'. Received: keys {', '.join(batch)}.")
        if sample_weight is not None:
            batch[WEIGHT] = sample_weight
        # Keras passes arrays unchanged if it runs eagerly.
        batch = {name: ops.convert_to_tensor(values) for name, values in batch.items()}
        check_targets(batch)
        # Targets `[B, 1]` or of unknown shape become `[B]`. Labels with more information per image stay unchanged.
        return images, {
            name: target
            if name == ANCHOR or (rank_of(target) == 2 and target.shape[1] != 1)
            else ops.reshape(target, [-1])
            for name, target in batch.items()
        }

    def judge(self, images: Any, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the means of the metrics after a step of `evaluate` with a batch."""
        batch = self._gathered(batch)
        learners = at_least_float32(self(images, training=False, merged=False))
        _, measured, values = self._global_loss(learners, batch, training=False)
        return self.update_measures(batch, measured, values)

    def learn(self, images: Any, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Changes the variables in a training step with a batch. Returns the means of the metrics."""
        replicas = self.replica_count
        batch = self._gathered(batch)
        keys = self.past_batches.keys(self, images) if self.past_batches else None
        if keys is not None:
            batch["keys"] = self.gather(keys)

        def loss_of(learners):
            loss, measured, values = self._global_loss(learners, batch, training=True)
            return self.optimizer.scale_loss(loss / replicas), (measured, values)

        waiting = {id(each) for net in self.backbones() for each in net.variables} if self.backbones_wait else ()
        variables = [each for each in self.learning_variables() if id(each) not in waiting]
        gradients, (measured, values) = self.gradients(images, loss_of, variables)
        gradients = self.sum_gradients(gradients, variables)
        norm = self.norm_of(gradients, variables)
        measured["gradient_norm"] = norm / self.optimizer.scale_loss(1.0)
        if not self._skips_infinite():
            # ReLU can turn the NaN of an image into zeros, so that only the gradients, and then the weights, are NaN.
            measured["loss"] = nan_with(measured["loss"], norm)
        self.first_batch.note(images, batch["label"], measured)
        # The optimizer needs a gradient for each variable, so waiting variables have zeros.
        known = {id(variable): gradient for variable, gradient in zip(variables, gradients, strict=True)}
        learning = self.learning_variables()
        self.apply_gradients(
            batch,
            [
                known[id(each)] if id(each) in known else ops.zeros_like(ops.convert_to_tensor(each))
                for each in learning
            ],
        )
        self.finish_statistics()
        return self.update_measures(batch, measured, values)

    def _gathered(self, batch):
        # Each replica embeds its own anchor images.
        return {name: value if name == ANCHOR else self.gather(value) for name, value in batch.items()}

    def _global_loss(self, learners, batch, training):
        if self.loss is None:
            raise ValueError(
                "The model was compiled without a loss. Expected compile(loss=...) with one of tfdml.losses, such as "
                "loss=tfdml.losses.Triplet(), or its spec, such as loss='triplet'."
            )
        learners = self.gather(learners)
        if ANCHOR in batch:
            anchors = at_least_float32(self(batch[ANCHOR], training=training, merged=False))
            batch = {**batch, ANCHOR: self.gather(anchors)}
        values = self.loss_values(batch, learners, training)
        if WEIGHT in batch:
            values = values * ops.cast(batch[WEIGHT], values.dtype)
        if training:
            self.observe(batch, learners)
        loss = ops.mean(values) + self.regularization(batch)
        # Use NaN only in the logged loss, because the step would round differently with another loss.
        logged = nan_with(loss, learners, batch["label"])
        return loss, {"loss": logged, **measure(batch["label"], self.for_retrieval(learners), values)}, values

    def for_retrieval(self, learners: Tensor) -> Tensor:
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
        return self._measures.update(measured, ops.shape(values)[0], self._skips_infinite())

    def _skips_infinite(self):
        """Whether loss scaling skips steps with gradients that overflow. Their norms are not counted."""
        return isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer)


def side_by_side(learners):
    """Concatenates learners `[B, K, d]` and L2-normalizes the result `[B, K * d]`."""
    return unit_length(at_least_float32(ops.reshape(learners, (-1, learners.shape[1] * learners.shape[2]))))
