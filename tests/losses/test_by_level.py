import numpy as np
import pytest
import tensorflow as tf

from tests.methods.models import small_model
from tfdml import registry
from tfdml.losses import ByLevel, MultiSimilarity, Triplet, WeightedSum

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
        ("by_level(loss='proxy_anchor')", "ByLevel takes a loss on pairs, such as triplet, received ProxyAnchor"),
        ("by_level(loss='triplet', weights=(-1,))", "weights"),
        ("by_level(loss='triplet', weights=())", "weights"),
    ],
)
def test_what_it_does_not_take_is_told(spec, message):
    with pytest.raises(ValueError, match=message):
        registry.create("loss", spec, classes=4)


def test_a_weight_for_each_level_is_needed(make_batch):
    with pytest.raises(ValueError, match=r"a weight for each of 2 levels, received weights=\(1.0, 2.0, 3.0\)"):
        ByLevel("triplet", weights=(1.0, 2.0, 3.0)).call(LEVELS, make_batch(8)[1])
