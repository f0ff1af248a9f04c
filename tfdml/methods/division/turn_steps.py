"""How often each learner has learned."""

import keras
import tensorflow as tf

from tfdml.methods.step.variable_holder import VariableHolder


@keras.saving.register_keras_serializable(package="tfdml")
class TurnSteps(VariableHolder):
    """Counts the steps that slices of an embedding have learned in, and the layers that the loss has for them.

    `of_slices` and `of_layers` are the steps that changed them, `turns` those whose loss was of the slice or of the
    whole embedding. They differ where others are not held: momentum changes them, too.

    Args:
        slices: number of slices. The loss has a layer for each, and one for the whole embedding.
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
