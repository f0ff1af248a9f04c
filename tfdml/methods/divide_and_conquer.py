"""Divide and Conquer the Embedding Space for Metric Learning (CVPR 2019)."""

import dataclasses

import tensorflow as tf

from tfdml.heads.linear import Linear
from tfdml.layers.split_embedding import SplitEmbedding
from tfdml.methods.arguments import METHOD
from tfdml.methods.division import DIVISION, Division
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.freezing import Frozen, forget
from tfdml.methods.global_batch_model import side_by_side
from tfdml.methods.turn_losses import TurnLosses
from tfdml.methods.turn_steps import TurnSteps
from tfdml.optimizers.layer_groups import LayerGroups
from tfdml.optimizers.loss_scaling import without_loss_scaling
from tfdml.optimizers.own_steps import count_apart
from tfdml.registry import register


@register("method", "divide_and_conquer", **DIVISION, **METHOD)
class DivideAndConquer(EmbeddingModel):
    """K learners, slices of one linear layer, each of which learns from a cluster of the data of its own.

    A batch tells whose turn it is: its targets are `{"label": [B], "learner": [B]}`, the same learner for all of them;
    -1, or no learner at all: the whole embedding. `pipelines.sampling.WithinClusters` draws such batches, and
    `tfdml.callbacks.Recluster` divides the data (Algorithm 1).

    A step changes the backbone and the slice whose turn it is. Other slices, and what the loss keeps for them, stay:
    weights, momentum and all that the optimizer has for them (Sec. 3.3). Adam, AdamW and Adamax correct the bias of a
    slice's moments by the number of steps that this slice has learned in.

    Args:
        backbone: Keras model from images `[B, H, W, 3]` to features.
        embedding_size: dimensions of all learners together.
        learners, recluster_every, data_split, cluster_order, divide_at, merge_at, merge_loss_at, finetune,
            split_embedding, iterations, restarts: see `Division`.
        hold_others: False lets the optimizer treat slices whose turn it is not as it treats any weight whose gradient
            is zero, as the authors' code does: momentum and weight decay go on.
        head: one of `tfdml.heads`, see `Single`.
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
        finetune="all",
        split_embedding=True,
        iterations=50,
        restarts=1,
        hold_others=True,
        head=Linear(),
        freeze_batch_norm="none",
        **kwargs,
    ):
        super().__init__(backbone, freeze_batch_norm, head, **kwargs)
        self.division = Division(
            learners=learners,
            recluster_every=recluster_every,
            data_split=data_split,
            cluster_order=cluster_order,
            divide_at=divide_at,
            merge_at=merge_at,
            merge_loss_at=merge_loss_at,
            finetune=finetune,
            split_embedding=split_embedding,
            iterations=iterations,
            restarts=restarts,
        )
        self.embedding_size = embedding_size
        self.hold_others = hold_others
        self.slices = learners if split_embedding else 1
        features = head.make_layer(name="features")
        self.head = SplitEmbedding(embedding_size, self.slices, features, name="embedding")
        self.steps = TurnSteps(self.slices, name="steps")
        self._embedding_alone = False
        self._turns = TurnLosses(learners)

    def compile(self, optimizer="adam", *args, **kwargs):
        super().compile(optimizer, *args, **kwargs)
        if self.hold_others and getattr(self.optimizer, "gradient_accumulation_steps", None):
            raise ValueError(
                "Gradients of several learners' turns cannot be accumulated while the others are held. Leave out "
                "gradient_accumulation_steps, or set hold_others=False."
            )
        optimizer = without_loss_scaling(self.optimizer)
        count_apart(optimizer, self._steps_of)
        if not optimizer.iterations.numpy():
            self.steps.reset()

    def wrap_sampler(self, sampler):
        # Here, because plain Keras code does without pipelines.
        from pipelines.sampling import WithinClusters

        order = self.division.cluster_order
        return WithinClusters(sampler, proportional=order == "proportional", shuffle=order != "round_robin")

    def callbacks(self, parts):
        from tfdml.callbacks.recluster import Recluster

        options = {"seed": parts.seed, "log": parts.log, "step": parts.step, "verbose": parts.verbose}
        return {"clusters": Recluster(parts.images(), parts.labels, parts.sampler, **options)}

    def begin_epoch(self, epoch, goes_on=False):
        """Does what the plan says of the beginning of an epoch.

        Where learners are joined, what the loss has for the whole embedding begins as theirs side by side; where the
        embedding is split, it is the other way round.

        Args:
            epoch: number of the epoch, from 0.
            goes_on: whether some of its steps were taken before, by a run that was stopped.
        """
        changed = []
        if not goes_on and self.division.joins_embedding(epoch):
            changed = self.loss_layers.join()
        elif not goes_on and self.division.splits_embedding(epoch):
            changed = self.loss_layers.split()
        for place in changed:
            forget(self.optimizer, self.loss_layers.learners[place].trainable_variables)
            self.steps.reset_layer(place)
        alone = self.division.trains_embedding_alone(epoch)
        if alone != self._embedding_alone:
            self._embedding_alone = alone
            self.make_train_function(force=True)

    def embedding_layers(self):
        return [self.head]

    def learner_embeddings(self, images, training=False):
        features = self.backbone(images, training=training and not self._embedding_alone)
        return self.head(features, training=training)

    def learning_variables(self):
        if not self._embedding_alone:
            return self.trainable_variables
        fixed = {id(variable) for variable in self.backbone.variables}
        return [variable for variable in self.trainable_variables if id(variable) not in fixed]

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

    def seen_by_loss(self, batch, learners):
        seen = [*tf.unstack(learners, axis=1), side_by_side(learners)]
        return list(zip(seen, tf.unstack(self._learning(_turn(batch))[1]), strict=True))

    def regularization(self, batch):
        _, learning = self._learning(_turn(batch))
        layers = self.loss_layers.learners
        others = sum(tf.where(learning[k], 0.0, each) for k, layer in enumerate(layers) for each in layer.losses)
        return sum(self.losses) - others

    def apply_gradients(self, batch, gradients):
        slices, layers = self._learning(_turn(batch))
        optimizer = without_loss_scaling(self.optimizer)
        before = tf.identity(tf.convert_to_tensor(optimizer.iterations))
        counted = self._not_frozen(optimizer, slices, layers)
        if self.hold_others:
            frozen = Frozen(self.optimizer, self._masks(slices, layers))
            super().apply_gradients(batch, gradients)
            frozen.restore()
        else:
            super().apply_gradients(batch, gradients)
        # None where gradients overflow, or are accumulated first.
        steps = tf.cast(optimizer.iterations - before, "int32")
        self.steps.add(*(steps * tf.cast(each, "int32") for each in counted))

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
        own = {"embedding_size": self.embedding_size, "hold_others": self.hold_others}
        return {**super().get_config(), **dataclasses.asdict(self.division), **own}

    def _learning(self, turn):
        """Masks of the slices `[K]`, and of the loss' layers `[K + 1]`, that learn when it is a learner's turn."""
        turn = tf.constant(-1) if turn is None else turn
        own, whole = tf.range(self.slices) == turn, turn < 0
        return own | whole, tf.concat([own, [whole]], axis=0)

    def _masks(self, slices, layers):
        """Returns the variables that may be held, with masks of the parts that learn: `[(variable, mask), ...]`."""
        columns = tf.gather(slices, self._owner())
        masks = [(self.head.kernel, columns), (self.head.bias, columns)]
        for place, layer in enumerate(self.loss_layers.learners):
            masks += [(variable, layers[place]) for variable in layer.trainable_variables]
        return masks

    def _not_frozen(self, optimizer, slices, layers):
        """The masks without what the optimizer has frozen; without `hold_others` all else learns in every step."""
        if not self.hold_others:
            slices, layers = tf.ones_like(slices), tf.ones_like(layers)
        if not isinstance(optimizer, LayerGroups):
            return slices, layers
        slices &= optimizer.is_learning(self.head.kernel)
        for variable in self.loss_layers.trainable_variables[:1]:
            layers &= optimizer.is_learning(variable)
        return slices, layers

    def _steps_of(self, variable):
        """The number of steps that columns of the embedding layer, or a layer of the loss, have learned in."""
        if variable is self.head.kernel or variable is self.head.bias:
            return tf.gather(self.steps.of_slices, self._owner())
        for place, layer in enumerate(self.loss_layers.learners):
            if any(variable is each for each in layer.trainable_variables):
                return self.steps.of_layers[place]
        return None

    def _owner(self):
        """The slice of each column of the embedding layer."""
        return tf.range(self.embedding_size) * self.slices // self.embedding_size


def _turn(batch):
    """The learner whose turn it is (int32 scalar), or None where batches do not tell."""
    return tf.cast(batch["learner"][0], tf.int32) if "learner" in batch else None
