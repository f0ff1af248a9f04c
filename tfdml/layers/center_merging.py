"""Regularizer that merges proxies of the same class."""

from typing import Annotated

import keras
from keras import ops

from tfdml.functional.distances import unit_length
from tfdml.registry.arguments import NotNegative, integer
from tfdml.registry.fields import Declared


@keras.saving.register_keras_serializable(package="tfdml")
class CenterMerging(Declared, keras.regularizers.Regularizer):
    """Regularizer of `Proxies` that merges unnecessary centers of a class.

    `weight sum_c sum_{s < t} sqrt(2 - 2 w_cs . w_ct) / (C n (n - 1))` over the n centers w of each of C classes at unit
    length, a sum of distances of centers within a class. Qian et al., SoftTriple Loss: Deep Metric Learning Without
    Triplet Sampling, 2019. Two centers that coincide have a zero gradient.

    Args:
        per_class: n, two or more.
        weight: τ; 0.2 in the paper.
    """

    per_class: Annotated[int, integer(2)]
    weight: NotNegative = 0.2

    def __call__(self, proxies):
        proxies = ops.convert_to_tensor(proxies)
        units = ops.reshape(unit_length(proxies), (-1, self.per_class, proxies.shape[1]))
        squared = 2.0 - 2.0 * ops.matmul(units, ops.transpose(units, (0, 2, 1)))
        squared = squared * (1.0 - ops.eye(self.per_class, dtype=proxies.dtype))
        # Written so that NaN stays NaN.
        apart = ops.logical_not(squared <= 0.0)
        distances = ops.where(apart, ops.sqrt(ops.where(apart, squared, 1.0)), 0.0)
        # Every pair occurs twice.
        return self.weight * ops.sum(distances) / (2.0 * proxies.shape[0] * (self.per_class - 1))

    def get_config(self):
        return self.own_config()
