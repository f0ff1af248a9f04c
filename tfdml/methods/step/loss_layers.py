"""Variables of a loss, as layers of the model."""

import keras
import tensorflow as tf

from tfdml.functional.checks import check_class_numbers
from tfdml.functional.pairs import batch_ids
from tfdml.layers.loss_layer import layer_of
from tfdml.methods.step.step_checks import message_of_check
from tfdml.methods.step.variable_holder import VariableHolder


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
        if layer.classes != 1:
            check_class_numbers(labels)
        with tf.control_dependencies(_known_classes(labels, layer)):
            labels = tf.identity(labels)
        return layer(embeddings, labels)


def _shapes(layers):
    """Kinds of layers, and the shapes of their variables."""
    return [(type(layer), [variable.shape for variable in layer.weights]) for layer in layers]


def _known_classes(labels, layer):
    """Checks that the labels are classes of the layer, and not too many; with one margin for all, any are."""
    if layer.classes == 1:
        return []
    message = message_of_check(
        f"The loss was made for {layer.classes} classes: expected labels from 0 to {layer.classes - 1}, received "
        "another one in a batch."
    )
    low, high = tf.reduce_min(labels), tf.reduce_max(labels)
    return [
        tf.debugging.assert_non_negative(low, message=message),
        tf.debugging.assert_less(tf.cast(high, tf.int64), tf.constant(layer.classes, tf.int64), message=message),
        *_not_too_many(labels, layer.most_classes),
    ]


def _not_too_many(labels, most):
    """Checks that there are no more different labels than the most; None: there may be any number."""
    if most is None:
        return []
    firsts = tf.cast(batch_ids(labels), tf.int32) == tf.range(tf.shape(labels)[0])
    message = message_of_check(
        f"A step samples {most} classes, and the batch has more. Give the loss a larger sampled_classes."
    )
    return [tf.debugging.assert_less_equal(tf.reduce_sum(tf.cast(firsts, tf.int32)), most, message=message)]
