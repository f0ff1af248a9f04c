import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import RANKED_LIST, RANKED_LISTS, ranked_list, ranked_list_of, value_and_gradient
from tfdml.losses import RankedList, RankedListSimpler


def naive_gradient(labels, embeddings, **arguments):
    """Of the sum over queries: each query's weights times unit vectors along the line to the other row."""
    rows, settings = np.asarray(embeddings, np.float64), {**RANKED_LIST, **arguments}
    gradient = np.zeros_like(rows)
    for i in range(len(labels)):
        for j, weight, _, sign in ranked_list_of(i, labels, rows, **settings):
            gradient[i] += weight * sign * (rows[i] - rows[j]) / np.linalg.norm(rows[i] - rows[j])
    return gradient


def gradient_of(labels, embeddings, **arguments):
    return value_and_gradient(RankedList(**arguments), labels, embeddings)[1]


@pytest.mark.parametrize("arguments", RANKED_LISTS, ids=str)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-3), ("float64", 1e-9)])
def test_gradient_moves_each_query_by_its_own_list(make_batch, dtype, tolerance, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(12, 3, dtype=dtype, normalised=normalised)
        expected = naive_gradient(labels, embeddings, **arguments)
        assert np.abs(expected).max() > 0.1
        found = gradient_of(labels, embeddings, **arguments)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_gallery_and_weights_can_be_differentiated_each_for_itself(make_batch):
    """Against differences: of a list whose other rows stay, and of all with weights that stay."""
    labels, embeddings = make_batch(10, 3, dtype="float64")
    lists = [ranked_list_of(i, labels, embeddings, **RANKED_LIST) for i in range(10)]

    def with_fixed_weights(rows):
        total = 0.0
        for i, found in enumerate(lists):
            for j, weight, _, sign in found:
                total += weight * sign * np.linalg.norm(rows[i] - rows[j])
        return total

    weights = gradient_of(labels, embeddings, differentiate_weights=True)
    gallery = gradient_of(labels, embeddings, differentiate_gallery=True)
    for place in np.ndindex(embeddings.shape):
        step = np.zeros_like(embeddings)
        step[place] = 1e-6
        query = [ranked_list(labels, embeddings + sign * step)[place[0]] for sign in (1, -1)]
        assert weights[place] == pytest.approx((query[0] - query[1]) / 2e-6, abs=1e-6)
        batch = [with_fixed_weights(embeddings + sign * step) for sign in (1, -1)]
        assert gallery[place] == pytest.approx((batch[0] - batch[1]) / 2e-6, abs=1e-6)
    neither = gradient_of(labels, embeddings)
    assert np.abs(weights - neither).max() > 0.05 and np.abs(gallery - neither).max() > 0.1


def test_both_optimisations_of_the_page(make_batch):
    """docs/evidence/ranked_list.md: constant weights and gallery, and the printed objective with nothing constant."""
    labels, embeddings = make_batch(10, 3, dtype="float64")
    printed = gradient_of(labels, embeddings, differentiate_weights=True, differentiate_gallery=True)
    for place in np.ndindex(embeddings.shape):
        step = np.zeros_like(embeddings)
        step[place] = 1e-6
        batch = [sum(ranked_list(labels, embeddings + sign * step)) for sign in (1, -1)]
        assert printed[place] == pytest.approx((batch[0] - batch[1]) / 2e-6, abs=1e-6)
    # A pair's weight w becomes w (1 + T (v - mean)): below mean - 1/T its violation grows.
    expected, turned = np.zeros_like(embeddings), 0
    for i in range(10):
        found = ranked_list_of(i, labels, embeddings, **RANKED_LIST)
        pushes = [(weight, violation) for _, weight, violation, sign in found if sign < 0]
        mean = sum(w * v for w, v in pushes) / (sum(w for w, _ in pushes) or 1.0)
        for j, weight, violation, sign in found:
            factor = 1.0 if sign > 0 else 1 + 10.0 * (violation - mean)
            turned += factor < 0
            unit = (embeddings[i] - embeddings[j]) / np.linalg.norm(embeddings[i] - embeddings[j])
            expected[i] += weight * factor * sign * unit
    weights = gradient_of(labels, embeddings, differentiate_weights=True)
    np.testing.assert_allclose(weights, expected, atol=1e-9)
    assert turned > 0 and np.abs(printed - gradient_of(labels, embeddings)).max() > 0.1


def test_high_temperature_is_the_hardest_pair_and_overflows_nothing(make_batch):
    labels, embeddings = make_batch()
    distance = np.linalg.norm(embeddings[:, None] - embeddings[None], axis=-1)
    same = labels[:, None] == labels[None, :]
    hardest = np.maximum(1.2 - np.where(same, np.inf, distance).min(axis=1), 0)
    values = RankedList(negative_temperature=1e6, balance=1.0).call(labels, embeddings)
    np.testing.assert_allclose(values, hardest, rtol=1e-4, atol=1e-6)
    assert np.all(np.isfinite(gradient_of(labels, embeddings, negative_temperature=1e6, differentiate_weights=True)))


@pytest.mark.parametrize("loss", [RankedList(), RankedListSimpler()])
def test_lists_without_violations_are_zero_with_zero_gradient(loss):
    labels, embeddings = [0, 0, 1, 1], np.array([[0.0, 0.0], [0.5, 0.0], [9.0, 0.0], [9.0, 0.5]])
    values, gradient = value_and_gradient(loss, labels, embeddings)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(gradient, np.zeros((4, 2)))


@pytest.mark.parametrize("labels, missing", [([1] * 6, {"balance": 1.0}), (range(6), {"balance": 0.0})])
def test_a_missing_kind_of_pairs_is_zero_with_zero_gradient(make_batch, labels, missing):
    labels, embeddings = np.array(labels), make_batch(6)[1]
    np.testing.assert_array_equal(RankedList(**missing).call(labels, embeddings), np.zeros(6))
    np.testing.assert_array_equal(gradient_of(labels, embeddings, **missing), np.zeros((6, 5)))
    assert np.any(RankedList().call(labels, embeddings).numpy() > 0)


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("xla", [False, True])
def test_temperatures_can_be_set_under_a_compiled_function(make_batch, xla):
    labels, embeddings = make_batch(size=20)
    loss, traces = RankedList(reduction=None), []

    @tf.function(jit_compile=xla)
    def compiled(labels, embeddings):
        traces.append(1)
        return loss(labels, embeddings)

    labels, embeddings = tf.constant(labels), tf.constant(embeddings)
    for negative, positive in ((10.0, 0.0), (2.5, 0.0), (2.5, -4.0)):
        loss.negative_temperature, loss.positive_temperature = negative, positive
        expected = ranked_list(
            labels.numpy(), embeddings.numpy(), negative_temperature=negative, positive_temperature=positive
        )
        np.testing.assert_allclose(compiled(labels, embeddings), expected, rtol=1e-4)
    assert len(traces) == 1


def test_the_configuration_keeps_the_temperatures_it_was_made_with():
    loss = RankedList(negative_temperature=10.1, final_negative_temperature=2.0)
    loss.negative_temperature, loss.positive_temperature = 3.3, -0.7
    assert (loss.negative_temperature, loss.positive_temperature) == (3.3, -0.7)
    read = RankedList.from_config(loss.get_config())
    assert (read.negative_temperature, read.positive_temperature) == (10.1, 0.0)
    assert read.final_negative_temperature == 2.0
    simpler = RankedListSimpler()
    assert not hasattr(simpler, "positive_temperature")
    with pytest.raises(AttributeError, match="RankedListSimpler has no positive_temperature"):
        simpler.positive_temperature = 1.0


def test_made_under_a_strategy_its_steps_see_what_is_set(make_batch):
    labels, embeddings = (tf.constant(values) for values in make_batch())
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        loss = RankedList()

    @tf.function
    def step():
        return strategy.run(lambda: loss(labels, embeddings))

    first = float(step())
    loss.negative_temperature = 0.0
    assert float(step()) == pytest.approx(
        np.mean(ranked_list(labels.numpy(), embeddings.numpy(), negative_temperature=0.0))
    )
    assert abs(float(step()) - first) > 1e-3


def test_of_the_simpler_loss_the_temperature_is_set_and_the_configuration_has_no_more_than_the_arguments(make_batch):
    labels, embeddings = make_batch()
    loss = RankedListSimpler(reduction=None)
    loss.negative_temperature = 1.0
    expected = RankedListSimpler(negative_temperature=1.0).call(labels, embeddings)
    np.testing.assert_allclose(loss(labels, embeddings), expected, rtol=1e-6)
    config = RankedListSimpler(margin=0.6, negative_temperature=4.4).get_config()
    assert (config["margin"], config["negative_temperature"]) == (0.6, 4.4)
    assert not {"alpha", "positive_temperature", "balance"} & set(config)
    assert RankedListSimpler.from_config(config).get_config() == config
