"""The contract of embedders: an exported model, a run's model, a Keras model and a function."""

import numpy as np
import pytest

import tfdml
from pipelines.preprocessing import preprocessing_of
from tests.serving_fixtures import SIZE, exported, exported_tolerant, loaded, picture, two_learners
from tfdml.serving.embedders import ArrayEmbedder, reads_files
from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList

EXPORTED = {"exported": exported, "tolerant": exported_tolerant}
CONTENTS = [picture(0), b"text", picture(1, 24, 60, "JPEG"), b""]


def made(kind, monkeypatch):
    if kind in EXPORTED:
        return loaded(model_hash(EXPORTED[kind]()))
    model, _ = two_learners()
    preprocessing = tfdml.Preprocessing(SIZE, "resize_short|center_crop", **preprocessing_of(model))
    if kind == "of a run":
        return tfdml.ImageEmbedder(model, preprocessing)
    monkeypatch.setattr(model, "preprocessing", preprocessing)
    return ArrayEmbedder(model)


@pytest.mark.parametrize("kind", [*EXPORTED, "of a run", "keras"])
def test_files_are_embedded_and_those_that_cannot_be_read_are_told(kind, monkeypatch):
    embedder = made(kind, monkeypatch)
    expected, _ = made("exported", monkeypatch).embed_readable([CONTENTS[0], CONTENTS[2]])
    vectors, readable = embedder.embed_readable(CONTENTS)
    assert vectors.shape == (4, 16) and vectors.dtype == np.float32
    assert readable.dtype == bool and readable.tolist() == [True, False, True, False]
    np.testing.assert_allclose(vectors[readable], expected, atol=1e-4)
    assert (embedder.dimension, embedder.metric) == (16, "cosine") and reads_files(embedder, CONTENTS)
    assert embedder.digest == made(kind, monkeypatch).digest
    images = ImageList.of_images(CONTENTS)
    kept, found, bad = embed_rows(images, range(4), embedder, batch_size=3)
    assert kept == [0, 2] and bad.keys() == {"Image 1", "Image 3"} and bad["Image 3"] == "the file is empty"
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert embed_rows(images, [], embedder)[1].shape == (0, 16)


def test_a_function_gets_the_images_as_they_are():
    embedder = ArrayEmbedder(lambda names: np.array([[len(name), 1] for name in names]))
    vectors, readable = embedder.embed_readable(["a", "bcd"])
    assert vectors.tolist() == [[1, 1], [3, 1]] and vectors.dtype == np.float32 and readable.all()
    assert not reads_files(embedder, ["a"]) and embedder.dimension is None is embedder.path
    assert (embedder.digest, embedder.metric) == ("function", "cosine")
    with pytest.raises(ValueError, match=r"Embeddings must have the shape \[2, dimensions\]. Received: shape \[1, 2\]"):
        ArrayEmbedder(lambda names: np.ones((1, 2))).embed_readable(["a", "b"])
