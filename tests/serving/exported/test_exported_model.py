"""SavedModels give evaluation's embeddings, without tfdml, and are evaluated as they are served."""

import dataclasses
import json
import re
import shutil
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
from tests.commands import ROOT, assert_one_error, run
from tests.run_helpers import result, straight_run
from tfdml.evaluation import Embedder
from tfdml.registry import create
from tfdml.serving import export
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.exported_model import ExportedModel
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    prepare = Preprocessor("resize_short|center_crop", image_size=24, **preprocessing_of(model))
    model(np.zeros((1, 24, 24, 3), np.float32))
    export(model, prepare, folder / "saved")
    paths = write_files(folder)
    return folder, Split(np.array(paths, dtype=object), np.zeros(len(paths), np.int64))


@pytest.mark.slow
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
    with pytest.raises(ValueError, match="embeds whole images, but the dataset crops"):
        ExportedModel(folder / "saved").embed_split(dataclasses.replace(split, boxes=boxes))


def test_other_folders_and_signatures_are_told(tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "saved_model.pb").write_bytes(b"text")
    with pytest.raises(ValueError, match="The SavedModel .*damaged cannot be read"):
        ExportedModel(tmp_path / "damaged")
    module = tf.Module()
    module.double = tf.function(lambda x: {"embedding": 2 * x}, [tf.TensorSpec([None, 3], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "pixels"), signatures=module.double)
    with pytest.raises(ValueError, match="no signature serving_default that maps image_bytes"):
        ExportedModel(tmp_path / "pixels")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with a run, a file of a model alone, versions of exported models, and an empty folder."""
    folder = tmp_path_factory.mktemp("places")
    for name in ("run", "one/1", "two/1", "two/2", "empty"):
        (folder / name).mkdir(parents=True)
    for name in ("run/flags.txt", "run/model.keras", "alone.keras", "two/1/saved_model.pb", "two/2/saved_model.pb"):
        (folder / name).touch()
    return folder


EXPORT = "python -m tfdml.export --run_dir={} --out=exported/1, then pass exported/1."


@pytest.mark.parametrize(
    "name, told, run_dir",
    [
        ("run", "is a run directory, which is not an exported model. Export the model: ", "run"),
        ("run/model.keras", "is a file. Expected the folder of an exported model. Export the model's run: ", "run"),
        ("alone.keras", "is a file. Expected the folder of an exported model. Export the model's run: ", None),
        ("empty", "is not a SavedModel, because it has no saved_model.pb. Export one: ", None),
        ("none", "does not exist. Expected the folder of an exported model. Export one: ", None),
    ],
)
def test_what_is_no_exported_model_and_what_to_do(places, tmp_path, name, told, run_dir):
    expected = f"{places / name} {told}{EXPORT.format(places / run_dir if run_dir else 'runs/...')}"
    images = ImageList(["a.png"], [None], np.array([b""], object))
    for use in (
        ExportedModel,
        lambda model: index_images(tmp_path / "out", images, model=model),
        lambda model: embed_images(tmp_path / "out", images, model=model),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
            use(places / name)
    assert not (tmp_path / "out").exists()


def test_the_only_version_is_meant(places, exported):
    folder, _ = exported
    shutil.copytree(folder / "saved", places / "one" / "1", dirs_exist_ok=True)
    assert ExportedModel(places / "one").path == places / "one" / "1"
    with pytest.raises(
        ValueError, match=f"{places}/two contains several versions of a model. Pass one of {places}/two/1, "
    ):
        ExportedModel(places / "two")


def test_evaluation_tells_what_it_takes(places):
    done = run("tfdml.evaluate", f"--model={places}/empty", "--dataset=none")
    assert_one_error(
        done, f"--model={places}/empty is not a SavedModel", "You can also pass a .keras file or a run directory"
    )


@pytest.mark.nightly
def test_evaluate_measures_what_is_served(tmp_path):
    run("tfdml.export", f"--run_dir={straight_run()}", f"--out={tmp_path}/exported")
    dataset = "toycars(classes=16, images_per_class=8, image_size=24)"
    done = run("tfdml.evaluate", f"--model={tmp_path}/exported", f"--dataset={dataset}")
    found, best = json.loads(done.stdout.splitlines()[-1]), result(straight_run())["best"]
    names = ("recall_at_1", "map_at_r", "queries")
    assert {name: found[name] for name in names} == pytest.approx({name: best[name] for name in names}, abs=0.02)


SERVE = ROOT / "tests" / "programs" / "serve.py"


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


@pytest.mark.nightly
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
