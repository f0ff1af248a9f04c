"""What all backbones of tfdml share."""

import keras


class Backbone(keras.Model):
    """A functional graph from images `[B, H, W, 3]` to features, with named endpoints.

    Images arrive as `(pixels - mean) / std`, RGB, where pixels go from 0 to 255; pipelines and serving read `mean`
    and `std` from here.

    Args:
        inputs: Keras input of the graph.
        endpoints: name to Keras tensor inside the graph, from shallow to deep; the last is the output.
        mean, std: the preprocessing, one number a channel.
    """

    def __init__(self, inputs, endpoints, *, mean, std, **kwargs):
        super().__init__(inputs=inputs, outputs=list(endpoints.values())[-1], **kwargs)
        self.endpoints = endpoints
        self.mean = mean
        self.std = std
