"""Fixtures that tests of indexes share; a file with photos of its own overrides them."""

import pytest

from tests.serving.index.test_indexing import embeddings_of, write_pictures
from tests.serving_fixtures import SIZE, exported_towers, models_load_once
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images
from tfdml.serving.model_card import write_card

__all__ = ["models_load_once"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def expected(photos):
    """Paths of the photos, and their embeddings."""
    return embeddings_of(photos)


def _card():
    """The card of the model with two towers, without a threshold."""
    facts = {"model": "best", "method": "two_towers", "backbone": "small", "head": "linear", "scores": {}}
    facts |= {"weights": "random", "weights_license": "none needed", "versions": {}}
    facts |= {"data": {"dataset": "toycars", "protocol": "", "queries": None, "selected_on": None, "projected": ""}}
    facts |= {"sha256": model_hash(exported_towers()), "tolerant": True, "lite": None, "onnx": False}
    embedding = {"dimension": 16, "metric": "cosine", "learners": 1, "learner_dimension": 16, "projection": ""}
    return {**facts, "embedding": embedding, "images": {"image_size": SIZE, "transform": "center_crop"}}


@pytest.fixture
def index(tmp_path):
    """An index of twelve photos with two labels. Its model has two towers, and the model's card has no threshold."""
    photos = write_pictures(tmp_path / "photos", range(12))
    index_images(tmp_path / "index", ImageList.of(photos), model=exported_towers())
    write_card(tmp_path / "index" / "model", _card())
    return tmp_path / "index"
