"""Draws proxies of one class together."""

import keras
from keras import ops

from tfdml.functional.distances import unit_length


@keras.saving.register_keras_serializable(package="tfdml")
class CenterMerging(keras.regularizers.Regularizer):
    """Regulariser of `Proxies` that merges centers of a class which it does not need.

    `weight sum_c sum_{s < t} sqrt(2 - 2 w_cs . w_ct) / (C n (n - 1))` over the n centers w of each of C classes at unit
    length: the distances of centers within a class. Qian et al., SoftTriple Loss: Deep Metric Learning Without Triplet
    Sampling, 2019. Where two centers coincide, they have no gradient here.

    Args:
        per_class: n, two or more.
        weight: τ; 0.2 in the paper.
    """

    def __init__(self, per_class, weight=0.2):
        if per_class < 2:
            raise ValueError(f"Expected two or more centers of a class to merge, received {per_class}.")
        self.per_class = per_class
        self.weight = weight

    def __call__(self, proxies):
        proxies = ops.convert_to_tensor(proxies)
        units = ops.reshape(unit_length(proxies), (-1, self.per_class, proxies.shape[1]))
        squared = 2.0 - 2.0 * ops.matmul(units, ops.transpose(units, (0, 2, 1)))
        squared = squared * (1.0 - ops.eye(self.per_class, dtype=proxies.dtype))
        # Written so that what is no number stays none.
        apart = ops.logical_not(squared <= 0.0)
        distances = ops.where(apart, ops.sqrt(ops.where(apart, squared, 1.0)), 0.0)
        # Every pair is in it twice.
        return self.weight * ops.sum(distances) / (2.0 * proxies.shape[0] * (self.per_class - 1))

    def get_config(self):
        return {"per_class": self.per_class, "weight": self.weight}
