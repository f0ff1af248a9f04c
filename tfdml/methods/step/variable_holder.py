"""Variables of a model that no image goes through."""

import keras


class VariableHolder(keras.layers.Layer):
    """A layer that holds variables where Keras finds them, and is never built by a call.

    So its state is never locked: what it holds may change when a model is compiled again.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.built = True
        # Keras' summary shows `?` as the output of layers without it.
        self._build_shapes_dict = {"input_shape": (None,)}

    def compute_output_shape(self, input_shape):
        return input_shape
