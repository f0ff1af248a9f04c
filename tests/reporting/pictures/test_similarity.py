"""Which regions make two images similar."""

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


def images_of(height):
    return np.random.default_rng(0).normal(size=(2, height, 16, 3)).clip(-2, 2).astype(np.float32)


@pytest.fixture
def images():
    return images_of(16)


@pytest.mark.slow
@pytest.mark.parametrize("height", [16, 32])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.few_by_day(4)
def test_places_add_up_to_the_inner_product(name, height):
    model, images = MODELS[name](), images_of(height)
    model(images)
    for weight in model.embedding_layers()[0].weights:
        weight.assign(weight + 0.05)
    embeddings = np.asarray(model(images), np.float64)
    found, back = similarity_map(model, *images), similarity_map(model, *images[::-1])
    expected = embeddings[0] @ embeddings[1]
    for value in (found.similarity, found.of_a.sum(), found.of_b.sum()):
        assert value == pytest.approx(expected, abs=1e-5, rel=1e-5)
    assert found.of_a.shape[0] * 16 == found.of_a.shape[1] * height and found.of_a.std() > 0
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
    with pytest.raises(ValueError, match="learner must be from 0 to 2. Received: learner=3"):
        similarity_map(model, *images, learner=3)


def test_a_model_without_one_feature_map_says_so(images):
    model = tfdml.methods.Multilevel(backbone(), embedding_size=8, endpoints=("stage1", "stage2"), reduced=4, hidden=4)
    with pytest.raises(ValueError, match="Multilevel cannot determine how much each position"):
        similarity_map(model, *images)
    inputs = keras.Input((16, 16, 3))
    flat = tfdml.Single(keras.Model(inputs, keras.layers.Flatten()(inputs)), embedding_size=4)
    flat(images)
    with pytest.raises(ValueError, match="need a feature map"):
        similarity_map(flat, *images)
    with pytest.raises(ValueError, match="Expected two images"):
        similarity_map(flat, images[0, 0], images[1, 0])


@pytest.mark.parametrize("width", [20, 40])
def test_red_lies_where_images_are_similar_and_blue_where_they_are_not(width, tmp_path):
    """Images keep their shape: a narrow image is centered in a square."""
    shares = np.zeros((4, width // 10))
    shares[0, 0], shares[-1, -1] = 1.0, -0.5
    gray = np.full((40, width, 3), 128, np.uint8)
    draw_similarities_of_places([(gray, gray, SimilarityMap(0.5, shares, shares), True)] * 3, tmp_path / "map.png")
    sheet, white = np.asarray(Image.open(tmp_path / "map.png")).astype(int), (SIDE - SIDE * width // 40) // 2
    for column in range(4):
        left, top = MARGIN + column * CELL + FRAME, HEAD + FRAME
        cell = sheet[top : top + SIDE, left : left + SIDE]
        assert np.all(cell[:, :white] == 255) and np.all(cell[:, SIDE - white :] == 255)
        inside = cell[:, white : SIDE - white]
        assert not np.any(np.all(inside == 255, axis=2))
        if column in (1, 2):
            red, blue = inside[SIDE // 8, SIDE // 8], inside[-SIDE // 8, -SIDE // 8]
            assert red[0] > red[2] + 30 and blue[2] > blue[0] + 30
            assert np.ptp(inside[SIDE // 2, inside.shape[1] // 2]) < 20
