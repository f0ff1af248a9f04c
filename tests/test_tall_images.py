"""A run on images that are not square, from training to what is served."""

import base64
import functools
import json
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import tfdml
from pipelines.datasets import load
from tests.commands import last_json, ok, run, scratch
from tests.run_helpers import (
    METRICS,
    assert_goes_on,
    pictures,
    result,
    shared,
    train_flags,
    trained,
)
from tests.serving_fixtures import embedded_alone
from tfdml.evaluation import cost
from tfdml.serving import ExportedModel, Searcher
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images

pytestmark = pytest.mark.slow
DATASET = "toycars(classes=16, images_per_class=8, image_size=24)"
TALL = [
    "--image_size=32x16",
    "--method=attention_ensemble(learners=2, branch='stage1', attention_depth=1)",
    "--train_transform=warp|random_crop(padding=3)|flip|random_erasing",
    "--cache=pixels",
    "--steps_per_epoch=5",
    "--projector",
]


@shared("tall")
def tall_run(run_dir):
    assert "Warning" not in trained(run_dir, *TALL).stderr


@shared("tall exported")
def exported(out):
    ok("tfdml.export", f"--run_dir={tall_run()}", f"--out={out}", "--onnx", "--lite=float32")


@functools.cache
def test_split():
    return load(DATASET, data_dir=str(pictures())).test


test_split.__test__ = False


@functools.cache
def embeddings():
    """The test images by the run's model."""
    return tfdml.load(tall_run()).embed_split(test_split(), verbose=0)


@pytest.mark.nightly
def test_the_model_takes_tall_images():
    loaded = tfdml.load(tall_run())
    assert loaded.preprocessing.image_shape == loaded.prepare([np.zeros((9, 9, 3))]).shape[1:] == (32, 16, 3)
    found = result(tall_run())
    assert found["cost"].items() >= cost(loaded.model, (32, 16, 3)).items()
    assert found["cost"]["one_learner"]["multiply_adds"] < found["cost"]["multiply_adds"]
    assert "--image_size=32x16\n" in (tall_run() / "flags.txt").read_text()


@pytest.mark.nightly
def test_it_is_evaluated_as_it_was():
    found, best = last_json(run("tfdml.evaluate", f"--run_dir={tall_run()}")), result(tall_run())["best"]
    assert {key: found[key] for key in METRICS} == {key: best[key] for key in METRICS}


@pytest.mark.nightly
@pytest.mark.parametrize("more", [[], ["--cache=none", "--shrink_decoding"]])
def test_a_run_that_was_killed_ends_with_the_same_bits(tmp_path, more):
    straight = tall_run() if not more else tmp_path / "straight"
    if more:
        trained(straight, *TALL, *more)
    flags = train_flags(tmp_path / "killed", *TALL, "--checkpoint_every=2", *more)
    assert_goes_on(tmp_path / "killed", flags, straight, step=2)


@pytest.mark.nightly
def test_what_is_served_of_files_is_what_the_run_embeds():
    contents = test_split().images[:9].tolist()
    served, valid = ExportedModel(exported()).embed_readable(contents)
    assert valid.all()
    np.testing.assert_allclose(served, embeddings()[:9], atol=1e-5)
    card = json.loads((exported() / "metadata.json").read_text())
    assert card["images"]["image_size"] == [32, 16]
    assert card["signatures"]["embed_images"]["inputs"] == {"images": "float32 [B, 32, 16, 3]"}
    assert card["signatures"]["read_image"]["outputs"] == {"image": "float32 [32, 16, 3]"}
    assert "| images | 32 × 16 pixels by `" in (exported() / "README.md").read_text()


@pytest.mark.nightly
@pytest.mark.parametrize("file, package", [("model.onnx", "onnxruntime"), ("model.tflite", "ai_edge_litert")])
def test_other_formats_take_the_pixels(file, package, tmp_path):
    pytest.importorskip(package, reason="an extra of tests")
    model = ExportedModel(exported())
    pixels = np.stack([model.read(content) for content in test_split().images[:3]])
    assert pixels.shape == (3, 32, 16, 3)
    shutil.copy(exported() / file, tmp_path)
    np.testing.assert_allclose(embedded_alone(tmp_path / file, pixels), embeddings()[:3], atol=1e-5)


@pytest.mark.nightly
def test_images_are_embedded_in_bulk_indexed_and_found(tmp_path):
    for number, content in enumerate(test_split().images[:9]):
        (tmp_path / f"{number}.png").write_bytes(content)
    images = ImageList.of(tmp_path)
    shards = embed_images(tmp_path / "bulk", images, model=exported())
    assert len(shards) == 9
    index_images(tmp_path / "index", images, model=exported())
    ((found,),) = Searcher(tmp_path / "index").search([tmp_path / "4.png"], k=1)
    assert Path(found.path).name == "4.png" and found.similarity == pytest.approx(1, abs=1e-5)
    pytest.importorskip("uvicorn", reason="the extra serve is not installed; setup.py lists it")
    from tests.serving.http.service import TOKEN, Service

    service = Service(tmp_path / "index", {"TFDML_TOKEN": TOKEN})
    try:
        query = {"b64": base64.b64encode(test_split().images[4]).decode(), "k": 1}
        answer = service.ask("search", json.dumps(query).encode(), **{"content-type": "application/json"})
        assert [each["name"] for each in answer["neighbors"]] == ["4.png"]
    finally:
        service.kill()


@pytest.mark.nightly
def test_reports_and_the_projector_are_written(tmp_path):
    copy = shutil.copytree(tall_run(), tmp_path / "run")
    assert Image.open(copy / "tensorboard/projector/sprite.png").size == (8 * 48, 8 * 48)
    ok("tfdml.report", f"--run_dir={copy}")
    assert {"attention", "similarity", "neighbors"} <= {path.stem for path in (copy / "report").glob("*.png")}
    page = (copy / "report" / "index.html").read_text(encoding="utf-8")
    # Places of the last feature map, rows and columns.
    assert '"grid":[16,8]' in page.replace(" ", "") and "32x16" in page


@pytest.mark.nightly
def test_runs_are_joined(tmp_path):
    """Members take the same images, and so does the ensemble."""
    other = shutil.copytree(tall_run(), scratch() / "tall other")
    ok("tfdml.ensemble", f"--run_dirs={tall_run()},{other}", f"--out={tmp_path}/joined")
    joined = tfdml.load(tmp_path / "joined")
    assert joined.preprocessing.image_shape == (32, 16, 3)
    assert result(tmp_path / "joined")["cost"]["members"][0] == cost(tfdml.load(tall_run()).model, (32, 16, 3))


# Hidden layers of auxiliary levels read every position.
LEVELS = "multilevel(endpoints=('stage1',), reduced=4, hidden=8)"


def test_levels_are_built_of_tall_images(tmp_path):
    backbone = tfdml.backbones.Small(width=8, stages=2)
    model = tfdml.registry.create("method", LEVELS, backbone=backbone, embedding_size=16)
    model.build((None, 32, 16, 3))
    images = np.random.default_rng(0).normal(size=(2, 32, 16, 3)).astype(np.float32)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(images), model(images))


@pytest.mark.nightly
@pytest.mark.parametrize("method", [LEVELS, "multi_tail(learners=2)"])
def test_methods_are_trained_on_tall_images(method, tmp_path):
    trained(tmp_path / "run", *TALL, f"--method={method}", "--epochs=1", "--steps_per_epoch=2", "--noprojector")
    model = tfdml.load(tmp_path / "run").model
    assert model(tf.zeros((2, 32, 16, 3))).shape == (2, 16)
