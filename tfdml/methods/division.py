"""How Divide and Conquer divides the data, and trains one slice of the embedding at a time."""

from typing import Annotated, Literal, TypeAlias

import keras
import tensorflow as tf

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
    """The plan of Algorithm 1 of Divide and Conquer, by epochs counted from 0.

    Args:
        learners: number K of clusters.
        recluster_every: T, epochs from one clustering to the next.
        data_split: `kmeans` of the embedding; `random` parts of the rows, random parts of the classes
            (`random_classes`), or ranges of class numbers (`labels`), all made once; or `none`: learners take turns on
            batches of all data. Table 6 compares K-means with parts of the rows and with groups of similar classes.
        cluster_order: which cluster a batch comes from: `uniform`, `proportional` to its size, or `round_robin`.
        divide_at: the first epoch with clusters and separate learners.
        merge_at: the first epoch that trains the whole embedding on all data again; None: never.
        merge_loss_at: the epoch from which the loss sees the whole embedding while batches still come from clusters;
            None: at `merge_at`.
        finetune: what learns from `merge_at` on: `all`, or the `embedding` layer alone, with what the loss learns; the
            backbone stays as it is then, batch norm too (Sec. 3.3).
        simultaneous: True: a step has a batch of every cluster, one for each learner, so that no learner waits. This
            is not in the paper.
        split_embedding: False: batches come from clusters, but the whole embedding learns from each (Table 6).
        iterations, restarts: of K-means.
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
            received = f"{self.divide_at}, {self.merge_loss_at} and {self.merge_at}"
            raise ValueError(f"Expected divide_at <= merge_loss_at <= merge_at; received {received}.")
        if self.simultaneous and self.cluster_order == "proportional":
            raise ValueError(
                "simultaneous=True has a batch of every cluster in every step, equally many; received "
                "cluster_order='proportional'."
            )
        if self.simultaneous and not self.split_embedding:
            raise ValueError(
                "simultaneous=True has a batch for each learner in every step; received split_embedding=False, with "
                "which there are no learners."
            )
        if self.finetune == "embedding" and self.merge_at is None:
            raise ValueError("finetune='embedding' begins at merge_at; received merge_at=None.")

    def divides_data(self, epoch):
        """True where an epoch's batches come from clusters."""
        return self.divide_at <= epoch and (self.merge_at is None or epoch < self.merge_at)

    def divides_embedding(self, epoch):
        """True where learners take turns in an epoch; the whole embedding learns otherwise."""
        merged = self.merge_loss_at is not None and epoch >= self.merge_loss_at
        return self.split_embedding and self.divides_data(epoch) and not merged

    def divides_anew(self, epoch, is_divided=True):
        """True where an epoch begins with a new clustering; always where the data should be divided but are not yet."""
        first = epoch == self.divide_at or not is_divided
        again = self.data_split == "kmeans" and (epoch - self.divide_at) % self.recluster_every == 0
        return self.data_split != "none" and self.divides_data(epoch) and (first or again)

    def splits_embedding(self, epoch):
        """True where the embedding, whole in the epoch before, is split into learners."""
        return epoch > 0 and self.divides_embedding(epoch) and not self.divides_embedding(epoch - 1)

    def joins_embedding(self, epoch):
        """True where the learners of the epoch before are joined to the whole embedding."""
        return epoch > 0 and self.divides_embedding(epoch - 1) and not self.divides_embedding(epoch)

    def trains_embedding_alone(self, epoch):
        """True where the backbone stays as it is."""
        return self.finetune == "embedding" and epoch >= self.merge_at


def with_optimizer_state(optimizer, variables):
    """Each variable with what the optimizer keeps for it: `[[variable, momentum, ...], ...]`."""
    optimizer = without_loss_scaling(optimizer)
    prefixes = {id(variable): variable.path.replace("/", "_") + "_" for variable in trained_variables(optimizer)}
    groups = {id(variable): [variable] for variable in variables}
    for kept in optimizer.variables:
        # Keras names it after its variable; of names that begin alike the longest is the one.
        owners = [place for place, prefix in prefixes.items() if kept.name.startswith(prefix)]
        owner = max(owners, key=lambda place: len(prefixes[place]), default=None)
        if owner in groups and kept.shape == groups[owner][0].shape:
            groups[owner].append(kept)
    return list(groups.values())


def forget(optimizer, variables):
    """Zeroes what the optimizer keeps for variables, as if they were new."""
    for _, *kept in with_optimizer_state(optimizer, variables):
        for variable in kept:
            variable.assign(tf.zeros_like(variable))


class Frozen:
    """Restores variables, and what a built optimizer keeps for them, after a step that must not change them.

    Make it before the optimizer's step, and call `restore` after it. Each variable comes with a mask: True where it is
    to learn in this step.
    """

    def __init__(self, optimizer, learning):
        groups = with_optimizer_state(optimizer, [variable for variable, _ in learning])
        self._before = [
            (kept.value, tf.identity(tf.convert_to_tensor(kept.value)), mask)
            for group, (_, mask) in zip(groups, learning, strict=True)
            for kept in group
        ]

    def restore(self):
        """Gives every variable its value from before where its mask is False."""
        variables, before, masks = zip(*self._before, strict=True)

        def put_back(strategy, before, masks):
            def restored(variable, before, mask):
                return variable.assign(tf.where(mask, variable, before))

            for variable, value, mask in zip(variables, before, masks, strict=True):
                strategy.extended.update(variable, restored, args=(value, mask), group=False)

        # Every replica holds the same, so each of them puts back its own.
        tf.distribute.get_replica_context().merge_call(put_back, args=(before, masks))


class SliceVariables:
    """Tells which slices of an embedding the columns of its layer, and the layers of a loss, belong to.

    The `LossLayers` have a layer for each slice and one for the whole embedding, or none.
    """

    def __init__(self, head, loss_layers):
        self.head, self.loss_layers = head, loss_layers

    def masks(self, slices, layers):
        """Returns the variables that may be held, with masks of the parts that learn: `[(variable, mask), ...]`.

        It takes masks `[K]` and `[K + 1]` of the slices and the loss' layers that learn.
        """
        columns = tf.gather(slices, self._owner())
        masks = [(self.head.kernel, columns), (self.head.bias, columns)]
        for place, layer in enumerate(self.loss_layers.learners):
            masks += [(variable, layers[place]) for variable in layer.trainable_variables]
        return masks

    def without_frozen(self, optimizer, slices, layers):
        """Returns the masks without what the optimizer has frozen."""
        if not isinstance(optimizer, LayerGroups):
            return slices, layers
        slices &= optimizer.is_learning(self.head.kernel)
        for variable in self.loss_layers.trainable_variables[:1]:
            layers &= optimizer.is_learning(variable)
        return slices, layers

    def steps(self, variable, steps):
        """The number of steps that columns of the embedding layer, or a layer of the loss, have learned in.

        They are those of `TurnSteps`; None for other variables of the model.
        """
        if variable is self.head.kernel or variable is self.head.bias:
            return tf.gather(steps.of_slices, self._owner())
        for place, layer in enumerate(self.loss_layers.learners):
            if any(variable is each for each in layer.trainable_variables):
                return steps.of_layers[place]
        return None

    def _owner(self):
        """The slice of each column of the embedding layer."""
        columns = self.head.kernel.shape[1]
        return tf.range(columns) * self.head.learners // columns


@keras.saving.register_keras_serializable(package="tfdml")
class TurnSteps(VariableHolder):
    """Counts the steps that slices of an embedding have learned in, and the layers that the loss has for them.

    The loss has a layer for each slice, and one for the whole embedding. `of_slices` and `of_layers` are the steps that
    changed them, `turns` those whose loss was of the slice or of the whole embedding. They differ where others are not
    held: momentum changes them, too.
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
        """Counts one more step where these masks `[slices]`, `[slices + 1]` and `[slices]` are 1."""
        self.of_slices.assign_add(tf.cast(slices, "int32"))
        self.of_layers.assign_add(tf.cast(layers, "int32"))
        self.turns.assign_add(tf.cast(turns, "int32"))

    def reset(self):
        """Begins at 0 again."""
        for counts in (self.of_slices, self.of_layers, self.turns):
            counts.assign(tf.zeros_like(counts))

    def reset_layer(self, place):
        """Begins at 0 again for one layer of the loss."""
        others = tf.range(self.of_layers.shape[0]) != place
        self.of_layers.assign(self.of_layers * tf.cast(others, "int32"))
