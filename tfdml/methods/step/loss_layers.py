"""The variables of losses as layers of the model, and statistics of losses over an epoch."""

import keras
import tensorflow as tf
from keras import ops

from tfdml.functional.checks import check_class_numbers
from tfdml.functional.distances import distances
from tfdml.functional.pairs import batch_ids, negative_pairs, positive_pairs
from tfdml.functional.statistics import mean_of
from tfdml.layers.loss_layer import layer_of
from tfdml.methods.step.parts import VariableHolder, message_of_check
from tfdml.registry.loss_hooks import hooks_of


@keras.saving.register_keras_serializable(package="tfdml")
class LossLayers(VariableHolder):
    """Holds the layers of a model's loss, one for each learner, or none: most losses have no variables."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.learners = []

    def make(self, loss, dims):
        """Makes the layers of a loss, each for embeddings of one of these dimensions, in place of those before.

        They keep the values of those before if these are like them: compiling again changes no weights.
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
                layer.set_weights(before.get_weights())
        self.learners.clear()
        self.learners.extend(made)

    def join(self):
        """Lets the last layer, that of the whole embedding, begin as what those of its slices come to.

        See `LossLayer.join_slices`. Returns the place of that layer in a list, which is empty where there are none.
        """
        if not self.learners:
            return []
        *slices, whole = self.learners
        whole.join_slices(slices)
        return [len(slices)]

    def split(self):
        """Lets the layers of slices begin as parts of that of the whole embedding.

        See `LossLayer.split_slices`. Returns the places of these layers in a list.
        """
        if not self.learners:
            return []
        *slices, whole = self.learners
        whole.split_slices(slices)
        return list(range(len(slices)))

    def inputs_of(self, learner, labels, embeddings):
        """Returns the input of the loss for the embeddings `[B, d]` of a learner."""
        if not self.learners:
            return embeddings
        layer = self.learners[learner]
        # With one margin for all classes, any labels are valid.
        if layer.classes != 1:
            check_class_numbers(labels)
            with tf.control_dependencies(_known_classes(labels, layer)):
                labels = tf.identity(labels)
        return layer(embeddings, labels)


def _shapes(layers):
    return [(type(layer), [variable.shape for variable in layer.weights]) for layer in layers]


def _known_classes(labels, layer):
    """Checks that the labels are classes of the layer, and not too many."""
    message = message_of_check(
        f"The loss was made for {layer.classes} classes: expected labels from 0 to {layer.classes - 1}, received "
        "another one in a batch."
    )
    low, high = tf.reduce_min(labels), tf.reduce_max(labels)
    checks = [
        tf.debugging.assert_non_negative(low, message=message),
        tf.debugging.assert_less(tf.cast(high, tf.int64), tf.constant(layer.classes, tf.int64), message=message),
    ]
    most = layer.most_classes
    if most is not None:
        firsts = tf.cast(batch_ids(labels), tf.int32) == tf.range(tf.shape(labels)[0])
        message = message_of_check(
            f"A step samples {most} classes, and the batch has more. Give the loss a larger sampled_classes."
        )
        checks.append(tf.debugging.assert_less_equal(tf.reduce_sum(tf.cast(firsts, tf.int32)), most, message=message))
    return checks


# A batch that tells which scalars there are.
LABELS = (0, 0, 1, 1)


class LossStatistics:
    """Means over an epoch of scalars of each learner. Not a layer, so that Keras does not save them with the model."""

    def __init__(self):
        self.names = ()
        self.metrics = []

    def make(self, names, learners):
        """Makes room for the named scalars of so many learners."""
        self.names = tuple(names)
        self.metrics = [_Means((learners, len(self.names)), name="loss_statistics")]

    def update(self, found, counts):
        """Adds a batch: a dictionary of scalars for each learner, and whether it counts for the learner."""
        (means,) = self.metrics
        values = [[tf.cast(of_learner[name], means.dtype) for name in self.names] for of_learner in found]
        counts = [tf.cast(each, means.dtype) for each in counts]
        means.update_state(tf.stack([tf.stack(row) for row in values]), tf.stack(counts)[:, None])

    def result(self):
        """Returns a list of each learner's dictionary, without scalars that were in no batch."""
        rows = ops.convert_to_numpy(self.metrics[0].result()) if self.metrics else []
        return [{name: float(mean) for name, mean in zip(self.names, row, strict=True) if mean == mean} for row in rows]


def statistics_of(loss, labels, embeddings, inputs_of):
    """Scalars by name of a learner's embeddings `[B, d]`, and of what any Keras loss takes of them.

    `inputs_of` is a function of labels and embeddings that returns what the loss is called with, the embeddings or the
    output of its layer; see `LossHooks.statistics`.
    """
    distance, hooks = distances(embeddings), hooks_of(loss)
    statistics = {
        "positive_distance": mean_of(positive_pairs(labels), distance),
        "negative_distance": mean_of(negative_pairs(labels), distance),
    }
    # Otherwise an exchange between devices, which is never left out of a graph, would be for nothing.
    if hooks.has_statistics:
        statistics |= hooks.statistics(labels, tf.stop_gradient(inputs_of(labels, embeddings)))
    return statistics


class _Means(keras.metrics.Metric):
    """Means of an array, of its finite numbers, NaN where there were none."""

    def __init__(self, shape, **kwargs):
        super().__init__(**kwargs)
        self.total = self.add_variable(shape, "zeros", name="total")
        self.count = self.add_variable(shape, "zeros", name="count")

    def update_state(self, values, counts):
        counts = tf.where(tf.math.is_finite(values), counts, 0.0)
        self.total.assign_add(tf.where(counts > 0.0, values * counts, 0.0))
        self.count.assign_add(counts)

    def result(self):
        return ops.where(self.count > 0.0, self.total / ops.maximum(self.count, 1.0), float("nan"))
