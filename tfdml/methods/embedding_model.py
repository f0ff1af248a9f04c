"""The base of all methods: images to learner embeddings, and the only training step."""

import keras
import tensorflow as tf
from keras import ops

from tfdml import registry
from tfdml.functional.distances import distances, unit_length
from tfdml.functional.pairs import negative_pairs, positive_pairs
from tfdml.layers.frozen_batch_norm import batch_norms, freeze_batch_norm
from tfdml.methods.loss_layers import LossLayers
from tfdml.methods.replicas import (
    apply_summed_gradients,
    average_moving_statistics,
    gather,
    mean_of_replicas,
    sum_gradients,
)
from tfdml.methods.restrictions import check_compile_arguments, is_multi_worker

METRICS = ("loss", "gradient_norm", "positive_distance", "negative_distance", "active_anchors")


class EmbeddingModel(keras.Model):
    """Maps images to K learner embeddings `[B, K, d]`, and trains them with a loss on the global batch.

    A subclass says how: `learner_embeddings`. Calling the model gives `[B, K * d]`, the learners side by side at
    unit length: the embedding for retrieval. `fit`, `predict`, `save` and `export` are Keras'.

    Under a distribution strategy every replica sees the embeddings of all of them, computes the whole loss, and
    divides it by their number; the step is the one that a single device would take.
    """

    # A method that takes this as an argument sets it: what of its backbones' batch norm stays as it is.
    freeze_batch_norm = "none"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._measures = _Measures()
        self.loss_layers = LossLayers(name="loss_layers")
        self._learners_shape = None

    def learner_embeddings(self, images, training=False):
        """Embeddings `[B, K, d]` of images `[B, H, W, 3]`, at unit length in each learner."""
        raise NotImplementedError(f"{type(self).__name__} needs the method learner_embeddings(images, training).")

    def backbones(self):
        """The networks that may begin with pretrained weights."""
        return [self.backbone] if hasattr(self, "backbone") else []

    def variable_groups(self):
        """Name to variables of the layer groups that optimizers know beside layers' names."""
        backbones = [variable for backbone in self.backbones() for variable in backbone.variables]
        return {"backbone": backbones, "loss": self.loss_layers.variables}

    def call(self, images, training=False, merged=True):
        if self._learners_shape is None:
            for backbone in self.backbones():
                freeze_batch_norm(backbone, self.freeze_batch_norm)
        learners = self.learner_embeddings(images, training=training)
        if self._learners_shape is None:
            self._learners_shape = tuple(learners.shape[1:])
            self._make_loss_layers()
        if not merged:
            return learners
        side_by_side = ops.reshape(learners, (-1, learners.shape[1] * learners.shape[2]))
        return unit_length(ops.cast(side_by_side, "float32"))

    def loss_values(self, labels, learners):
        """Loss `[B]` of each anchor, summed over learners `[B, K, d]`."""
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

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    @property
    def metrics(self):
        return list(self._measures.means.values())

    def train_step(self, data):
        images, labels = _unpack(data)
        # When a dataset of unknown length ends, TensorFlow still runs what does not depend on the batch, such as the
        # optimizer's counter. Everything depends on it here.
        with tf.control_dependencies(tf.nest.flatten(images)):
            return self._train_on(images, labels)

    def test_step(self, data):
        images, labels = _unpack(data)
        with tf.control_dependencies(tf.nest.flatten(images)):
            _, measured = self._global_loss(images, labels, training=False)
            return self._update_metrics(measured)

    def make_train_function(self, force=False):
        """Keras' own, except with several workers, where Keras' reduction of the step's results fails."""
        if not is_multi_worker(self.distribute_strategy):
            super().make_train_function(force)
        elif self.train_function is None or force:
            strategy = self.distribute_strategy

            @tf.function(reduce_retracing=True)
            def one_step(iterator):
                logs = strategy.run(lambda data: mean_of_replicas(self.train_step(data)), args=(next(iterator),))
                return {name: strategy.experimental_local_results(value)[0] for name, value in logs.items()}

            self.train_function = one_step

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # A built model needs no example batch.
        if self.built and self.compiled and self.optimizer.built:
            return
        if iterator is not None:
            # Keras would average an example over replicas, which fails with several workers and for uneven batches.
            example = next(next(iter(iterator))[-1])
            data_batch = tf.nest.map_structure(
                lambda value: self.distribute_strategy.experimental_local_results(value)[0], example
            )
        super()._maybe_symbolic_build(data_batch=data_batch)

    def _make_loss_layers(self):
        if self._learners_shape is not None and self.compiled:
            with self.distribute_strategy.scope():
                self.loss_layers.make(self.loss, self._learners_shape)

    def _train_on(self, images, labels):
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        with tf.GradientTape() as tape:
            loss, measured = self._global_loss(images, labels, training=True)
            scaled = self.optimizer.scale_loss(loss / replicas)
        gradients = sum_gradients(tape.gradient(scaled, self.trainable_variables))
        present = [gradient for gradient in gradients if gradient is not None]
        measured["gradient_norm"] = tf.linalg.global_norm(present) / self.optimizer.scale_loss(1.0)
        apply_summed_gradients(self.optimizer, gradients, self.trainable_variables)
        average_moving_statistics(self._moving_variables())
        return self._update_metrics(measured)

    def _moving_variables(self):
        """What the forward pass of training changes."""
        if self.freeze_batch_norm == "none":
            return self.non_trainable_variables
        frozen = {
            id(each) for backbone in self.backbones() for norm in batch_norms(backbone) for each in norm.variables
        }
        return [variable for variable in self.non_trainable_variables if id(variable) not in frozen]

    def _global_loss(self, images, labels, training):
        learners = gather(ops.cast(self(images, training=training, merged=False), "float32"))
        labels = gather(labels)
        values = self.loss_values(labels, learners)
        loss = ops.mean(values) + sum(self.losses)
        return loss, {"loss": loss, **_measure(labels, learners, values)}

    def _update_metrics(self, measured):
        # With loss scaling a step whose gradient overflows is skipped; its norm is none.
        skips = isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer)
        for name, value in measured.items():
            counts = tf.math.is_finite(value) | (not skips)
            self._measures.means[name].update_state(
                tf.where(counts, value, 0.0), sample_weight=tf.cast(counts, "float32")
            )
        return {name: mean.result() for name, mean in self._measures.means.items()}


class _Measures:
    """Means over an epoch, held where Keras does not save them with the model."""

    def __init__(self):
        self.means = {name: keras.metrics.Mean(name=name) for name in METRICS}


def _unpack(data):
    images, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if labels is None:
        raise ValueError("Training needs labels: expected a dataset of (images, labels), received images only.")
    if sample_weight is not None:
        raise ValueError("Sample weights are not supported here: pairs have no weight of one sample.")
    return images, tf.reshape(labels, [-1])


def _measure(labels, learners, values):
    """What training shows besides its loss, measured on the embedding for retrieval."""
    embeddings = ops.reshape(learners, (-1, learners.shape[1] * learners.shape[2]))
    distance = distances(tf.stop_gradient(unit_length(embeddings)))
    return {
        "positive_distance": _mean_where(positive_pairs(labels), distance),
        "negative_distance": _mean_where(negative_pairs(labels), distance),
        "active_anchors": ops.mean(ops.cast(values > 0, "float32")),
    }


def _mean_where(mask, values):
    mask = ops.cast(mask, values.dtype)
    return ops.sum(values * mask) / ops.maximum(ops.sum(mask), 1.0)
