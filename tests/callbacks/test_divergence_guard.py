import types

import keras
import pytest

from tfdml.callbacks import DivergenceGuard
from tfdml.callbacks.retrieval_evaluation import TrainingDiverged

NAN, INFINITE = float("nan"), float("inf")


def guard_of(optimizer):
    guard = DivergenceGuard(step=lambda: 7)
    guard.set_model(types.SimpleNamespace(optimizer=optimizer))
    return guard


@pytest.mark.parametrize(
    "logs, message",
    [
        ({"loss": NAN, "gradient_norm": 1.0}, "The loss is nan at step 7"),
        ({"loss": INFINITE}, "The loss is inf at step 7"),
        ({"loss": 0.5, "gradient_norm": INFINITE}, "The gradient norm is inf at step 7"),
    ],
)
def test_what_is_not_finite_ends_training(logs, message):
    with pytest.raises(TrainingDiverged, match=message):
        guard_of(keras.optimizers.SGD()).on_train_batch_end(0, logs)


def test_finite_values_and_missing_ones_do_not():
    for logs in ({"loss": 1e30, "gradient_norm": 1e30}, {}, None):
        guard_of(keras.optimizers.SGD()).on_train_batch_end(0, logs)


def test_loss_scaling_may_overflow_in_the_gradient_alone():
    guard = guard_of(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()))
    guard.on_train_batch_end(0, {"loss": 0.5, "gradient_norm": INFINITE})
    with pytest.raises(TrainingDiverged, match="The loss is nan"):
        guard.on_train_batch_end(0, {"loss": NAN})


def test_training_names_the_step_of_the_optimizer():
    """The first step makes the weights too large, so the loss of the second is not finite."""
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e30), "mse")
    images, targets = keras.ops.ones((4, 2)), keras.ops.ones((4, 1))
    with pytest.raises(TrainingDiverged, match=r"The loss is (nan|inf) at step 2"):
        model.fit(images, targets, batch_size=2, verbose=0, callbacks=[DivergenceGuard()])
