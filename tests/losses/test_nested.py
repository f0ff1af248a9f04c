"""Losses of another loss: on prefixes of embeddings, and by level of a hierarchy."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.methods.models import small_model
from tfdml import registry
from tfdml.losses import ByLevel, Contrastive, MultiSimilarity, Nested, ProxyAnchor, RankedList, Triplet, WeightedSum
from tfdml.registry.loss_hooks import hooks_of

DIMS = (1, 2, 5)


def naive(labels, embeddings, dims, **arguments):
    """The sum over prefixes, one after the other, divided by their number."""
    total = np.zeros(len(labels))
    for dim in dims:
        prefix = np.array([row[:dim] / np.linalg.norm(row[:dim]) for row in embeddings])
        total += Triplet(**arguments).call(labels, prefix).numpy()
    return total / len(dims)


@pytest.mark.parametrize("normalised", [True, False])
def test_value_is_the_mean_over_prefixes_of_unit_length(make_batch, normalised):
    labels, embeddings = make_batch(dtype="float64", normalised=normalised)
    expected = naive(labels, embeddings, DIMS, margin=0.3, mining="all")
    loss = Nested("triplet(margin=0.3, mining='all')", dims=DIMS)
    np.testing.assert_allclose(loss.call(labels, embeddings), expected, rtol=1e-9)
    made = Nested(loss=Triplet(margin=0.3, mining="all"), dims=DIMS).call(labels, embeddings)
    np.testing.assert_allclose(made, expected, rtol=1e-9)
    assert np.any(expected != Triplet(margin=0.3, mining="all").call(labels, embeddings))


def test_the_whole_embedding_always_counts(make_batch):
    labels, embeddings = make_batch()
    named, left_out = (Nested(loss="triplet", dims=dims).call(labels, embeddings) for dims in (DIMS, DIMS[:-1]))
    np.testing.assert_array_equal(named, left_out)


def test_a_prefix_of_zeros_has_finite_gradients(make_batch):
    labels, embeddings = make_batch()
    embeddings[:6, :2] = 0.0
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = Nested(loss="triplet(mining='all')", dims=(2, 5)).call(labels, variable)
    gradient = tape.gradient(values, variable).numpy()
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(gradient)) and np.any(gradient[:, 0] != 0)


@pytest.mark.parametrize(
    "spec, message",
    [
        ("nested(loss='triplet')", r"requires dims. Write nested\(dims="),
        ("nested(loss='triplet', dims=(4, 2))", "dims must increase.*Received: dims=.4, 2."),
        ("nested(loss='triplet', dims=(2, 2))", "dims must increase"),
        ("nested(loss='triplet', dims=())", "dims to be a tuple of one or more"),
        ("nested(loss='triplet', dims=(0, 2))", "dims to be a tuple of one or more"),
        ("nested(loss='tripelt', dims=(2, 4))", "Unknown loss 'tripelt'"),
        ("nested(loss='proxy_anchor', dims=(2, 4))", "a pair-based loss .* Received: ProxyAnchor, which has var"),
        ("nested(loss='triplet+proxy_nca', dims=(2, 4))", "Received: WeightedSum, which has variables"),
        ("nested(loss=\"margin(learn_beta='per_class')\", dims=(2, 4))", "Received: Margin, which has variables"),
    ],
)
def test_what_cannot_be_nested_is_told(spec, message):
    with pytest.raises(ValueError, match=message):
        registry.create("loss", spec, classes=7)


def test_more_dims_than_the_embedding_has_are_told(make_batch):
    with pytest.raises(ValueError, match="dims must be at most 5, the size of the embedding. Received: dims=.2, 6."):
        Nested("triplet", dims=(2, 6))(*make_batch())
    model = small_model()
    model(np.zeros((1, 8, 8, 3), np.float32))
    with pytest.raises(ValueError, match="dims must be at most 16"):
        model.compile(loss="nested(loss='triplet', dims=(8, 32))")


def test_it_declares_what_its_loss_does():
    given = Nested("triplet(mining='given')", dims=[2, 4])
    assert (given.batch_parts, given.nested_dims) == (3, (2, 4))
    assert given.refuses_memory == Triplet(mining="given").refuses_memory is not None
    assert Nested(Triplet(), dims=(2,)).refuses_memory is None
    falling = Nested(RankedList(final_negative_temperature=0.0), dims=(2,))
    assert len(falling.callbacks(SimpleNamespace(steps=10, step=lambda: 0))) == 1
    mixed = WeightedSum([(1.0, Nested("triplet", dims=(4, 8))), (0.5, Nested("contrastive", dims=(2, 4)))])
    assert mixed.nested_dims == (2, 4, 8)
    assert hooks_of(Contrastive()).nested_dims == () == ProxyAnchor(classes=3).nested_dims


def test_sums_and_other_losses_of_keras_are_nested(make_batch):
    class Length(keras.losses.Loss):
        def call(self, labels, embeddings):
            return keras.ops.sum(keras.ops.abs(embeddings), axis=1)

    labels, embeddings = make_batch()
    prefixes = [embeddings[:, :dim] for dim in (2, 5)]
    expected = [np.abs(each).sum(axis=1) / np.linalg.norm(each, axis=1) for each in prefixes]
    found = Nested(loss=Length(), dims=(2,)).call(labels, embeddings)
    np.testing.assert_allclose(found, np.mean(expected, axis=0), rtol=1e-5)
    parts = [Nested(loss=each, dims=(2,)).call(labels, embeddings) for each in ("triplet", "contrastive")]
    both = Nested(loss="triplet + 2*contrastive", dims=(2,)).call(labels, embeddings)
    np.testing.assert_allclose(both, parts[0] + 2 * parts[1], rtol=1e-5)


LEVELS = np.array([[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2], [1, 3], [1, 3]])


@pytest.mark.parametrize("weights", [None, (0.25, 2.0)])
def test_it_is_the_weighted_sum_over_levels(make_batch, weights):
    _, embeddings = make_batch(8)
    each = [Triplet(mining="all").call(LEVELS[:, level], embeddings) for level in range(2)]
    expected = sum(weight * values for weight, values in zip(weights or (0.5, 0.5), each, strict=True))
    loss = ByLevel("triplet(mining='all')", weights=weights)
    np.testing.assert_allclose(loss.call(LEVELS, embeddings), expected, rtol=1e-6)
    np.testing.assert_allclose(loss(LEVELS, embeddings), np.mean(expected), rtol=1e-5)
    made = ByLevel(loss=Triplet(mining="all"), weights=weights).call(LEVELS, embeddings)
    np.testing.assert_allclose(made, expected, rtol=1e-6)
    assert np.any(np.abs(each[0] - each[1]) > 1e-3)


def test_with_class_numbers_it_is_the_loss(make_batch):
    labels, embeddings = make_batch()
    np.testing.assert_array_equal(ByLevel("triplet").call(labels, embeddings), Triplet().call(labels, embeddings))


def test_a_model_trains_with_it():
    images = np.random.default_rng(0).normal(size=(8, 8, 8, 3)).astype("float32")
    model = small_model()
    model.compile("sgd", loss="by_level(loss='multi_similarity', weights=(0.5, 1.0))", run_eagerly=True)
    batches = tf.data.Dataset.from_tensor_slices((images, LEVELS)).batch(8)
    loss = model.fit(batches, verbose=0).history["loss"][0]
    assert np.isfinite(loss) and loss > 0


def test_what_it_declares():
    assert ByLevel(Triplet(mining="given")).batch_parts == 3 and ByLevel(MultiSimilarity()).refuses_memory
    assert WeightedSum([(1.0, ByLevel("triplet")), (1.0, Triplet())]).takes_levels and not Triplet().takes_levels


@pytest.mark.parametrize(
    "spec, message",
    [
        ("by_level(loss='proxy_anchor')", "a pair-based loss in ByLevel, such as 'triplet'. Received: ProxyAnchor"),
        ("by_level(loss='triplet', weights=(-1,))", "weights"),
        ("by_level(loss='triplet', weights=())", "weights"),
    ],
)
def test_what_it_does_not_take_is_told(spec, message):
    with pytest.raises(ValueError, match=message):
        registry.create("loss", spec, classes=4)


def test_a_weight_for_each_level_is_needed(make_batch):
    with pytest.raises(ValueError, match=r"one value for each of 2 levels. Received: \(1.0, 2.0, 3.0\)"):
        ByLevel("triplet", weights=(1.0, 2.0, 3.0)).call(LEVELS, make_batch(8)[1])
