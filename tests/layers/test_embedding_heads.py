"""The heads: from a backbone's features to one embedding, or to one of each learner or level."""

import keras
import numpy as np
import pytest

from tfdml.layers import EmbeddingHead, MultilevelEmbedding, PooledFeatures, Projector, SplitEmbedding

HEADS = [
    EmbeddingHead(12, PooledFeatures("gem", norm="batch", dropout=0.25)),
    EmbeddingHead(12, PooledFeatures("max", norm="layer")),
    SplitEmbedding(12, 3, PooledFeatures("avg+max", norm="layer")),
    SplitEmbedding(12, learners=1),
]


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(size=(7, 4, 4, 6)).astype("float32")


@pytest.mark.parametrize("head", HEADS)
def test_unit_length_in_float32_whatever_the_policy(head, features):
    for policy in ("float32", "mixed_bfloat16"):
        own = type(head).from_config({**head.get_config(), "dtype": policy})
        embeddings = own(features)
        assert embeddings.dtype == "float32" and embeddings.shape == own.compute_output_shape(features.shape)
        np.testing.assert_allclose(np.linalg.norm(embeddings, axis=-1), 1.0, atol=1e-5)


def test_slices_are_the_layer_that_is_not_cut(features):
    whole, cut = EmbeddingHead(12), SplitEmbedding(12, learners=4)
    whole.build(features.shape)
    cut.build(features.shape)
    assert [weight.shape for weight in whole.weights] == [weight.shape for weight in cut.weights]
    cut.set_weights(whole.get_weights())
    kernel, bias = whole.get_weights()
    projected = features.mean(axis=(1, 2)) @ kernel + bias
    for learner in range(4):
        own = projected[:, 3 * learner : 3 * learner + 3]
        own = own / np.linalg.norm(own, axis=1, keepdims=True)
        np.testing.assert_allclose(cut(features)[:, learner], own, atol=1e-5)


def test_each_slice_is_initialised_as_a_layer_of_its_own():
    keras.utils.set_random_seed(3)
    layer = SplitEmbedding(64, learners=8)
    layer.build((None, 512))
    kernel, bias = layer.get_weights()
    slices = kernel.reshape(512, 8, 8)
    # Xavier: the deviation that belongs to 512 inputs and the 8 outputs of a slice, not to 64.
    np.testing.assert_allclose(slices.std(axis=(0, 2)), np.sqrt(2 / (512 + 8)), rtol=0.05)
    assert np.abs(slices[:, 0] - slices[:, 1]).min() > 0 and not np.any(bias)


def test_dropout_and_batch_norm_act_in_training_only(features):
    head = EmbeddingHead(12, PooledFeatures(norm="batch", dropout=0.5))
    before = head(features)
    np.testing.assert_array_equal(head(features), before)
    assert np.abs(head(features, training=True) - before).max() > 0.1
    assert np.abs(head(features) - before).max() > 1e-3


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: SplitEmbedding(10, learners=4), "size 10 cannot be split into 4"),
        (
            lambda: MultilevelEmbedding(10)([np.zeros((2, 6, 6, 4)), np.zeros((2, 3, 3, 8)), np.zeros((2, 8, 8, 4))]),
            "10 .* 3",
        ),
        (
            lambda: MultilevelEmbedding(4)([keras.Input((None, None, 4)), keras.Input((3, 3, 8))]),
            "images must have a fixed size",
        ),
    ],
)
def test_what_cannot_be_is_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_levels(tmp_path):
    rng = np.random.default_rng(0)
    levels = [
        rng.normal(size=(5, side, side, channels)).astype("float32") for side, channels in ((12, 3), (6, 4), (2, 5))
    ]
    inputs = [keras.Input(level.shape[1:]) for level in levels]
    layer = MultilevelEmbedding(24, reduced=7, hidden=9)
    network = keras.Model(inputs, layer(inputs))
    network(levels, training=True)
    learners = network(levels)
    assert learners.shape == (5, 3, 8) == layer.compute_output_shape([level.shape for level in levels])
    np.testing.assert_allclose(np.linalg.norm(learners, axis=-1), 1.0, atol=1e-5)
    # Of the first level: 5 x 5 windows with stride 3 make 4 x 4 places of 7 channels, the last ones over the border;
    # these meet 9 hidden units.
    assert (4 * 4 * 7, 9) in [tuple(weight.shape) for weight in layer.weights]
    # Each level depends on its own features only.
    for number in range(3):
        changed = [level + (which == number) * rng.normal(size=level.shape) for which, level in enumerate(levels)]
        moved = np.abs(network(changed) - learners).max(axis=(0, 2)) > 1e-3
        assert moved.tolist() == [which == number for which in range(3)]
    network.save(tmp_path / "network.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "network.keras")(levels), learners)


POOLINGS = [("avg", "none"), ("max", "batch"), ("avg+max", "layer"), ("gem", "batch")]


@pytest.mark.parametrize(("pooling", "norm"), POOLINGS)
def test_places_add_up_to_the_embedding(features, pooling, norm):
    """Where several places have the maximum, too."""
    features[:, 0, 0] = features[:, 2, 3] = 3.0
    for head in (
        EmbeddingHead(12, PooledFeatures(pooling, norm)),
        EmbeddingHead(12, PooledFeatures(pooling, norm), normalize=False),
        SplitEmbedding(12, 3, PooledFeatures(pooling, norm)),
    ):
        # A pass in training, and biases and offsets that are not 0.
        head(features, training=True)
        head.set_weights([0.1 + weight for weight in head.get_weights()])
        parts, rest = (np.asarray(each) for each in head.places(features))
        found = np.asarray(head(features)).reshape(7, -1, parts.shape[-1])
        assert parts.shape[:4] == (7, 4, 4, found.shape[1])
        np.testing.assert_allclose(parts.sum(axis=(1, 2)) + rest, found, atol=1e-5)


def test_places_of_what_has_none():
    for head, shape in ((EmbeddingHead(4), (2, 6)), (EmbeddingHead(4, PooledFeatures("first")), (2, 5, 6))):
        head.build(shape)
        with pytest.raises(ValueError, match="need a feature map"):
            head.places(np.zeros(shape, np.float32))
    head = EmbeddingHead(4, keras.layers.Flatten())
    head.build((2, 3, 3, 6))
    with pytest.raises(ValueError, match="only known for a head with PooledFeatures.*Received: Flatten"):
        head.places(np.zeros((2, 3, 3, 6), np.float32))


def test_projections_are_linear_layers_with_batch_norm_and_relu_between():
    layer = Projector((6, 4))
    rows = np.random.default_rng(0).normal(size=(8, 5)) * 10
    found = layer(rows)
    first, second = (kernel.numpy() for kernel in layer.kernels)
    hidden = rows @ first
    hidden = np.maximum((hidden - hidden.mean(axis=0)) / np.sqrt(hidden.var(axis=0) + 1e-3), 0)
    np.testing.assert_allclose(found[:, 0], hidden @ second, rtol=1e-5, atol=1e-6)
    assert found.dtype == "float64"
