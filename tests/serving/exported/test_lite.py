"""Models in the format of LiteRT agree with the SavedModel that they are made of, and run with LiteRT alone."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.serving_fixtures import SIZE, embedded_alone, exported, loaded
from tfdml.serving.exported_model import model_hash
from tfdml.serving.exports import write_lite

WITHOUT = "the extra lite is not installed; setup.py lists it, and it is a part of the extra test"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("precision, tolerance", [("float32", 1e-5), ("float16", 1e-3), ("int8", 0.02)])
def test_embeddings_agree_as_far_as_the_precision_allows(precision, tolerance, tmp_path):
    pytest.importorskip("ai_edge_litert", reason=WITHOUT)
    folder = shutil.copytree(exported(), tmp_path / "exported")
    images = np.random.default_rng(0).integers(0, 256, (4, SIZE, SIZE, 3)).astype(np.float32)
    expected = loaded(model_hash(folder)).signatures["embed_images"](images=tf.constant(images))["embedding"].numpy()
    write_lite(folder, precision)
    for count in (4, 1):
        found = embedded_alone(folder / "model.tflite", images[:count])
        np.testing.assert_allclose(found, expected[:count], atol=tolerance)
        # A lower precision is there, not only asked for.
        assert precision == "float32" or np.abs(found - expected[:count]).max() > 1e-5
