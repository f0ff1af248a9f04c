"""Optimizers that are wrapped for loss scaling."""

import keras


def without_loss_scaling(optimizer):
    """Returns the optimizer that a `LossScaleOptimizer` wraps, or the optimizer itself."""
    return optimizer.inner_optimizer if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else optimizer
