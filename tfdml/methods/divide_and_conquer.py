"""Divide and Conquer the Embedding Space for Metric Learning (CVPR 2019)."""

import math
from collections.abc import Sequence
from typing import Any, Unpack

import keras
from keras import ops

from tfdml.heads import Linear
from tfdml.layers.embedding import SplitEmbedding
from tfdml.methods.division import (
    ClusterOrder,
    DataSplit,
    Division,
    Epoch,
    Finetuned,
    Frozen,
    SliceVariables,
    TurnSteps,
    forget,
)
from tfdml.methods.embedding_model import EmbeddingModel
from tfdml.methods.step.global_batch_model import side_by_side
from tfdml.methods.step.parts import AnyBackbone, MethodArguments, MethodHead, anchor_values, check
from tfdml.methods.step.restrictions import check_holding
from tfdml.optimizers.optimizers import count_apart, without_loss_scaling
from tfdml.registry import register
from tfdml.registry.arguments import Count, FrozenBatchNorm, Tensor


class Turns:
    """Determines which slices of an embedding are trained with a batch, and with which of its rows.

    A batch consists of one part for the current learner or, if `simultaneous`, of one part per learner, in order. The
    targets contain the learner of each row, or -1 for a part without a learner. If no part has a learner, or if the
    targets do not contain learners, the whole embedding is trained.
    """

    def __init__(self, slices, simultaneous):
        self.slices = slices
        self.parts = slices if simultaneous else 1

    def of(self, batch):
        """Returns the learner of each part, int32 `[parts]`, or None if the targets do not contain it."""
        if "learner" not in batch:
            return None
        learners = ops.cast(batch["learner"], "int32")
        return learners[:1] if self.parts == 1 else ops.reshape(learners, [self.parts, -1])[:, 0]

    def check(self, batch):
        """Raises an error if a part of the batch has several learners or a learner that does not exist.

        Returns whether the batch is valid, because XLA ignores these errors.
        """
        if "learner" not in batch:
            return True
        learners = ops.cast(batch["learner"], "int32")
        part = "the batch" if self.parts == 1 else f"each of {self.parts} equal parts of the batch, in order"
        message = f"All images of {part} must have the same learner. Use batches of pipelines.sampling.WithinClusters."
        check(ops.equal(ops.shape(learners)[0] % self.parts, 0), message)
        learners = ops.reshape(learners, [self.parts, -1])
        same = ops.all(learners == learners[:, :1])
        check(same, message)
        if self.parts == 1:
            exists = ops.all(learners < self.slices)
            message = f"The learner of a batch must be at most {self.slices - 1}, the last learner of the model."
        else:
            exists = ops.all((learners[:, 0] == ops.arange(self.parts, dtype="int32")) | (learners[:, 0] < 0))
        check(exists, message)
        return same & exists

    def learning(self, turns):
        """Returns masks of the slices `[K]` and of the loss layers `[K + 1]` that are trained with these learners."""
        turns = ops.convert_to_tensor([-1], "int32") if turns is None else turns
        whole = ops.all(turns < 0)
        own = ops.any(ops.arange(self.slices, dtype="int32")[:, None] == turns, axis=1)
        return own | whole, ops.concatenate([own, whole[None]], axis=0)

    def divided(self, values):
        """Splits `[B, ...]` into a list with the rows of each part."""
        return ops.split(values, self.parts)

    def seen_by_slices(self, values, turns):
        """Returns a list of K tensors: the rows of `[B, ...]` with which each slice is trained, if it is."""
        return [values] * self.slices if self.parts == 1 or turns is None else self.divided(values)


class TurnLosses:
    """Mean loss of each learner in an epoch. It is not a layer, so Keras does not save it with the model."""

    def __init__(self, learners):
        self.means = [keras.metrics.Mean(name=f"loss_of_learner_{k}") for k in range(learners)]

    def update(self, turns, losses):
        """Adds the loss of each part of a batch. `turns` `[parts]` are the learners of the parts, or -1 for none."""
        for turn, loss in zip(ops.unstack(turns, num=len(losses)), losses, strict=True):
            for k, mean in enumerate(self.means):
                own = ops.equal(turn, k)
                mean.update_state(ops.where(own, loss, 0.0), sample_weight=ops.cast(own, "float32"))


@register("method", "divide_and_conquer")
class DivideAndConquer(EmbeddingModel):
    """Embedding model with K learners, each trained on one cluster of the images (Divide and Conquer).

    The learners are slices of one linear layer. In turns, each learner is trained on batches from its own cluster, and
    every few epochs the images are clustered again. Use it for long training on large datasets: in our experiments, it
    was better than one embedding only after many steps. For retrieval, the learners are concatenated. See Sanakoyeu et
    al., Divide and Conquer the Embedding Space for Metric Learning, 2019.

    The targets of a batch are `{"label": [B], "learner": [B]}`, with the same learner for all images. With
    `simultaneous=True`, a batch has the same number of images for each learner, in order. A learner of -1, or targets
    without learners, train the whole embedding. `pipelines.sampling.WithinClusters` draws such batches, and
    `tfdml.callbacks.Recluster` divides the images (Algorithm 1). The training command adds both.

    A step changes the backbone and the slice of the current learner. The other slices stay unchanged, including their
    variables in the loss and in the optimizer, such as momentum (Sec. 3.3). Adam, AdamW and Adamax correct the bias of
    a slice's moments by the number of steps that trained this slice.

    Args:
        backbone: Keras model from images `[B, H, W, 3]` to features.
        embedding_size: Integer. Number of dimensions of all learners together. Defaults to `128`.
        learners: Integer. Number K of learners and clusters. Defaults to `8`.
        recluster_every: Integer. Number T of epochs from one clustering to the next. Defaults to `2`.
        data_split: How the images are divided. Defaults to `"kmeans"`.

            - `"kmeans"`: clusters of the current embeddings.
            - `"random"`: random parts of the images.
            - `"random_classes"`: random parts of the classes.
            - `"labels"`: ranges of class labels.
            - `"none"`: learners are trained in turns on batches of all images.

        cluster_order: Which cluster a batch comes from: `"uniform"`, `"proportional"` to its size, or `"round_robin"`.
            Defaults to `"uniform"`.
        divide_at: Integer. First epoch with clusters and separate learners. Before it, the whole embedding is trained
            on all images. Defaults to `0`.
        merge_at: Integer or `None`. First epoch in which the whole embedding is trained on all images again. If `None`,
            the learners stay separate. Defaults to `None`.
        merge_loss_at: Integer or `None`. Epoch from which the loss receives the whole embedding while batches still
            come from clusters. If `None`, it is `merge_at`. Defaults to `None`.
        finetune: What is trained from `merge_at` on: `"all"`, or only the `"embedding"` layer and the variables of the
            loss. Defaults to `"all"`.
        simultaneous: Boolean. If `True`, each step trains all learners, with one batch from each cluster. This is not
            in the paper. Defaults to `False`.
        split_embedding: Boolean. If `False`, batches come from clusters, but each of them trains the whole embedding.
            Defaults to `True`.
        iterations: Integer. Number of K-means iterations. Defaults to `50`.
        restarts: Integer. Number of K-means runs. The best one is used. Defaults to `1`.
        hold_others: Boolean. If `False`, the optimizer treats the slices of other learners like any weight with a
            gradient of zero, as the authors' code does. Momentum and weight decay then still change them. Defaults to
            `True`.
        head: One of `tfdml.heads`: the layers between the backbone and the linear layer. Defaults to
            `tfdml.heads.Linear()`, which averages over positions.
        freeze_batch_norm: What to freeze in the batch normalization layers of the backbone: `"none"`, `"statistics"`
            (moving mean and variance) or `"all"` (scale and offset as well). Defaults to `"none"`.
        **kwargs: `preprocessing` of the images, see `EmbeddingModel`, and `name`, `trainable` and `dtype` of
            `keras.Model`.

    Raises:
        ValueError: If arguments contradict each other, or if the optimizer cannot leave slices unchanged.

    Example:

    ```python
    images, labels = np.random.uniform(-2, 2, (8, 32, 32, 3)), np.array([0, 0, 1, 1, 2, 2, 3, 3])
    model = tfdml.DivideAndConquer(tfdml.backbones.Small(width=4), embedding_size=16, learners=2)
    model.compile("adam", tfdml.losses.Triplet())
    targets = {"label": labels, "learner": np.zeros(8, int)}
    history = model.fit(images, targets, shuffle=False, verbose=0)
    [batches for _, batches in model.learner_losses()]  # [1, 0]
    ```

    For a dataset with clusters, see `tfdml.callbacks.Recluster`.
    """

    turns = True

    def __init__(
        self,
        backbone: AnyBackbone,
        embedding_size: Count = 128,
        learners: Count = 8,
        recluster_every: Count = 2,
        data_split: DataSplit = "kmeans",
        cluster_order: ClusterOrder = "uniform",
        divide_at: Epoch = 0,
        merge_at: Epoch | None = None,
        merge_loss_at: Epoch | None = None,
        finetune: Finetuned = "all",
        simultaneous: bool = False,
        split_embedding: bool = True,
        iterations: Count = 50,
        restarts: Count = 1,
        hold_others: bool = True,
        head: MethodHead = Linear(),
        freeze_batch_norm: FrozenBatchNorm = "none",
        **kwargs: Unpack[MethodArguments],
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
            simultaneous=simultaneous,
            split_embedding=split_embedding,
            iterations=iterations,
            restarts=restarts,
        )
        self.embedding_size, self.hold_others = embedding_size, hold_others
        self.slices = learners if split_embedding else 1
        features = head.make_layer(name="features")
        self.head = SplitEmbedding(embedding_size, self.slices, features, name="embedding")
        self.steps = TurnSteps(self.slices, name="steps")
        self._embedding_alone = False
        self._of_slices = SliceVariables(self.head, self.loss_layers)
        self._turns = Turns(self.slices, simultaneous)
        self._turn_losses = TurnLosses(learners)

    def prepare_optimizer(self, optimizer) -> None:
        super().prepare_optimizer(optimizer)
        if self.hold_others:
            check_holding(optimizer)
        count_apart(optimizer, lambda variable: self._of_slices.steps(variable, self.steps))
        if not optimizer.iterations.numpy():
            self.steps.reset()

    def wrap_sampler(self, sampler) -> Any:
        # Imported here, because plain Keras code does not need the pipelines.
        from pipelines.sampling import WithinClusters

        if self.division.simultaneous:
            return WithinClusters(sampler, shuffle=False, at_once=self.division.learners)
        order = self.division.cluster_order
        return WithinClusters(sampler, proportional=order == "proportional", shuffle=order != "round_robin")

    def callbacks(self, parts) -> dict[str, keras.callbacks.Callback]:
        from tfdml.callbacks.clusters import Recluster

        callback = Recluster(parts.images(), parts.labels, parts.sampler, seed=parts.seed, **parts.of_passes())
        return {"clusters": callback}

    def begin_epoch(self, epoch: int, goes_on: bool = False) -> None:
        """Applies the plan of the division at the start of an epoch. `tfdml.callbacks.Recluster` calls it.

        When learners are joined, the variables of the loss for the whole embedding, such as proxies, are initialized
        with the concatenated variables of the learners. When the embedding is split, the variables of the learners are
        initialized with slices.

        Args:
            epoch: Integer. Number of the epoch, from 0.
            goes_on: Boolean. Whether a resumed run continues in the middle of this epoch. Defaults to `False`.
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

    def pictures(self) -> list[str]:
        return ["clusters"]

    def embedding_layers(self) -> list[keras.layers.Layer]:
        return [self.head]

    def places(self, images) -> tuple[Tensor, Tensor]:
        return self.head.places(self.backbone(images, training=False))

    def learner_embeddings(self, images, training=False) -> Tensor:
        features = self.backbone(images, training=training and not self._embedding_alone)
        return self.head(features, training=training)

    def learning_variables(self) -> list[keras.Variable]:
        if not self._embedding_alone:
            return self.trainable_variables
        fixed = {id(variable) for variable in self.backbone.variables}
        return [variable for variable in self.trainable_variables if id(variable) not in fixed]

    def loss_dims(self, learners, dim) -> list[int]:
        # The last entry is for the whole embedding, which is trained before the division and after the merging.
        return [dim] * learners + [learners * dim]

    def loss_values(self, batch, learners, training=False) -> Tensor:
        """Computes the loss `[B]` of the current learner, equation (3) with any loss, or of the whole embedding."""
        labels, turns = batch["label"], self._turns.of(batch)
        valid = self._turns.check(batch)

        def of_whole():
            inputs = self.loss_layers.inputs_of(self.slices, labels, side_by_side(learners))
            return anchor_values(self.loss, labels, inputs)

        def of_parts():
            if self._turns.parts == 1:
                embeddings = ops.take(learners, turns[0], axis=1)
                each = [lambda k=k: self.loss_layers.inputs_of(k, labels, embeddings) for k in range(self.slices)]
                # If the loss has no layers, it is the same for all learners.
                inputs = self.one_of(turns[0], each) if self.loss_layers.learners else embeddings
                return anchor_values(self.loss, labels, inputs)
            parts = zip(self._turns.divided(labels), self._turns.divided(learners), strict=True)
            values = [
                anchor_values(self.loss, of_part, self.loss_layers.inputs_of(k, of_part, rows[:, k]))
                for k, (of_part, rows) in enumerate(parts)
            ]
            # A part without a learner has no loss.
            return ops.reshape(ops.where((turns >= 0)[:, None], ops.stack(values), 0.0), [-1])

        values = of_whole() if turns is None else self.either(ops.all(turns < 0), of_whole, of_parts)
        return ops.where(valid, values, math.nan)

    def seen_by_loss(self, batch, learners) -> Sequence[tuple[Tensor, Tensor, Any]]:
        labels, turns = batch["label"], self._turns.of(batch)
        learning = ops.unstack(self._turns.learning(turns)[1])
        parts = zip(*(self._turns.seen_by_slices(values, turns) for values in (labels, learners)), strict=True)
        seen = [(of_part, part[:, k], learning[k]) for k, (of_part, part) in enumerate(parts)]
        return [*seen, (labels, side_by_side(learners), learning[-1])]

    def regularization(self, batch) -> Tensor:
        _, learning = self._turns.learning(self._turns.of(batch))
        layers = self.loss_layers.learners
        others = sum(ops.where(learning[k], 0.0, each) for k, layer in enumerate(layers) for each in layer.losses)
        return super().regularization(batch) - others

    def apply_gradients(self, batch, gradients) -> None:
        slices, layers = self._turns.learning(self._turns.of(batch))
        optimizer = without_loss_scaling(self.optimizer)
        before = ops.copy(optimizer.iterations)
        # Without `hold_others`, every step changes all variables that are not frozen.
        counted = (slices, layers) if self.hold_others else map(ops.ones_like, (slices, layers))
        counted = self._of_slices.without_frozen(optimizer, *counted)
        if self.hold_others:
            frozen = Frozen(self.optimizer, self._of_slices.masks(slices, layers))
            super().apply_gradients(batch, gradients)
            frozen.restore(self.assign_where)
        else:
            super().apply_gradients(batch, gradients)
        # If gradients overflow or are still being accumulated, the optimizer does not count a step.
        steps = ops.cast(optimizer.iterations - before, "int32")
        self.steps.add(*(steps * ops.cast(each, "int32") for each in (*counted, slices)))

    def update_measures(self, batch, measured, values) -> dict[str, Tensor]:
        turns = self._turns.of(batch)
        if turns is not None and not self._evaluates:
            # Add the regularization of layers, which is the same for all parts.
            added = measured["loss"] - ops.mean(values)
            parts = self._turns.divided(values)
            losses = [measured["loss"]] if len(parts) == 1 else [ops.mean(part) + added for part in parts]
            self._turn_losses.update(turns, losses)
        return super().update_measures(batch, measured, values)

    def training_metrics(self) -> list[keras.metrics.Metric]:
        return [*super().training_metrics(), *self._turn_losses.means]

    def learner_losses(self) -> list[tuple[float, int]]:
        """Returns the mean loss and the number of batches of each learner in this epoch: `[(loss, batches), ...]`."""
        return [(float(mean.result()), int(ops.convert_to_numpy(mean.count))) for mean in self._turn_losses.means]

    def get_config(self):
        own = {"embedding_size": self.embedding_size, "hold_others": self.hold_others}
        return {**super().get_config(), **self.division.own_config(), **own}
