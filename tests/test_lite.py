"""Models in the format of LiteRT agree with the SavedModel that they are made of."""

import shutil
import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.serving_fixtures import SIZE, exported, loaded
from tfdml.serving.lite import write_lite
from tfdml.serving.model_files import model_hash


@pytest.mark.slow
def test_embeddings_agree_as_far_as_the_precision_allows(tmp_path):
    folder = shutil.copytree(exported(), tmp_path / "exported")
    images = np.random.default_rng(0).integers(0, 256, (4, SIZE, SIZE, 3)).astype(np.float32)
    expected = loaded(model_hash(folder)).signatures["embed_images"](images=tf.constant(images))["embedding"].numpy()
    write_lite(folder, "int8")
    with warnings.catch_warnings():
        # LiteRT's own package has the same interpreter.
        warnings.simplefilter("ignore")
        embed = tf.lite.Interpreter(str(folder / "model.tflite")).get_signature_runner("embed_images")
    for count in (4, 1):
        found = embed(images=images[:count])["embedding"]
        np.testing.assert_allclose(found, expected[:count], atol=0.02)
        assert (found != expected[:count]).any()
