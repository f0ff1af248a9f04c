"""`python -m tfdml.ensemble` joins complete runs."""

import functools
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.datasets import load as load_dataset
from tests.commands import assert_one_error, last_json, ok, run, scratch
from tests.run_helpers import METRICS, RETRIEVAL, change_flags, pictures, result, straight_run, train
from tfdml.evaluation.evaluate import evaluate, fuse

DATASET = "toycars(classes=16, images_per_class=8, image_size=24)"


@functools.cache
def members():
    """The straight run, and a copy of it with noise in its weights."""
    other = shutil.copytree(straight_run(), scratch() / "other member")
    for file in ("model.keras", "final.keras"):
        model = keras.models.load_model(other / file, compile=False)
        random = np.random.default_rng(0)
        for weight in model.trainable_weights:
            weight.assign_add(random.normal(0, 0.1, weight.shape))
        model.save(other / file)
    return straight_run(), other


@functools.cache
def joined():
    """An ensemble of two runs, with weights, and what the command said."""
    out = scratch() / "joined"
    done = ok("tfdml.ensemble", f"--run_dirs={','.join(map(str, members()))}", f"--out={out}", "--weights=1,3")
    return out, done


@functools.cache
def embeddings():
    """The embeddings of the test split by each member."""
    test = load_dataset(DATASET, data_dir=str(pictures())).test
    return test.labels, [tfdml.load(run_dir).embed_split(test, verbose=0) for run_dir in members()]


@pytest.mark.nightly
def test_the_result_is_that_of_the_fused_members():
    out, done = joined()
    found, (labels, each) = result(out), embeddings()
    fused = fuse(each, [1, 3])
    expected = evaluate(fused, labels, METRICS[:-1])
    assert {name: found["best"][name] for name in METRICS} == pytest.approx(expected)
    together = [evaluate(fuse(each[:count], [1, 3][:count]), labels, RETRIEVAL[:-1]) for count in (1, 2)]
    assert found["learners"]["first"] == together
    for number, run_dir in enumerate(members()):
        alone = evaluate(each[number], labels, METRICS[:-1])
        assert found["learners"]["alone"][number] == pytest.approx(alone)
        about = found["members"][number]
        assert (about["run_dir"], about["weight"]) == (str(run_dir), [1.0, 3.0][number])
    assert 0 < found["learners"]["correlation"] < 1
    assert found["asked"] == 2 and found["best"]["selected_on"] == "test"
    one, other = found["cost"]["members"]
    assert {name: one[name] + other[name] for name in one} == {name: found["cost"][name] for name in one}
    assert len(list((out / "tensorboard" / "hparams").iterdir())) == 1
    assert re.search(r"^best of 2 members +\d+\.\d% ", done.stdout, re.MULTILINE)


@pytest.mark.nightly
def test_an_ensemble_embeds_images_as_its_members_do():
    out, _ = joined()
    test = load_dataset(DATASET, data_dir=str(pictures())).test
    np.testing.assert_allclose(tfdml.load(out).embed_split(test, verbose=0), fuse(embeddings()[1], [1, 3]), atol=1e-5)


@pytest.mark.nightly
def test_the_folder_of_an_ensemble_is_a_run(tmp_path):
    """It is evaluated, drawn and exported as one."""
    out, _ = joined()
    found = last_json(run("tfdml.evaluate", f"--run_dir={out}", "--which=final"))
    assert {name: found[name] for name in METRICS} == pytest.approx(result(out)["metrics"])
    assert run("tfdml.report", f"--run_dir={out}").returncode == 0
    assert (out / "report" / "learners.png").is_file()
    assert "Each learner alone" in (out / "report" / "index.html").read_text(encoding="utf-8")
    ok("tfdml.export", f"--run_dir={out}", f"--out={tmp_path}/exported")
    exported = tf.saved_model.load(tmp_path / "exported")
    test, (_, each) = load_dataset(DATASET, data_dir=str(pictures())).test, embeddings()
    serve = exported.signatures["serving_default"]
    served = serve(image_bytes=tf.constant(test.images.tolist()))["embedding"]
    np.testing.assert_allclose(served, fuse(each, [1, 3]), atol=1e-5)


def refused(tmp_path, *run_dirs, more=()):
    return run("tfdml.ensemble", f"--run_dirs={','.join(map(str, run_dirs))}", f"--out={tmp_path}/out", *more)


@pytest.mark.slow
def test_runs_whose_models_take_other_images_are_refused(tmp_path):
    other = shutil.copytree(straight_run(), tmp_path / "other")
    change_flags(other, "--test_transform=resize_short|center_crop", "--test_transform=warp")
    model = keras.models.load_model(other / "model.keras", compile=False)
    model.preprocessing = tfdml.Preprocessing(**{**model.preprocessing.get_config(), "transform": "warp"})
    model.save(other / "model.keras")
    words = "preprocess images differently: transform=resize_short|center_crop and warp."
    assert_one_error(refused(tmp_path, straight_run(), other), str(straight_run()), str(other), words)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.nightly
def test_bad_flags_end_in_one_line(tmp_path):
    first = straight_run()
    assert_one_error(run("tfdml.ensemble", f"--run_dirs={first}"), "--out is missing")
    assert_one_error(run("tfdml.ensemble", f"--run_dirs={first}", f"--out={first}"), "is not empty")
    assert_one_error(refused(tmp_path, first, more=["--weights=0"]), "--weights must list one number above 0")
    assert_one_error(refused(tmp_path, first, more=["--fit_weights"]), str(first), "--evaluate_on=validation")
    assert_one_error(train(tmp_path / "run", "--member=1"), "--member=1 needs --members")
    assert_one_error(
        train(tmp_path / "run", "--members=2", "--member=2"), "--member must be from 0 to 1 with --members=2"
    )
    assert list(tmp_path.iterdir()) == []
