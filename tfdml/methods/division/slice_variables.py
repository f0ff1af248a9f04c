"""The variables of slices of an embedding."""

import tensorflow as tf

from tfdml.optimizers.layer_rules import LayerGroups


class SliceVariables:
    """Tells which slices of an embedding the columns of its layer, and the layers of a loss, belong to.

    Args:
        head: `SplitEmbedding`.
        loss_layers: `LossLayers`, with a layer for each slice and one for the whole embedding, or none.
    """

    def __init__(self, head, loss_layers):
        self.head, self.loss_layers = head, loss_layers

    def masks(self, slices, layers):
        """Returns the variables that may be held, with masks of the parts that learn: `[(variable, mask), ...]`.

        Args:
            slices, layers: masks `[K]` and `[K + 1]` of the slices and the loss' layers that learn.
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

        Args:
            variable: any variable of the model; of others the result is None.
            steps: `TurnSteps`.
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
