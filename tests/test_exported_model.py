"""SavedModels are evaluated as they are served."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.datasets import Split
from pipelines.preprocessor import Preprocessor
from tests.commands import assert_one_error, run
from tests.run_helpers import result, straight_run
from tests.test_serving import write_files
from tfdml.preprocessing import preprocessing_of
from tfdml.serving import export
from tfdml.serving.exported_model import ExportedModel


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    prepare = Preprocessor("resize_short|center_crop", image_size=24, **preprocessing_of(model))
    model(np.zeros((1, 24, 24, 3), np.float32))
    export(model, prepare, folder / "saved")
    paths = write_files(folder)
    return folder, Split(np.array(paths, dtype=object), np.zeros(len(paths), np.int64))


def test_embeds_files_and_contents_in_batches(exported):
    folder, split = exported
    embedder = ExportedModel(folder / "saved")
    embeddings = embedder.embed_split(split, batch_size=2)
    assert embeddings.shape == (5, 16) and np.ptp(embeddings, axis=0).max() > 0.01
    contents = np.array([open(path, "rb").read() for path in split.images], dtype=object)
    in_memory = dataclasses.replace(split, images=contents)
    assert in_memory.encoded and not split.encoded
    np.testing.assert_allclose(embedder.embed_split(in_memory), embeddings, atol=1e-6)


def test_names_an_image_that_cannot_be_read(exported, tmp_path):
    folder, split = exported
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(open(split.images[0], "rb").read()[:200])
    paths = np.array([*split.images[:2], str(broken)], dtype=object)
    with pytest.raises(ValueError, match="Image 2, .*broken.jpg, cannot be read"):
        ExportedModel(folder / "saved").embed_split(Split(paths, np.zeros(3, np.int64)))


def test_boxes_are_refused(exported):
    folder, split = exported
    boxes = np.tile(np.array([0, 0, 5, 5], np.int32), (5, 1))
    with pytest.raises(ValueError, match="takes whole images, but the dataset crops"):
        ExportedModel(folder / "saved").embed_split(dataclasses.replace(split, boxes=boxes))


def test_other_folders_and_signatures_are_told(tmp_path):
    with pytest.raises(ValueError, match="Cannot read the SavedModel .*nothing"):
        ExportedModel(tmp_path / "nothing")
    module = tf.Module()
    module.double = tf.function(lambda x: {"embedding": 2 * x}, [tf.TensorSpec([None, 3], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "pixels"), signatures=module.double)
    with pytest.raises(ValueError, match="no signature serving_default from image_bytes"):
        ExportedModel(tmp_path / "pixels")


def test_a_folder_without_a_model_is_told(tmp_path):
    done = run(
        "tfdml.evaluate", f"--model={tmp_path}", "--dataset=toycars(classes=16, images_per_class=8, image_size=24)"
    )
    assert_one_error(done, str(tmp_path), "no saved_model.pb", ".keras")


@pytest.mark.slow
def test_evaluate_measures_what_is_served(tmp_path):
    run("tfdml.export", f"--run_dir={straight_run()}", f"--out={tmp_path}/exported")
    dataset = "toycars(classes=16, images_per_class=8, image_size=24)"
    done = run("tfdml.evaluate", f"--model={tmp_path}/exported", f"--dataset={dataset}")
    found, best = json.loads(done.stdout.splitlines()[-1]), result(straight_run())["best"]
    names = ("recall_at_1", "map_at_r", "queries")
    assert {name: found[name] for name in names} == pytest.approx({name: best[name] for name in names}, abs=0.02)
