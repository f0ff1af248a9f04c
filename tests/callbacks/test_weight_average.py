"""The moving average of weights against its formula, and where it is used."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml.callbacks import RetrievalEvaluation, WeightAverage
from tfdml.losses import Triplet


def make_model(batch):
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=1), embedding_size=8)
    model(batch[0])
    # Eagerly: tracing takes longer than the steps. The average has a function of its own.
    model.compile(keras.optimizers.Adam(0.05), loss=Triplet(mining="all"), run_eagerly=True)
    return model


class Record(keras.callbacks.Callback):
    """Keeps the weights after every step."""

    def on_train_begin(self, logs=None):
        self.weights = [self.model.get_weights()]

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append(self.model.get_weights())


def expected_average(history, decay):
    average = history[0]
    for step, weights in enumerate(history[1:], start=1):
        kept = min(decay, (1 + step) / (10 + step))
        average = [kept * old + (1 - kept) * new for old, new in zip(average, weights, strict=True)]
    return average


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.3, pytest.param(0.999, marks=pytest.mark.nightly)])
def test_it_follows_its_formula_moving_statistics_included(batch, decay):
    model, record, average = make_model(batch), Record(), WeightAverage(decay)
    model.fit(*batch, batch_size=8, epochs=4, callbacks=[record, average], verbose=0)
    assert len(record.weights) == 9 and any("moving_mean" in each.path for each in model.variables)
    trained = model.get_weights()
    with average.applied():
        for found, expected in zip(model.get_weights(), expected_average(record.weights, decay), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-6)
            assert found.shape == expected.shape
    for found, before in zip(model.get_weights(), trained, strict=True):
        np.testing.assert_array_equal(found, before)


@pytest.mark.slow
def test_the_weights_come_back_after_an_error(batch):
    model, average = make_model(batch), WeightAverage(0.9)
    model.fit(*batch, batch_size=16, epochs=2, callbacks=[average], verbose=0)
    before = model.get_weights()
    with pytest.raises(KeyboardInterrupt), average.applied():
        raise KeyboardInterrupt
    for found, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.nightly
def test_the_average_is_evaluated_and_can_be_saved(batch, tmp_path):
    model, average = make_model(batch), WeightAverage(0.9)
    seen = []

    def on_evaluation(step, metrics, is_best, seconds):
        seen.append((metrics, model.get_weights()))

    evaluation = RetrievalEvaluation(*batch, average=average, on_evaluation=on_evaluation)
    model.fit(*batch, batch_size=16, epochs=2, callbacks=[average, evaluation], verbose=0)
    metrics, weights = seen[-1]
    for found, variable in zip(weights, average.variables[: len(weights)], strict=True):
        np.testing.assert_array_equal(found, variable)
    model.set_weights(weights)
    assert metrics == tfdml.evaluation.evaluate(model.predict(batch[0], verbose=0), batch[1])


@pytest.mark.nightly
def test_nothing_is_retraced(batch):
    model, average = make_model(batch), WeightAverage(0.999)
    model.fit(*batch, batch_size=16, epochs=9, callbacks=[average], verbose=0)
    assert average._update.experimental_get_tracing_count() == 1


def test_plain_keras_models_in_half_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = keras.Sequential([keras.layers.Dense(3)])
    finally:
        keras.config.set_dtype_policy("float32")
    average = WeightAverage(0.5)
    model.compile("sgd", loss="mse", run_eagerly=True)
    with pytest.raises(ValueError, match="Call the model on a batch"):
        average.make(model)
    data = tf.data.Dataset.from_tensors((np.ones((4, 2), "f"), np.ones((4, 3), "f")))
    model.build((None, 2))
    model.fit(data, callbacks=[average], verbose=0)
    assert [variable.dtype for variable in average.variables] == ["float32", "float32"]


def test_a_second_fit_goes_on_with_a_model_that_begins_with_a_random_layer():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dropout(0.1), keras.layers.Dense(3)])
    model.compile("sgd", loss="mse", run_eagerly=True)
    average, data = WeightAverage(0.5), tf.data.Dataset.from_tensors((np.ones((4, 2), "f"), np.ones((4, 3), "f")))
    average.make(model)
    for _ in range(2):
        model.fit(data, callbacks=[average], verbose=0)
    assert average.steps == 2


@pytest.mark.parametrize("decay", [0, 1, -0.1, 1.5])
def test_decays_that_average_nothing_are_refused(decay):
    with pytest.raises(ValueError, match=f"decay to be a number above 0 and below 1. Received: decay={decay}"):
        WeightAverage(decay)


def test_what_it_cannot_average_is_told(batch):
    average = WeightAverage(0.9)
    with pytest.raises(ValueError, match="no average yet. List it before the callbacks that use it"), average.applied():
        pass
    average.make(make_model(batch))
    other = make_model(batch)
    with pytest.raises(ValueError, match="the weights of another model"):
        average.make(other)
    other.compile("sgd", "triplet", steps_per_execution=2)
    with pytest.raises(ValueError, match="steps_per_execution=1. Received: steps_per_execution=2"):
        other.fit(*batch, batch_size=8, callbacks=[WeightAverage(0.9)], verbose=0)
