"""Schedules in epochs against what their words say, step by step."""

import math

import keras
import numpy as np
import pytest

from tfdml import registry

STEPS_PER_EPOCH = 10


def rates(spec, count, learning_rate=0.8, epochs=4):
    """The learning rate of each of the first steps."""
    schedule = registry.create(
        "schedule", spec, learning_rate=learning_rate, steps_per_epoch=STEPS_PER_EPOCH, epochs=epochs
    )
    return np.array([float(schedule(step)) for step in range(count)])


def test_constant_is_the_number_itself():
    assert registry.create("schedule", "constant", learning_rate=0.3, steps_per_epoch=10, epochs=4) == 0.3


def test_step_changes_with_the_first_step_of_the_epoch():
    expected = [0.8] * 10 + [0.4] * 15 + [0.2] * 5
    np.testing.assert_allclose(rates("step(at=(1, 2.5), factor=0.5)", 30), expected, rtol=1e-6)


def test_step_at_one_epoch():
    np.testing.assert_allclose(rates("step(at=2)", 30), [0.8] * 20 + [0.08] * 10, rtol=1e-6)


def test_step_every_so_many_epochs():
    expected = 0.8 * 0.5 ** np.repeat([0, 1, 2, 3], 15)
    np.testing.assert_allclose(rates("step(every=1.5, factor=0.5)", 60), expected, rtol=1e-6)


def test_exponential():
    expected = 0.8 * 0.5 ** (np.arange(60) / 20)
    np.testing.assert_allclose(rates("exponential(every=2, factor=0.5)", 60), expected, rtol=1e-5)
    stairs = 0.8 * 0.5 ** (np.arange(60) // 20)
    np.testing.assert_allclose(rates("exponential(every=2, factor=0.5, staircase=True)", 60), stairs, rtol=1e-6)


def test_cosine_ends_with_the_last_epoch():
    expected = [0.8 * (0.1 + 0.9 * (1 + math.cos(math.pi * min(step, 40) / 40)) / 2) for step in range(50)]
    np.testing.assert_allclose(rates("cosine(floor=0.1)", 50), expected, rtol=1e-5)


def test_cosine_after_a_rise():
    """The rise belongs to the epochs: both end with the run."""
    found = rates("cosine(warmup_epochs=1)", 41)
    np.testing.assert_allclose(found[:11], 0.08 * np.arange(11), atol=1e-7)
    fall = [0.8 * (1 + math.cos(math.pi * step / 30)) / 2 for step in range(31)]
    np.testing.assert_allclose(found[10:], fall, atol=1e-6)


def test_a_spec_may_say_what_the_run_would():
    np.testing.assert_allclose(rates("cosine(epochs=2, learning_rate=0.1)", 31)[[0, 10, 20, 30]], [0.1, 0.05, 0, 0])


@pytest.mark.parametrize(
    "spec, message",
    [
        ("step", "either at=.* or every="),
        ("step(at=(1,), every=2)", "either at=.* or every="),
        ("step(at=(2, 1))", "epochs in ascending order"),
        ("step(at=(1, 1.01))", "epochs in ascending order"),
        ("step(at=(0.01, 1))", "at must be at least one step"),
        ("exponential(every=0.01)", "every must be at least one step"),
        ("cosine(warmup_epochs=4)", "0 <= warmup_epochs < epochs. Received: warmup_epochs=4, epochs=4"),
        ("cosine(warmup_epochs=-1)", "Received: warmup_epochs=-1"),
    ],
)
def test_what_means_nothing_is_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        rates(spec, 1)


@pytest.mark.parametrize("spec", ["step(at=(1, 2))", "step(every=1)", "exponential", "cosine(warmup_epochs=1)"])
def test_optimizers_save_them(spec):
    schedule = registry.create("schedule", spec, learning_rate=0.8, steps_per_epoch=10, epochs=4)
    optimizer = registry.create("optimizer", "sgd(momentum=0.9)")
    optimizer.learning_rate = schedule
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert [float(again._learning_rate(step)) for step in range(40)] == list(rates(spec, 40).astype(float))
