"""Layers that hold the variables of losses, and statistics of losses over an epoch."""

import keras
from keras import ops

from tfdml.functional.checks import check_class_numbers
from tfdml.functional.distances import distances
from tfdml.functional.pairs import batch_ids, negative_pairs, positive_pairs
from tfdml.functional.statistics import mean_of
from tfdml.layers.loss_layer import layer_of
from tfdml.methods.step.parts import VariableHolder, after, check
from tfdml.registry.loss_hooks import hooks_of


@keras.saving.register_keras_serializable(package="tfdml")
class LossLayers(VariableHolder):
    """Holds the layers of a loss, one per learner. Most losses have no variables, and therefore no layers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.learners = []

    def make(self, loss, dims):
        """Replaces the layers by new ones for a loss, one for each embedding size in `dims`.

        If the previous layers have the same types and shapes, the new ones keep their values. Therefore compiling a
        model again does not change its weights.
        """
        made = []
        for dim in dims:
            layer = layer_of(loss)
            if layer is not None:
                layer.build((None, dim))
                layer.built = True
                made.append(layer)
        if _shapes(made) == _shapes(self.learners):
            for layer, before in zip(made, self.learners, strict=True):
                if layer.keeps_values:
                    layer.set_weights(before.get_weights())
        self.learners.clear()
        self.learners.extend(made)

    def join(self):
        """Initializes the layer of the whole embedding from the layers of its slices; see `LossLayer.join_slices`.

        Returns a list with the index of the changed layer, which is empty if the loss has no layers.
        """
        if not self.learners:
            return []
        *slices, whole = self.learners
        whole.join_slices(slices)
        return [len(slices)]

    def split(self):
        """Initializes the layers of the slices from the layer of the whole embedding; see `LossLayer.split_slices`.

        Returns a list of the indices of the changed layers.
        """
        if not self.learners:
            return []
        *slices, whole = self.learners
        whole.split_slices(slices)
        return list(range(len(slices)))

    def inputs_of(self, learner, labels, embeddings, references=None):
        """Returns the input of the loss for the embeddings `[B, d]` of a learner.

        `references` are the reference vectors of the images by name, if the loss needs any.
        """
        if not self.learners:
            return embeddings
        layer = self.learners[learner]
        # A layer with one margin for all classes accepts any labels.
        if layer.classes != 1:
            check_class_numbers(labels)
            labels = after(_known_classes(labels, layer), labels)
        return layer(embeddings, labels, references) if layer.references else layer(embeddings, labels)


def _shapes(layers):
    return [(type(layer), [variable.shape for variable in layer.weights]) for layer in layers]


def _known_classes(labels, layer):
    """Returns checks that the labels are classes of the layer, and that there are not too many of them."""
    message = (
        f"The loss has {layer.classes} classes. Expected labels from 0 to {layer.classes - 1}. Received: a batch with "
        "another label. Set the number of classes of the loss, or number the labels from 0."
    )
    checks = [check(ops.min(labels) >= 0, message), check(ops.max(labels) < layer.classes, message)]
    most = layer.most_classes
    if most is not None:
        firsts = ops.cast(batch_ids(labels), "int32") == ops.arange(ops.shape(labels)[0], dtype="int32")
        message = (
            f"The loss samples {most} classes per step, but the batch has more. Increase sampled_classes of the loss."
        )
        checks.append(check(ops.sum(ops.cast(firsts, "int32")) <= most, message))
    return checks


# Labels of a small batch, which reveals the names of a loss's statistics.
LABELS = (0, 0, 1, 1)


class LossStatistics:
    """Means of scalars per learner over an epoch. It is not a layer, so Keras does not save it with the model."""

    def __init__(self):
        self.names = ()
        self.metrics = []

    def make(self, names, learners):
        """Creates the metric for the named scalars of this number of learners."""
        self.names = tuple(names)
        self.metrics = [_Means((learners, len(self.names)), name="loss_statistics")]

    def update(self, found, counts):
        """Adds a batch: a dictionary of scalars per learner, and whether the batch counts for the learner."""
        (means,) = self.metrics
        values = [[ops.cast(of_learner[name], means.dtype) for name in self.names] for of_learner in found]
        counts = [ops.cast(each, means.dtype) for each in counts]
        means.update_state(ops.stack([ops.stack(row) for row in values]), ops.stack(counts)[:, None])

    def result(self):
        """Returns one dictionary per learner, without scalars that no batch had."""
        rows = ops.convert_to_numpy(self.metrics[0].result()) if self.metrics else []
        return [{name: float(mean) for name, mean in zip(self.names, row, strict=True) if mean == mean} for row in rows]


def statistics_of(loss, labels, embeddings, inputs_of):
    """Returns statistics of a learner's embeddings `[B, d]` and of a Keras loss: a dictionary of scalars.

    `inputs_of` is a function from labels and embeddings to the input of the loss, which is the embeddings or the output
    of a layer; see `LossHooks.statistics`.
    """
    distance, hooks = distances(embeddings), hooks_of(loss)
    statistics = {
        "positive_distance": mean_of(positive_pairs(labels), distance),
        "negative_distance": mean_of(negative_pairs(labels), distance),
    }
    # Computing unused inputs could cost an exchange between devices, which TensorFlow never removes from a graph.
    if hooks.has_statistics:
        statistics |= hooks.statistics(labels, ops.stop_gradient(inputs_of(labels, embeddings)))
    return statistics


class _Means(keras.metrics.Metric):
    """Elementwise mean of arrays that ignores numbers that are not finite. Elements without a number are NaN."""

    def __init__(self, shape, **kwargs):
        super().__init__(**kwargs)
        self.total = self.add_variable(shape, "zeros", name="total")
        self.count = self.add_variable(shape, "zeros", name="count")

    def update_state(self, values, counts):
        counts = ops.where(ops.isfinite(values), counts, 0.0)
        self.total.assign_add(ops.where(counts > 0.0, values * counts, 0.0))
        self.count.assign_add(counts)

    def result(self):
        return ops.where(self.count > 0.0, self.total / ops.maximum(self.count, 1.0), float("nan"))
