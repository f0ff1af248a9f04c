"""The plan of Divide and Conquer, and the variables that a step for one slice of the embedding must not change."""

from typing import Annotated, Literal, TypeAlias

import keras
from keras import ops

from tfdml.methods.step.parts import VariableHolder
from tfdml.optimizers.layer_rules import LayerGroups
from tfdml.optimizers.optimizers import without_loss_scaling
from tfdml.registry.arguments import Count, integer
from tfdml.registry.fields import Value
from tfdml.runtime.keras_internals import trained_variables

DataSplit: TypeAlias = Literal["kmeans", "random", "random_classes", "labels", "none"]
ClusterOrder: TypeAlias = Literal["uniform", "proportional", "round_robin"]
Finetuned: TypeAlias = Literal["all", "embedding"]
Epoch = Annotated[int, integer(0)]


class Division(Value):
    """The plan of Algorithm 1 of Divide and Conquer, in epochs counted from 0.

    `DivideAndConquer` describes the arguments. Table 6 of the paper compares K-means with random parts of the images,
    with groups of similar classes, and with `split_embedding=False`. With `finetune="embedding"`, the backbone and its
    batch normalization stay unchanged from `merge_at` on (Sec. 3.3).

    Args:
        learners: Integer. Number K of learners and clusters. Defaults to `8`.
        recluster_every: Integer. Number T of epochs from one clustering to the next. Defaults to `2`.
        data_split: `"kmeans"`, `"random"`, `"random_classes"`, `"labels"` or `"none"`. All but `"kmeans"` are made
            only once. Defaults to `"kmeans"`.
        cluster_order: `"uniform"`, `"proportional"` or `"round_robin"`. Defaults to `"uniform"`.
        divide_at: Integer. First epoch with clusters and separate learners. Defaults to `0`.
        merge_at: Integer or `None`. First epoch in which the whole embedding is trained on all images again. Defaults
            to `None`.
        merge_loss_at: Integer or `None`. Epoch from which the loss receives the whole embedding. Defaults to `None`.
        finetune: `"all"` or `"embedding"`. Defaults to `"all"`.
        simultaneous: Boolean. Whether each step trains all learners. Defaults to `False`.
        split_embedding: Boolean. Whether learners are separate slices. Defaults to `True`.
        iterations, restarts: Integers. Iterations and runs of K-means. Default to `50` and `1`.

    Raises:
        ValueError: If arguments contradict each other.
    """

    learners: Count = 8
    recluster_every: Count = 2
    data_split: DataSplit = "kmeans"
    cluster_order: ClusterOrder = "uniform"
    divide_at: Epoch = 0
    merge_at: Epoch | None = None
    merge_loss_at: Epoch | None = None
    finetune: Finetuned = "all"
    simultaneous: bool = False
    split_embedding: bool = True
    iterations: Count = 50
    restarts: Count = 1

    def check_arguments(self):
        ends = [self.divide_at, *(end for end in (self.merge_loss_at, self.merge_at) if end is not None)]
        if ends != sorted(ends):
            raise ValueError(
                f"Epochs must be in order. Expected divide_at <= merge_loss_at <= merge_at. Received: divide_at="
                f"{self.divide_at}, merge_loss_at={self.merge_loss_at}, merge_at={self.merge_at}."
            )
        if self.simultaneous and self.cluster_order == "proportional":
            raise ValueError(
                "simultaneous=True uses every cluster equally often, because each step has a batch from every cluster. "
                "Expected cluster_order='uniform' or 'round_robin'. Received: cluster_order='proportional'."
            )
        if self.simultaneous and not self.split_embedding:
            raise ValueError(
                "simultaneous=True needs learners, because each step has a batch for each of them. Expected "
                "split_embedding=True. Received: split_embedding=False."
            )
        if self.finetune == "embedding" and self.merge_at is None:
            raise ValueError(
                "finetune='embedding' starts at the epoch merge_at. Expected an integer. Received: merge_at=None. Set "
                "merge_at."
            )

    def divides_data(self, epoch):
        """Whether the batches of an epoch come from clusters."""
        return self.divide_at <= epoch and (self.merge_at is None or epoch < self.merge_at)

    def divides_embedding(self, epoch):
        """Whether learners are trained separately in an epoch, instead of the whole embedding."""
        merged = self.merge_loss_at is not None and epoch >= self.merge_loss_at
        return self.split_embedding and self.divides_data(epoch) and not merged

    def divides_anew(self, epoch, is_divided=True):
        """Whether an epoch starts with a new clustering, which is always so if `is_divided` is False."""
        first = epoch == self.divide_at or not is_divided
        again = self.data_split == "kmeans" and (epoch - self.divide_at) % self.recluster_every == 0
        return self.data_split != "none" and self.divides_data(epoch) and (first or again)

    def splits_embedding(self, epoch):
        """Whether the embedding, which was whole in the previous epoch, is split into learners."""
        return epoch > 0 and self.divides_embedding(epoch) and not self.divides_embedding(epoch - 1)

    def joins_embedding(self, epoch):
        """Whether the learners of the previous epoch are joined to the whole embedding."""
        return epoch > 0 and self.divides_embedding(epoch - 1) and not self.divides_embedding(epoch)

    def trains_embedding_alone(self, epoch):
        """Whether the backbone stays unchanged in an epoch."""
        return self.finetune == "embedding" and epoch >= self.merge_at


def with_optimizer_state(optimizer, variables):
    """Returns each variable with its slots in the optimizer: `[[variable, momentum, ...], ...]`."""
    optimizer = without_loss_scaling(optimizer)
    prefixes = {id(variable): variable.path.replace("/", "_") + "_" for variable in trained_variables(optimizer)}
    groups = {id(variable): [variable] for variable in variables}
    for kept in optimizer.variables:
        # Keras names a slot after its variable. If several names are prefixes, the longest one is the variable's.
        owners = [place for place, prefix in prefixes.items() if kept.name.startswith(prefix)]
        owner = max(owners, key=lambda place: len(prefixes[place]), default=None)
        if owner in groups and kept.shape == groups[owner][0].shape:
            groups[owner].append(kept)
    return list(groups.values())


def forget(optimizer, variables):
    """Sets the optimizer slots of variables to zero, as if the variables were new."""
    for _, *kept in with_optimizer_state(optimizer, variables):
        for variable in kept:
            variable.assign(ops.zeros_like(ops.convert_to_tensor(variable)))


class Frozen:
    """Restores variables and their optimizer slots after a step that must not change them.

    Create it before the step of the optimizer, which must be built, and call `restore` after the step. `learning` are
    pairs of a variable and a mask, which is True for the elements that this step should change.
    """

    def __init__(self, optimizer, learning):
        groups = with_optimizer_state(optimizer, [variable for variable, _ in learning])
        self._changes = [
            (kept, mask, ops.copy(kept)) for group, (_, mask) in zip(groups, learning, strict=True) for kept in group
        ]

    def restore(self, assign_where):
        """Restores the previous values of the elements with a mask of False, by `StepModel.assign_where`."""
        assign_where(self._changes)


class SliceVariables:
    """Maps the columns of an embedding layer and the layers of a loss to slices of the embedding.

    The `LossLayers` contain one layer per slice and one for the whole embedding, or no layers.
    """

    def __init__(self, head, loss_layers):
        self.head, self.loss_layers = head, loss_layers

    def masks(self, slices, layers):
        """Returns pairs of a variable and the mask of its elements that a step should change.

        `slices` `[K]` and `layers` `[K + 1]` are masks of the slices and of the loss layers that are trained.
        """
        columns = ops.take(slices, self._owner())
        masks = [(self.head.kernel, columns), (self.head.bias, columns)]
        for place, layer in enumerate(self.loss_layers.learners):
            masks += [(variable, layers[place]) for variable in layer.trainable_variables]
        return masks

    def without_frozen(self, optimizer, slices, layers):
        """Returns the masks, with False for variables that the optimizer has frozen."""
        if not isinstance(optimizer, LayerGroups):
            return slices, layers
        slices = slices & optimizer.is_learning(self.head.kernel)
        for variable in self.loss_layers.trainable_variables[:1]:
            layers = layers & optimizer.is_learning(variable)
        return slices, layers

    def steps(self, variable, steps):
        """Returns how many steps have trained a variable, according to the `TurnSteps`.

        The embedding layer has a count per column. Variables that every step trains have None.
        """
        if variable is self.head.kernel or variable is self.head.bias:
            return ops.take(ops.convert_to_tensor(steps.of_slices), self._owner())
        for place, layer in enumerate(self.loss_layers.learners):
            if any(variable is each for each in layer.trainable_variables):
                return steps.of_layers[place]
        return None

    def _owner(self):
        """Returns the slice of each column of the embedding layer."""
        columns = self.head.kernel.shape[1]
        return ops.arange(columns, dtype="int32") * self.head.learners // columns


@keras.saving.register_keras_serializable(package="tfdml")
class TurnSteps(VariableHolder):
    """Counts the steps that trained each slice of an embedding and each layer of the loss.

    The loss has one layer per slice and one for the whole embedding. `of_slices` and `of_layers` count the steps that
    changed them. `turns` counts the steps in which the loss was computed for the slice or for the whole embedding. The
    two differ with `hold_others=False`, because momentum then also changes the slices of other learners.
    """

    def __init__(self, slices, **kwargs):
        super().__init__(**kwargs)
        counts = {"of_slices": slices, "of_layers": slices + 1, "turns": slices}
        self.of_slices, self.of_layers, self.turns = (
            self.add_weight(
                name=name,
                shape=(size,),
                initializer="zeros",
                dtype="int32",
                trainable=False,
                autocast=False,
                aggregation="only_first_replica",
            )
            for name, size in counts.items()
        )

    def add(self, slices, layers, turns):
        """Adds masks of shapes `[slices]`, `[slices + 1]` and `[slices]` to the counts."""
        self.of_slices.assign_add(ops.cast(slices, "int32"))
        self.of_layers.assign_add(ops.cast(layers, "int32"))
        self.turns.assign_add(ops.cast(turns, "int32"))

    def reset(self):
        """Sets all counts to 0."""
        for counts in (self.of_slices, self.of_layers, self.turns):
            counts.assign(ops.zeros_like(ops.convert_to_tensor(counts)))

    def reset_layer(self, place):
        """Sets the count of one layer of the loss to 0."""
        others = ops.arange(self.of_layers.shape[0]) != place
        self.of_layers.assign(self.of_layers * ops.cast(others, "int32"))
