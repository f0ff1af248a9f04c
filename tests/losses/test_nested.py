from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.methods.models import small_model
from tfdml import registry
from tfdml.losses import Contrastive, Nested, ProxyAnchor, RankedList, Triplet, WeightedSum
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
        ("nested(loss='triplet')", r"needs dims: write nested\(dims="),
        ("nested(loss='triplet', dims=(4, 2))", "dims that increase.*received dims=.4, 2."),
        ("nested(loss='triplet', dims=(2, 2))", "dims that increase"),
        ("nested(loss='triplet', dims=())", "dims to be a tuple of one or more"),
        ("nested(loss='triplet', dims=(0, 2))", "dims to be a tuple of one or more"),
        ("nested(loss='tripelt', dims=(2, 4))", "Unknown loss 'tripelt'"),
        ("nested(loss='proxy_anchor', dims=(2, 4))", "on pairs, such as triplet, received ProxyAnchor, which has var"),
        ("nested(loss='triplet+proxy_nca', dims=(2, 4))", "received WeightedSum, which has variables"),
        ("nested(loss=\"margin(learn_beta='per_class')\", dims=(2, 4))", "received Margin, which has variables"),
    ],
)
def test_what_cannot_be_nested_is_told(spec, message):
    with pytest.raises(ValueError, match=message):
        registry.create("loss", spec, classes=7)


def test_more_dims_than_the_embedding_has_are_told(make_batch):
    with pytest.raises(ValueError, match="dims of at most 5, the size of the embedding, received dims=.2, 6."):
        Nested("triplet", dims=(2, 6))(*make_batch())
    model = small_model()
    model(np.zeros((1, 8, 8, 3), np.float32))
    with pytest.raises(ValueError, match="dims of at most 16"):
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


@pytest.mark.slow
def test_a_compiled_model_trains_saves_and_loads_with_it(make_batch, tmp_path):
    keras.utils.set_random_seed(0)
    labels, features = make_batch(24, 3, normalised=False)
    network = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4)])
    loss = Nested("triplet(mining='all')", dims=(2, 4))
    network.compile(keras.optimizers.Adam(0.1), loss=loss, run_eagerly=True)
    losses = network.fit(features, labels, batch_size=24, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    network.save(tmp_path / "network.keras")
    loaded = keras.models.load_model(tmp_path / "network.keras")
    assert loaded.loss.get_config() == loss.get_config() and type(loaded.loss.loss) is Triplet
    expected = naive(labels, network(features).numpy(), (2, 4), mining="all").mean()
    assert loaded.evaluate(features, labels, batch_size=24, verbose=0) == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_methods_train_with_it_and_with_a_memory():
    images = np.random.default_rng(0).normal(size=(16, 12, 12, 3)).astype("float32")
    labels, model = np.repeat(np.arange(4), 4), small_model()
    model.compile("adam", loss="nested(loss='contrastive', dims=(2, 4))", memory="xbm(size=64)")
    history = model.fit(images, labels, epochs=3, verbose=0).history["loss"]
    assert np.all(np.isfinite(history))
