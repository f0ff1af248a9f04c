"""Convolution, batch norm and ReLU, the step of convolutional backbones."""

from keras import layers


def convolution(features, channels, size=1, *, name, stride=1, bias=False, norm_epsilon=None, relu=True):
    """Applies a convolution, batch norm and ReLU, with layers `name`, `name_norm` and `name_relu`.

    Args:
        features: Keras tensor `[B, h, w, c]`.
        channels: number of output channels.
        size: side of the kernel, odd.
        name: name of the convolution.
        stride: stride; the first window starts `size // 2` outside the features.
        bias: whether the convolution has a bias.
        norm_epsilon: epsilon of the batch norm; None: no batch norm.
        relu: whether to apply ReLU.
    """
    padding = "same"
    if stride > 1 and size > 1:
        # With strides, Keras' "same" places windows differently than pretrained weights expect.
        features = layers.ZeroPadding2D(size // 2, name=f"{name}_pad")(features)
        padding = "valid"
    arguments = {"strides": stride, "padding": padding, "use_bias": bias, "kernel_initializer": "he_normal"}
    features = layers.Conv2D(channels, size, name=name, **arguments)(features)
    if norm_epsilon is not None:
        features = layers.BatchNormalization(momentum=0.9, epsilon=norm_epsilon, name=f"{name}_norm")(features)
    return layers.ReLU(name=f"{name}_relu")(features) if relu else features
