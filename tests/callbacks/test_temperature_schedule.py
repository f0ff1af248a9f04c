from types import SimpleNamespace

import keras
import numpy as np
import pytest

import tfdml
from tfdml.callbacks import TemperatureSchedule
from tfdml.callbacks.schedules import temperature_at
from tfdml.losses import Nested, RankedList, Triplet, WeightedSum


def test_the_equation_by_hand():
    # 10 to 4 in 12 steps: half a degree a step.
    assert [temperature_at(step, 10.0, 4.0, 12) for step in (0, 1, 6, 12, 99)] == [10.0, 9.5, 7.0, 4.0, 4.0]
    assert temperature_at(3, 0.0, 8.0, 4) == 6.0


class Recorder(keras.callbacks.Callback):
    """What temperature each step was taken at, asked at its end."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(self.model.loss.negative_temperature)


@pytest.fixture
def train(make_batch):
    """Function that trains a compiled network for some steps and returns the temperatures and losses seen."""
    labels, features = make_batch(16, 4)

    def run(network, callbacks, steps):
        recorder = Recorder()
        history = network.fit(
            features, labels, batch_size=16, epochs=steps, shuffle=False, callbacks=[*callbacks, recorder], verbose=0
        )
        return recorder.seen, history.history["loss"]

    return run


def compiled(loss, seed=0):
    keras.utils.set_random_seed(seed)
    network = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4), keras.layers.UnitNormalization()])
    network.compile(optimizer="sgd", loss=loss)
    return network


def test_every_step_has_the_temperature_of_its_number(train):
    schedule = TemperatureSchedule(first=10.0, last=4.0, steps=3)
    assert train(compiled(RankedList()), [schedule], 5)[0] == [10.0, 8.0, 6.0, 4.0, 4.0]


def test_the_compiled_step_sees_it(train):
    """The loss of the third step is that of a network trained so far at the same temperatures, by hand."""
    scheduled = train(compiled(RankedList()), [TemperatureSchedule(first=20.0, last=0.0, steps=2)], 3)[1]
    constant = train(compiled(RankedList(negative_temperature=20.0)), [], 3)[1]
    network, by_hand = compiled(RankedList()), []
    for temperature in (20.0, 10.0, 0.0):
        network.loss.negative_temperature = temperature
        by_hand += train(network, [], 1)[1]
    np.testing.assert_allclose(scheduled, by_hand, rtol=1e-6)
    assert scheduled[0] == pytest.approx(constant[0]) and abs(scheduled[2] - constant[2]) > 1e-3


def test_a_run_that_goes_on_has_the_temperatures_of_one_that_did_not_stop(train):
    schedule = TemperatureSchedule(first=10.0, last=4.0, steps=6)
    network = compiled(RankedList())
    seen = train(network, [schedule], 2)[0]
    # A new loss, as a new process makes it, and the optimizer's count.
    network.loss.negative_temperature = 10.0
    seen += train(network, [TemperatureSchedule(first=10.0, last=4.0, steps=6)], 4)[0]
    assert seen == [10.0, 9.0, 8.0, 7.0, 6.0, 5.0]


def test_the_step_may_be_counted_by_another(train):
    schedule = TemperatureSchedule(first=10.0, last=4.0, steps=6, step=lambda: 3)
    assert train(compiled(RankedList()), [schedule], 2)[0] == [7.0, 7.0]


def test_the_losses_of_a_sum_have_their_own():
    """In plain Keras by naming the loss; in the training command each that has a last temperature."""
    losses = [
        RankedList(final_negative_temperature=4.0),
        Triplet(),
        RankedList(negative_temperature=0.0, final_negative_temperature=8.0),
        RankedList(),
    ]
    network = compiled(WeightedSum([(1.0, loss) for loss in losses]))
    schedules = network.loss.callbacks(SimpleNamespace(steps=4, step=lambda: 3))
    network.fit(np.ones((16, 5)), np.arange(16) // 2, batch_size=16, callbacks=schedules, verbose=0)
    assert [losses[number].negative_temperature for number in (0, 2, 3)] == [5.5, 6.0, 10.0]


def test_a_loss_without_temperature_is_refused(train):
    with pytest.raises(ValueError, match="such as tfdml.losses.RankedList. Received: loss=.*Triplet"):
        train(compiled(Triplet()), [TemperatureSchedule(10.0, 5.0, 10)], 1)


def test_steps_that_are_executed_together_are_refused(train):
    network = compiled(RankedList())
    network.compile(optimizer="sgd", loss=RankedList(), steps_per_execution=2)
    with pytest.raises(ValueError, match="before every step, .* Received: steps_per_execution=2"):
        train(network, [TemperatureSchedule(10.0, 5.0, 10)], 1)


@pytest.mark.parametrize(
    "wrap", [lambda loss: loss, lambda loss: WeightedSum([(1.0, loss)]), lambda loss: Nested(loss, dims=(4,))]
)
@pytest.mark.few_by_day(1)
def test_a_last_temperature_without_the_schedule_is_told(wrap):
    loss = RankedList(negative_temperature=20.0, final_negative_temperature=1.0)
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    model.compile("sgd", loss=wrap(loss))
    images, labels = np.ones((16, 12, 12, 3), np.float32), np.arange(16) // 2
    with pytest.raises(
        ValueError, match=r"final_negative_temperature=1.0 has no effect .*Schedule\(20.0, 1.0, steps\)"
    ):
        model.fit(images, labels, verbose=0)
    schedule = TemperatureSchedule(20.0, 1.0, 2, loss=loss)
    model.fit(images, labels, batch_size=16, epochs=3, callbacks=[schedule], verbose=0)
    assert loss.negative_temperature == 1.0
