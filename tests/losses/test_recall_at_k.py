"""Similarity mixup of the Recall@k surrogate: virtual images are rows like others, and its draws are repeatable."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import assert_is_gradient, recalls, value_and_gradient
from tests.methods.models import small_model
from tfdml import layers, losses, registry

ARGUMENTS = {"ks": (1, 2, 4), "temperature": 0.2, "rank_temperature": 0.5}


def mixed(labels, taken, count):
    """The loss with virtual rows written out: row i and the next rows of its class, in a circle."""
    rows, shares = np.asarray(taken, np.float64)[:, 0, :-count], np.asarray(taken, np.float64)[:, 0, -count:]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    everything, names = list(rows), list(labels)
    for number in range(count):
        for i, label in enumerate(labels):
            own = [j for j, other in enumerate(labels) if other == label]
            partner = own[(own.index(i) + number + 1) % len(own)]
            everything.append(shares[i, number] * rows[i] + (1 - shares[i, number]) * rows[partner])
            names.append(None if partner == i else label)
    values = recalls(names, [[x @ y for y in everything] for x in everything], **ARGUMENTS)
    each = [zip(values[i :: len(labels)], names[i :: len(labels)], strict=True) for i in range(len(labels))]
    return [np.mean([value for value, name in own if name is not None]) for own in each]


@pytest.mark.parametrize("labels", [[5, 2, 5, 2, 5, 2, 2], [0, 0, 1, 2, 2, 2], [1, 1, 0, 0]])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_mixtures_as_a_loop(labels, count):
    random = np.random.default_rng(0)
    taken = np.concatenate([random.normal(size=(len(labels), 1, 4)), random.random((len(labels), 1, count))], axis=2)
    loss = losses.RecallAtK(mixtures=count, **ARGUMENTS)
    values, gradient = value_and_gradient(loss, labels, taken)
    np.testing.assert_allclose(values, mixed(labels, taken, count), rtol=1e-9, atol=1e-9)
    assert np.abs(values - losses.RecallAtK(**ARGUMENTS).call(labels, taken[:, 0, :4])).max() > 0.01
    assert_is_gradient(gradient[:, 0, :4], lambda rows: mixed(labels, with_rows(taken, rows), count), taken[:, 0, :4])


def with_rows(taken, rows):
    return np.concatenate([rows[:, None], taken[:, :, 4:]], axis=2)


def test_without_pairs_it_costs_nothing():
    taken = np.random.default_rng(0).random((4, 1, 6))
    for labels in ([0, 0, 0, 0], [0, 1, 2, 3]):
        values, gradient = value_and_gradient(losses.RecallAtK(mixtures=2), labels, taken)
        np.testing.assert_array_equal(values, np.zeros(4))
        np.testing.assert_array_equal(gradient, np.zeros((4, 1, 6)))


def test_perfect_rankings_cost_less_than_wrong_ones():
    labels = np.repeat(np.arange(6), 4)
    perfect = np.eye(6)[labels] + 1e-4 * np.random.default_rng(0).normal(size=(24, 6))
    values = [float(losses.RecallAtK()(labels, rows)) for rows in (perfect, np.eye(6)[np.tile(np.arange(6), 4)])]
    # At k = 1 the sigmoid of k - r is a half at the first rank, so that not even a perfect ranking costs nothing.
    assert values[0] < 0.35 < 0.7 < values[1]


def test_embeddings_without_random_numbers_are_told():
    loss = losses.RecallAtK(mixtures=2)
    with pytest.raises(ValueError, match=r"\[batch, 1, dim \+ 2\]. Received: shape=\(4, 5\)"):
        loss(np.array([0, 0, 1, 1]), np.ones((4, 5), "float32"))
    assert "mixes" in loss.refuses_memory and not loss.has_statistics


def test_draws_follow_the_seed_and_their_number():
    embeddings = np.ones((3, 4), "float32")
    one, other = (layers.MixingShares(2, seed=seed) for seed in (1, 2))
    same = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(one))
    draws = [one(embeddings).numpy() for _ in range(3)]
    for number, draw in enumerate(draws):
        np.testing.assert_array_equal(draw[:, 0, :4], embeddings)
        np.testing.assert_array_equal(same(embeddings), draw)
        assert 0 <= draw[:, :, 4:].min() < draw[:, :, 4:].max() <= 1, number
    assert len({draw.tobytes() for draw in [*draws, other(embeddings).numpy()]}) == 4
    half = one(tf.cast(embeddings, "bfloat16"))
    assert half.dtype == "float32" and half.shape == one.compute_output_shape((3, 4)) == (3, 1, 6)


@pytest.mark.slow
def test_a_model_restored_from_its_variables_continues_exactly(batch):
    images, labels = np.clip(batch[0], -2.0, 2.0), batch[1]

    def compiled():
        keras.utils.set_random_seed(3)
        model = small_model(freeze_batch_norm="all")
        model.compile(keras.optimizers.SGD(0.1), "recall_at_k(mixtures=2, temperature=0.1)", pieces=2, run_eagerly=True)
        model(images[:2])
        model.optimizer.build(model.trainable_variables)
        return model

    def step(model):
        model.fit(images, labels, batch_size=16, shuffle=False, verbose=0)
        return [each.numpy() for each in model.variables]

    straight = compiled()
    stored, end = step(straight), step(straight)
    resumed = compiled()
    for variable, value in zip(resumed.variables, stored, strict=True):
        variable.assign(value)
    for got, expected in zip(step(resumed), end, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert sum("seed" in each.path for each in resumed.variables) == 1


def test_in_a_sum_with_proxies(make_batch):
    loss = registry.create("loss", "recall_at_k(mixtures=1, temperature=0.1) + 0.5*proxy_nca(classes=4)")
    labels, embeddings = make_batch(8)
    layer = loss.make_layer()
    taken = layer(embeddings, labels)
    parts = layer.split(taken)
    np.testing.assert_array_equal(parts[0][:, 0, :5], embeddings)
    expected = loss.terms[0][1].call(labels, parts[0]) + 0.5 * loss.terms[1][1].call(labels, parts[1])
    np.testing.assert_allclose(tf.convert_to_tensor(loss.call(labels, taken)), expected, rtol=1e-5)
