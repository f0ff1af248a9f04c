"""Divide and Conquer the Embedding Space for Metric Learning (CVPR 2019)."""

import dataclasses

import keras
import tensorflow as tf

from tfdml.layers.split_embedding import SplitEmbedding
from tfdml.methods.arguments import METHOD
from tfdml.methods.division import DIVISION, Division
from tfdml.methods.embedding_model import EmbeddingModel, side_by_side
from tfdml.methods.turns import Held
from tfdml.registry import register


@register("method", "divide_and_conquer", **DIVISION, **METHOD)
class DivideAndConquer(EmbeddingModel):
    """K learners, slices of one linear layer, each of which learns from a cluster of the data of its own.

    A batch tells whose turn it is: its targets are `{"label": [B], "learner": [B]}`, the same learner for all of them;
    -1, or no learner at all: the whole embedding. `pipelines.cluster_sampling.WithinClusters` draws such batches, and
    `tfdml.callbacks.Recluster` divides the data (Algorithm 1).

    A step changes the backbone and the slice whose turn it is. Other slices, and what the loss keeps for them, stay:
    weights, momentum and all that the optimizer has for them (Sec. 3.3).

    Args:
        backbone: Keras model from images `[B, H, W, 3]` to features.
        embedding_size: dimensions of all learners together.
        learners, recluster_every, data_split, cluster_order, divide_at, merge_at, merge_loss_at, split_embedding,
            iterations, restarts: see `Division`.
        hold_others: False lets the optimizer treat slices whose turn it is not as it treats any weight whose gradient
            is zero, as the authors' code does: momentum and weight decay go on.
        pooling, norm, dropout: see `Single`.
        freeze_batch_norm: `statistics` or `all` of the backbone's batch norm stays as it is, or `none`.
    """

    def __init__(
        self,
        backbone,
        embedding_size=128,
        learners=8,
        recluster_every=2,
        data_split="kmeans",
        cluster_order="uniform",
        divide_at=0,
        merge_at=None,
        merge_loss_at=None,
        split_embedding=True,
        iterations=50,
        restarts=1,
        hold_others=True,
        pooling="avg",
        norm="none",
        dropout=0.0,
        freeze_batch_norm="none",
        **kwargs,
    ):
        super().__init__(backbone, freeze_batch_norm, **kwargs)
        self.division = Division(
            learners=learners,
            recluster_every=recluster_every,
            data_split=data_split,
            cluster_order=cluster_order,
            divide_at=divide_at,
            merge_at=merge_at,
            merge_loss_at=merge_loss_at,
            split_embedding=split_embedding,
            iterations=iterations,
            restarts=restarts,
        )
        self.embedding_size = embedding_size
        self.hold_others = hold_others
        self._head_options = {"pooling": pooling, "norm": norm, "dropout": dropout}
        self.slices = learners if split_embedding else 1
        self.head = SplitEmbedding(embedding_size, self.slices, name="embedding", **self._head_options)
        self._turns = _Turns(learners)

    def compile(self, optimizer="adam", *args, **kwargs):
        super().compile(optimizer, *args, **kwargs)
        if self.hold_others and getattr(self.optimizer, "gradient_accumulation_steps", None):
            raise ValueError(
                "Gradients of several learners' turns cannot be accumulated while the others are held. Leave out "
                "gradient_accumulation_steps, or set hold_others=False."
            )

    def learner_embeddings(self, images, training=False):
        return self.head(self.backbone(images, training=training), training=training)

    def loss_dims(self, learners, dim):
        # Behind the slices the whole embedding: the loss that it has before the division and after the merging.
        return [dim] * learners + [learners * dim]

    def loss_values(self, batch, learners):
        """Loss `[B]` of the learner whose turn it is, equation (3) with any loss, or of the whole embedding."""
        labels, turn = batch["label"], _turn(batch)

        def of_whole():
            return self.loss.call(labels, self.loss_layers.inputs_of(self.slices, labels, side_by_side(learners)))

        def of_slice():
            embeddings = tf.gather(learners, turn, axis=1)
            each = [lambda k=k: self.loss_layers.inputs_of(k, labels, embeddings) for k in range(self.slices)]
            # Without layers of their own all learners have the same loss.
            return self.loss.call(labels, tf.switch_case(turn, each) if self.loss_layers.learners else embeddings)

        return of_whole() if turn is None else tf.cond(turn < 0, of_whole, of_slice)

    def regularization(self, batch):
        others = 0.0
        for layer, learns in zip(self.loss_layers.learners, self._layers_learning(_turn(batch)), strict=True):
            others += sum(tf.where(learns, 0.0, each) for each in layer.losses)
        return sum(self.losses) - others

    def apply_gradients(self, batch, gradients):
        if not self.hold_others:
            super().apply_gradients(batch, gradients)
            return
        held = Held(self.optimizer, self._learning(_turn(batch)))
        super().apply_gradients(batch, gradients)
        held.release()

    def update_measures(self, batch, measured):
        self._turns.update(_turn(batch), measured["loss"])
        return super().update_measures(batch, measured)

    @property
    def metrics(self):
        return [*super().metrics, *self._turns.means]

    def learner_losses(self):
        """Mean loss of each learner in this epoch, and how many batches it had: `[(loss, batches), ...]`."""
        return [(float(mean.result()), int(mean.count.numpy())) for mean in self._turns.means]

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "hold_others": self.hold_others, **self._head_options}
        return {**super().get_config(), **dataclasses.asdict(self.division), **own}

    def _learning(self, turn):
        """What may be held, with masks of what learns when it is a learner's turn: `[(variable, mask), ...]`."""
        owner = tf.range(self.embedding_size) * self.slices // self.embedding_size
        whole = tf.constant(True) if turn is None else turn < 0
        learning = whole | (owner == (0 if turn is None else turn))
        masks = [(self.head.kernel, learning), (self.head.bias, learning)]
        for layer, learns in zip(self.loss_layers.learners, self._layers_learning(turn), strict=True):
            masks += [(variable, learns) for variable in layer.trainable_variables]
        return masks

    def _layers_learning(self, turn):
        """For each layer of the loss whether it learns when it is a learner's turn."""
        if not self.loss_layers.learners:
            return []
        turn = tf.constant(-1) if turn is None else turn
        return [tf.equal(turn, k) for k in range(self.slices)] + [turn < 0]


class _Turns:
    """Means over an epoch of the loss of each learner, held where Keras does not save them with the model."""

    def __init__(self, learners):
        self.means = [keras.metrics.Mean(name=f"loss_of_learner_{k}") for k in range(learners)]

    def update(self, turn, loss):
        for k, mean in enumerate(self.means) if turn is not None else ():
            mean.update_state(
                tf.where(tf.equal(turn, k), loss, 0.0), sample_weight=tf.cast(tf.equal(turn, k), "float32")
            )


def _turn(batch):
    """The learner whose turn it is (int32 scalar), or None where batches do not tell."""
    return tf.cast(batch["learner"][0], tf.int32) if "learner" in batch else None
