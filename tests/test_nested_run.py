"""A run whose loss is nested, and its export with fewer dimensions."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.preprocessor import Preprocessor
from tests.commands import ok
from tests.run_helpers import shared, trained


@shared("nested")
def nested_run(run_dir):
    trained(run_dir, "--loss=nested(loss='multi_similarity', dims=(4, 8))", "--epochs=1", "--steps_per_epoch=4")


def exported(tmp_path, *flags):
    """The embeddings that an exported model gives, the facts of its card, and what the command warned of."""
    done = ok("tfdml.export", f"--run_dir={nested_run()}", f"--out={tmp_path}/out", *flags)
    embed = tf.saved_model.load(tmp_path / "out").signatures["embed_images"]
    facts = json.loads((tmp_path / "out" / "metadata.json").read_text())["embedding"]
    assert facts["projection"] in (tmp_path / "out" / "README.md").read_text()
    return embed(images=tf.constant(pixels()))["embedding"].numpy(), facts, done.stderr


def pixels():
    return np.random.default_rng(0).uniform(0, 255, (6, 24, 24, 3)).astype(np.float32)


@pytest.mark.nightly
def test_dims_that_were_trained_are_the_first_ones(tmp_path):
    found, facts, warned = exported(tmp_path, "--dims=8")
    model = keras.models.load_model(nested_run() / "model.keras", compile=False)
    whole = model(Preprocessor.of(model.preprocessing).normalize(pixels())).numpy()
    expected = whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (facts["dimension"], facts["metric"], warned) == (8, "cosine", "")
    assert facts["projection"] == "the first 8 of 16 dimensions (trained as nested embeddings)"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "flags, projection, warning",
    [
        (
            ["--dims=6"],
            "principal components of 16 dimensions",
            "--dims=6 is not one of the nested sizes that were trained (4, 8)",
        ),
        pytest.param(
            ["--dims=8", "--whiten"], "principal components of 16 dimensions, whitened", "", marks=pytest.mark.nightly
        ),
    ],
)
def test_other_dims_and_whitening_are_principal_components(tmp_path, flags, projection, warning):
    found, facts, warned = exported(tmp_path, *flags)
    assert facts["projection"] == projection and facts["dimension"] == found.shape[1]
    assert warning in warned and bool(warning) == bool(warned)
