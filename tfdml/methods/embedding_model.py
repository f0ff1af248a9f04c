"""The base of all methods: images to learner embeddings, and the only training step."""

import keras
import tensorflow as tf
from keras import ops

from tfdml import registry
from tfdml.functional.checks import at_least_float32
from tfdml.functional.distances import unit_length
from tfdml.layers.frozen_batch_norm import batch_norms, freeze_batch_norm
from tfdml.layers.precision import layers_in
from tfdml.methods.keras_model import KerasModel
from tfdml.methods.loss_layers import LossLayers
from tfdml.methods.measures import Measures, measure
from tfdml.methods.pixel_check import PixelCheck
from tfdml.methods.replicas import (
    apply_summed_gradients,
    average_moving_statistics,
    gather,
    sum_gradients,
)
from tfdml.methods.restrictions import check_compile_arguments, check_fit_arguments, check_targets
from tfdml.preprocessing import Preprocessing


class EmbeddingModel(KerasModel):
    """Maps images to K learner embeddings `[B, K, d]`, and trains them with a loss on the global batch.

    A subclass says how: `learner_embeddings`. Calling the model gives `[B, K * d]`, the learners side by side at
    unit length: the embedding for retrieval. `fit`, `predict`, `save` and `export` are Keras'.

    Under a distribution strategy every replica sees the embeddings of all of them, computes the whole loss, and
    divides it by their number; the step is the one that a single device would take.

    Args:
        backbone: the network that may begin with pretrained weights, saved with the model; None where there is none.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
        preprocessing: `tfdml.Preprocessing` of the images that the model takes, saved with it for `tfdml.load`; None
            where it is not known.
    """

    def __init__(self, backbone=None, freeze_batch_norm="none", preprocessing=None, **kwargs):
        super().__init__(**kwargs)
        self.backbone = backbone
        self.freeze_batch_norm = freeze_batch_norm
        self.preprocessing = Preprocessing(**preprocessing) if isinstance(preprocessing, dict) else preprocessing
        self._check_pixels = PixelCheck(self)
        self._measures = Measures()
        self.loss_layers = LossLayers(name="loss_layers")
        self._learners_shape = None

    def learner_embeddings(self, images, training=False):
        """Embeddings `[B, K, d]` of images `[B, H, W, 3]`, at unit length in each learner."""
        raise NotImplementedError(f"{type(self).__name__} needs the method learner_embeddings(images, training).")

    def backbones(self):
        """The networks that may begin with pretrained weights."""
        return [] if self.backbone is None else [self.backbone]

    def variable_groups(self):
        """Name to variables of the layer groups that optimizers know beside layers' names."""
        backbones = [variable for backbone in self.backbones() for variable in backbone.variables]
        heads = getattr(self, "heads", None) or [getattr(self, "head", None)]
        embedding = [variable for head in heads if head is not None for variable in head.variables]
        return {"backbone": backbones, "embedding": embedding, "loss": self.loss_layers.variables}

    def call(self, images, training=False, merged=True):
        if tf.executing_eagerly():
            self._check_pixels(images)
        if self._learners_shape is None:
            for number, backbone in enumerate(self.backbones()):
                # Copies of a part may have none; the backbone itself has to.
                if number == 0 or batch_norms(backbone):
                    freeze_batch_norm(backbone, self.freeze_batch_norm)
        learners = self.learner_embeddings(images, training=training)
        if self._learners_shape is None:
            self._learners_shape = tuple(learners.shape[1:])
            self._make_loss_layers()
        return side_by_side(learners) if merged else learners

    @property
    def learner_count(self):
        """Number K of learners; None before the model has seen images."""
        return self._learners_shape and self._learners_shape[0]

    def loss_values(self, batch, learners):
        """Loss `[B]` of each anchor, summed over learners `[B, K, d]`; `batch` is what there is of `{"label": [B]}`."""
        labels = batch["label"]
        return sum(
            self.loss.call(labels, self.loss_layers.inputs_of(k, labels, learners[:, k]))
            for k in range(learners.shape[1])
        )

    def compile(self, optimizer="adam", loss=None, metrics=None, loss_weights=None, weighted_metrics=None, **kwargs):
        """Keras' compile. The loss is one of `tfdml.losses`, its spec (`"triplet(margin=0.1)"`), or any
        `keras.losses.Loss` whose `call(labels [B], embeddings [B, d])` gives `[B]`."""
        if isinstance(loss, str):
            loss = registry.create("loss", loss)
        unsupported = {"metrics": metrics, "loss_weights": loss_weights, "weighted_metrics": weighted_metrics}
        check_compile_arguments(self.distribute_strategy, optimizer, loss, unsupported, kwargs)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if hasattr(optimizer, "name_groups"):
            optimizer.name_groups(self.variable_groups)
        self._make_loss_layers()

    def fit(self, x=None, y=None, batch_size=None, epochs=1, verbose="auto", callbacks=None, *args, **kwargs):
        """Keras' fit. Targets are class numbers `[N]`; `x` may be a dataset of `(images, labels)`."""
        check_fit_arguments(self, y, callbacks)
        return super().fit(x, y, batch_size, epochs, verbose, callbacks, *args, **kwargs)

    def get_config(self):
        own = {"freeze_batch_norm": self.freeze_batch_norm}
        if self.backbone is not None:
            own["backbone"] = keras.saving.serialize_keras_object(self.backbone)
        if self.preprocessing is not None:
            own["preprocessing"] = self.preprocessing.get_config()
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        if "backbone" in config:
            backbone = keras.saving.deserialize_keras_object(config["backbone"], custom_objects=custom_objects)
            config = {**config, "backbone": backbone}
        with layers_in(config.get("dtype")):
            return cls(**config)

    @property
    def metrics(self):
        return list(self._measures.means.values())

    def loss_dims(self, learners, dim):
        """Dimensions of what each layer of the loss stands behind: the learners."""
        return [dim] * learners

    def learning_variables(self):
        """The variables that a step changes."""
        return self.trainable_variables

    def regularization(self, batch):
        """What the layers add to the loss of a batch."""
        del batch
        return sum(self.losses)

    def apply_gradients(self, batch, gradients):
        """Lets the optimizer take the step of a batch, with gradients that are summed over replicas."""
        del batch
        apply_summed_gradients(self.optimizer, gradients, self.learning_variables())

    def train_step(self, data):
        images, batch = _unpack(data)
        # When a dataset of unknown length ends, TensorFlow still runs what does not depend on the batch, such as the
        # optimizer's counter. Everything depends on it here.
        with tf.control_dependencies(tf.nest.flatten(images)):
            return self._train_on(images, batch)

    def test_step(self, data):
        images, batch = _unpack(data)
        with tf.control_dependencies(tf.nest.flatten(images)):
            _, measured = self._global_loss(images, batch, training=False)
            return self.update_measures(batch, measured)

    def _make_loss_layers(self):
        if self._learners_shape is not None and self.compiled:
            with self.distribute_strategy.scope():
                self.loss_layers.make(self.loss, self.loss_dims(*self._learners_shape))

    def _train_on(self, images, batch):
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        with tf.GradientTape() as tape:
            loss, measured = self._global_loss(images, batch, training=True)
            scaled = self.optimizer.scale_loss(loss / replicas)
        gradients = sum_gradients(tape.gradient(scaled, self.learning_variables()))
        present = [gradient for gradient in gradients if gradient is not None]
        measured["gradient_norm"] = tf.linalg.global_norm(present) / self.optimizer.scale_loss(1.0)
        self.apply_gradients(batch, gradients)
        average_moving_statistics(self._moving_variables())
        return self.update_measures(batch, measured)

    def _moving_variables(self):
        """What the forward pass of training changes."""
        if self.freeze_batch_norm == "none":
            return self.non_trainable_variables
        frozen = {
            id(each) for backbone in self.backbones() for norm in batch_norms(backbone) for each in norm.variables
        }
        return [variable for variable in self.non_trainable_variables if id(variable) not in frozen]

    def _global_loss(self, images, batch, training):
        if self.loss is None:
            raise ValueError(
                "The model was compiled without a loss: expected compile(loss=...) with one of tfdml.losses, such as "
                "loss=tfdml.losses.Triplet(), or its spec, loss='triplet'."
            )
        learners = gather(at_least_float32(self(images, training=training, merged=False)))
        batch = {name: gather(value) for name, value in batch.items()}
        values = self.loss_values(batch, learners)
        loss = ops.mean(values) + self.regularization(batch)
        return loss, {"loss": loss, **measure(batch["label"], side_by_side(learners), values)}

    def update_measures(self, batch, measured):
        """Adds what a batch measured to the epoch's means, and gives these."""
        del batch
        # With loss scaling a step whose gradient overflows is skipped; its norm is none.
        skips = isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer)
        return self._measures.update(measured, skips)


def side_by_side(learners):
    """The embedding for retrieval `[B, K * d]` of learners `[B, K, d]`, at unit length."""
    return unit_length(at_least_float32(ops.reshape(learners, (-1, learners.shape[1] * learners.shape[2]))))


def _unpack(data):
    images, batch, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if batch is None:
        raise ValueError("Training needs labels: expected a dataset of (images, labels), received images only.")
    if sample_weight is not None:
        raise ValueError("Sample weights are not supported here: pairs have no weight of one sample.")
    batch = batch if isinstance(batch, dict) else {"label": batch}
    if "label" not in batch:
        raise ValueError(f"A dictionary of targets needs the key 'label', received {', '.join(batch)}.")
    # Keras passes arrays as they are where it runs eagerly.
    batch = {name: tf.convert_to_tensor(values) for name, values in batch.items()}
    check_targets(batch)
    return images, {name: tf.reshape(value, [-1]) for name, value in batch.items()}
