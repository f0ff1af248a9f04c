"""The exported SavedModel gives evaluation's embeddings, without tfdml."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import tfdml
from pipelines.build import evaluation_batches
from pipelines.datasets import Split
from pipelines.preprocessing import preprocessing_of
from pipelines.preprocessor import Preprocessor
from tfdml.evaluation import Embedder
from tfdml.registry import create
from tfdml.serving import export

SERVE = Path(__file__).parent / "programs" / "serve.py"


def write_files(folder):
    """Images of several sizes and formats."""
    rng = np.random.default_rng(0)
    paths = []
    for number, ending in enumerate(["jpg", "png", "jpg", "png", "jpg"]):
        pixels = rng.integers(0, 256, (20 + 7 * number, 50 - 5 * number, 3), dtype=np.uint8)
        paths.append(folder / f"image {number}.{ending}")
        Image.fromarray(pixels).save(paths[-1])
    return [str(path) for path in paths]


@pytest.mark.slow
def test_saved_model_equals_evaluation(tmp_path):
    paths = write_files(tmp_path)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    prepare = Preprocessor("resize_short|center_crop", image_size=24, **preprocessing_of(model))
    split = Split(np.array(paths, dtype=object), np.zeros(len(paths), np.int64))
    evaluated = Embedder(model, verbose=0)(evaluation_batches(split, prepare, batch_size=2), len(paths))

    export(model, prepare, tmp_path / "saved")
    output = tmp_path / "served.npz"
    subprocess.run([sys.executable, SERVE, tmp_path / "saved", output, *paths], check=True, cwd=tmp_path)
    served = np.load(output)
    np.testing.assert_allclose(served["embeddings"], evaluated, atol=1e-5)
    assert served["empty"].shape == (0, 16)
    assert np.ptp(evaluated, axis=0).max() > 0.01


METHODS = ["attention_ensemble(learners=2, branch='stage1', attention_depth=1)"]
# What they export is another network behind the same signatures.
OTHERS = [
    "multilevel(endpoints=('stage1',), reduced=4, hidden=8)",
    "single(normalize=False)",
    "multi_head(learners=2, branch='stage1')",
    "multi_tail(learners=2, branch='stage1')",
    "divide_and_conquer(learners=2)",
    "multilevel(endpoints=('stage1', 'stage2'), reduced=4, hidden=8)",
    "features",
]


@pytest.mark.slow
@pytest.mark.parametrize("method", [*METHODS, *(pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS)])
def test_every_method_is_served(method, tmp_path):
    paths = write_files(tmp_path)
    model = create("method", method, backbone=tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    prepare = Preprocessor("warp", image_size=24, **preprocessing_of(model))
    contents = [Path(path).read_bytes() for path in paths]
    images = np.stack([prepare(tf.constant(each), tf.zeros([2], tf.int64)) for each in contents])
    expected = model(images)
    export(model, prepare, tmp_path / "saved")
    serve = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    for count in (5, 2, 0):
        served = serve(image_bytes=tf.constant(contents[:count], tf.string))["embedding"]
        np.testing.assert_allclose(served, expected[:count], atol=1e-5)
