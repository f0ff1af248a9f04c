"""Which places make two images similar."""

import keras
import numpy as np
import pytest
from PIL import Image

import tfdml
from tfdml.heads import Linear
from tfdml.reporting import draw_similarities_of_places, similarity_map, similarity_maps
from tfdml.reporting.pictures.model import CELL, HEAD, MARGIN, SIDE, SimilarityMap
from tfdml.reporting.sheets import FRAME


def backbone():
    return tfdml.backbones.Small(width=8, stages=2)


MODELS = {
    "single": lambda: tfdml.Single(backbone(), embedding_size=12, head=Linear(pooling="max", norm="batch")),
    "unnormalized": lambda: tfdml.Single(backbone(), embedding_size=12, normalize=False),
    "features": lambda: tfdml.Features(backbone(), head=Linear(pooling="gem", norm="layer")),
    "divided": lambda: tfdml.DivideAndConquer(backbone(), embedding_size=12, learners=3),
    "attention": lambda: tfdml.AttentionEnsemble(backbone(), embedding_size=12, learners=2),
    "heads": lambda: tfdml.MultiHead(backbone(), embedding_size=12, learners=2),
}


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(size=(2, 16, 16, 3)).clip(-2, 2).astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_places_add_up_to_the_inner_product(name, images):
    model = MODELS[name]()
    embeddings = np.asarray(model(images))
    for weight in model.embedding_layers()[0].weights:
        weight.assign(weight + 0.05)
    embeddings = np.asarray(model(images), np.float64)
    found, back = similarity_map(model, *images), similarity_map(model, *images[::-1])
    expected = embeddings[0] @ embeddings[1]
    for value in (found.similarity, found.of_a.sum(), found.of_b.sum()):
        assert value == pytest.approx(expected, abs=1e-5, rel=1e-5)
    assert found.of_a.ndim == 2 and found.of_a.std() > 0
    np.testing.assert_allclose(back.of_b, found.of_a, atol=1e-6)
    itself, other = similarity_maps(model, np.stack([images[0], *images]))
    np.testing.assert_allclose(itself.of_a, itself.of_b, atol=1e-6)
    np.testing.assert_allclose(other.of_b, found.of_b, atol=1e-6)


def test_learners_alone_have_the_mean_of_all(images):
    model = MODELS["divided"]()
    learners = np.asarray(model(images, merged=False), np.float64)
    each = [similarity_map(model, *images, learner=k) for k in range(3)]
    np.testing.assert_allclose([one.of_a.sum() for one in each], np.sum(learners[0] * learners[1], axis=1), atol=1e-5)
    np.testing.assert_allclose(np.mean([one.of_a for one in each], axis=0), similarity_map(model, *images).of_a)
    with pytest.raises(ValueError, match="from 0 to 2, received 3"):
        similarity_map(model, *images, learner=3)


def test_a_model_without_one_feature_map_says_so(images):
    model = tfdml.methods.Multilevel(backbone(), embedding_size=8, endpoints=("stage1", "stage2"), reduced=4, hidden=4)
    with pytest.raises(ValueError, match="Multilevel cannot tell what the places"):
        similarity_map(model, *images)
    inputs = keras.Input((16, 16, 3))
    flat = tfdml.Single(keras.Model(inputs, keras.layers.Flatten()(inputs)), embedding_size=4)
    flat(images)
    with pytest.raises(ValueError, match="Expected a feature map"):
        similarity_map(flat, *images)
    with pytest.raises(ValueError, match="Expected two images"):
        similarity_map(flat, images[0, 0], images[1, 0])


def test_red_lies_where_images_are_similar_and_blue_where_they_are_not(tmp_path):
    shares = np.zeros((4, 4))
    shares[0, 0], shares[3, 3] = 1.0, -0.5
    gray = np.full((20, 20, 3), 128, np.uint8)
    draw_similarities_of_places([(gray, gray, SimilarityMap(0.5, shares, shares.T), True)] * 3, tmp_path / "map.png")
    sheet = np.asarray(Image.open(tmp_path / "map.png")).astype(int)
    for column in (1, 2):
        left, top = MARGIN + column * CELL, HEAD
        red, blue = sheet[top + SIDE // 8, left + SIDE // 8], sheet[top + 7 * SIDE // 8, left + 7 * SIDE // 8]
        assert red[0] > red[2] + 30 and blue[2] > blue[0] + 30
        middle = sheet[top + SIDE // 2, left + SIDE // 2]
        assert np.ptp(middle) < 20


def test_images_that_are_not_square_keep_their_shape(tmp_path):
    shares = np.zeros((4, 2))
    shares[0, 0], shares[3, 1] = 1.0, -0.5
    tall = np.full((40, 20, 3), 128, np.uint8)
    draw_similarities_of_places([(tall, tall, SimilarityMap(0.5, shares, shares), True)], tmp_path / "map.png")
    sheet = np.asarray(Image.open(tmp_path / "map.png")).astype(int)
    for column in range(4):
        left, top = MARGIN + column * CELL + FRAME, HEAD + FRAME
        cell = sheet[top : top + SIDE, left : left + SIDE]
        assert np.all(cell[:, : SIDE // 4] == 255) and np.all(cell[:, -SIDE // 4 :] == 255)
        inside = cell[:, SIDE // 4 : -SIDE // 4]
        assert not np.any(np.all(inside == 255, axis=2))
        if column in (1, 2):
            red, blue = inside[SIDE // 8, SIDE // 8], inside[-SIDE // 8, -SIDE // 8]
            assert red[0] > red[2] + 30 and blue[2] > blue[0] + 30


@pytest.mark.parametrize("name", MODELS)
def test_places_of_images_that_are_not_square(name):
    model = MODELS[name]()
    images = np.random.default_rng(0).normal(size=(2, 32, 16, 3)).clip(-2, 2).astype(np.float32)
    embeddings = np.asarray(model(images), np.float64)
    found = similarity_map(model, *images)
    assert found.of_a.shape[0] == 2 * found.of_a.shape[1]
    assert found.of_a.sum() == pytest.approx(embeddings[0] @ embeddings[1], abs=1e-5, rel=1e-5)
