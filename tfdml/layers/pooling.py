"""Pooling of a feature map to one vector."""

import keras
from keras import ops

from tfdml.functional.checks import at_least_float32, loss_dtype
from tfdml.layers.loss_layer import Layer
from tfdml.registry.arguments import PoolingKind, Positive, Tensor

# Powers and roots need positive numbers.
SMALLEST = 1e-6


@keras.saving.register_keras_serializable(package="tfdml")
class Pooling(Layer):
    """Pools features `[B, h, w, c]` or `[B, tokens, c]` over positions to `[B, c]`; `[B, c]` is unchanged.

    Args:
        kind: `avg`, `max`, the sum of both `avg+max`, or `gem`: the generalized mean `mean(x^p)^(1/p)` of positive
            values, with a learned p (Radenović et al., Fine-tuning CNN Image Retrieval, 2018). `first` uses the first
            token, which represents the whole image in transformers.
        power: initial p of `gem`. 1 is the average; larger values approach the maximum.
    """

    kind: PoolingKind = "avg"
    power: Positive = 3.0

    def build(self, input_shape):
        if len(input_shape) not in (2, 3, 4):
            raise ValueError(
                "Expected features of shape [B, h, w, c], [B, tokens, c] or [B, c] from the backbone, "
                f"received shape {tuple(input_shape)}."
            )
        if self.kind == "first" and len(input_shape) == 4:
            raise ValueError(
                "Pooling 'first' needs the tokens [B, tokens, c] of a transformer; the backbone returns shape "
                f"{tuple(input_shape)}. Choose another."
            )
        self.exponent = None
        if self.kind == "gem" and len(input_shape) > 2:
            start = keras.initializers.Constant(self.power)
            self.exponent = self.add_weight(
                name="power", shape=(), initializer=start, dtype=loss_dtype(self.variable_dtype), autocast=False
            )

    def call(self, features):
        positions = tuple(range(1, len(features.shape) - 1))
        if not positions:
            return features
        if self.kind == "first":
            return features[:, 0]
        if self.kind == "gem":
            return ops.cast(self._generalized_mean(features, positions), features.dtype)
        pooled = [pool(features, axis=positions) for kind, pool in _POOLS.items() if kind in self.kind.split("+")]
        return sum(pooled[1:], pooled[0])

    def places(self, features: Tensor) -> Tensor:
        """Returns what each position contributes to the pooled features: `[B, h, w, c]`, which add up to them.

        Multiplied by a number, features give as many times the pooled ones, so these are the sum of each feature times
        the derivative with respect to it (Euler). Of the average that is a feature divided by the number of positions;
        of the maximum the maximum, shared equally by the positions that have it; of the generalized mean a share in
        proportion to `x^p`.
        """
        if len(features.shape) != 4 or self.kind == "first":
            raise ValueError(
                "Expected a feature map [B, h, w, c] that is pooled over positions, to tell them apart; received shape "
                f"{tuple(features.shape)} and pooling {self.kind!r}."
            )
        features = at_least_float32(features)
        shares = [_SHARES[kind](self, features) for kind in self.kind.split("+")]
        return sum(shares[1:], shares[0])

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])

    def _generalized_mean(self, features, positions):
        # Powers overflow in half precision.
        features = ops.maximum(at_least_float32(features), SMALLEST)
        exponent = ops.cast(self.exponent, features.dtype)
        # Relative to the largest, which keeps powers within range.
        highest = ops.max(features, axis=positions, keepdims=True)
        mean = ops.mean(ops.power(features / highest, exponent), axis=positions, keepdims=True)
        return ops.squeeze(highest * ops.power(mean, 1.0 / exponent), axis=positions)


def _share_of_average(layer, features):
    del layer
    return features / (features.shape[1] * features.shape[2])


def _share_of_maximum(layer, features):
    del layer
    is_highest = ops.cast(features == ops.max(features, axis=(1, 2), keepdims=True), features.dtype)
    return features * is_highest / ops.sum(is_highest, axis=(1, 2), keepdims=True)


def _share_of_generalized_mean(layer, features):
    positive = ops.maximum(features, SMALLEST)
    powers = ops.power(positive / ops.max(positive, axis=(1, 2), keepdims=True), layer.exponent)
    return layer(features)[:, None, None] * powers / ops.sum(powers, axis=(1, 2), keepdims=True)


_POOLS = {"avg": ops.mean, "max": ops.max}
_SHARES = {"avg": _share_of_average, "max": _share_of_maximum, "gem": _share_of_generalized_mean}
