"""Fixtures that tests of indexes share; a file with photos of its own overrides them."""

import pytest

from tests.serving.index.test_indexing import embeddings_of, write_pictures
from tests.serving_fixtures import models_load_once

__all__ = ["models_load_once"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def expected(photos):
    """Paths of the photos, and their embeddings."""
    return embeddings_of(photos)
