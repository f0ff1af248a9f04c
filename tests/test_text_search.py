"""A run with two towers by its commands: training, a threshold for texts, export, and search by text."""

import json

import numpy as np
import pytest

import tfdml
from tests.commands import assert_one_error, last_json, ok, run
from tests.run_helpers import pictures, straight_run
from tfdml.run.experiment.threshold import threshold_of
from tfdml.serving.model_card import read_card

CARS = "toycars(classes=16, images_per_class=8, image_size=24, captions=True)"


@pytest.fixture(scope="module")
def towers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("towers") / "run"
    network = ["--image_size=24", "--backbone=small(width=8, stages=2)", "--embedding_size=16", "--noprojector"]
    method = ["--method=two_towers(text='small(width=16, depth=1)')", "--loss=image_text", "--protocol=image_text"]
    data = [f"--dataset={CARS}", f"--data_dir={pictures()}", "--evaluate_on=validation"]
    steps = ["--sampler=uniform(batch_size=16)", "--epochs=1", "--steps_per_epoch=4"]
    ok("tfdml.train", *data, *network, *method, *steps, f"--run_dir={folder}")
    return folder


@pytest.mark.nightly
def test_from_a_run_to_a_search_by_text(towers, tmp_path):
    fitted = run("tfdml.threshold", f"--run_dir={towers}", "--queries=text", "--far=0.05", "--samples=100")
    found = last_json(fitted)
    assert "Accept pairs of a text and an image with a similarity of at least" in fitted.stdout
    assert "pairs that belong together" in fitted.stdout and "pairs that do not" in fitted.stdout
    assert found["queries"] == "text" and found["pairs"]["same"] == 16
    assert threshold_of(towers, queries="text").value == found["threshold"] and threshold_of(towers) is None
    # A run has a threshold of each kind, and its export both.
    of_images = last_json(run("tfdml.threshold", f"--run_dir={towers}", "--far=0.05", "--samples=100"))
    assert threshold_of(towers).value == of_images["threshold"]
    ok("tfdml.export", f"--run_dir={towers}", f"--out={tmp_path}/exported")
    card = read_card(tmp_path / "exported")
    assert card["threshold"]["threshold"] == of_images["threshold"]
    assert card["text_threshold"]["threshold"] == found["threshold"] and "run_dir" not in card["text_threshold"]
    texts = card["texts"]
    assert texts["tokens"] == 64 and texts["strings"] and texts["bias"] is None
    assert texts["temperature"] == pytest.approx(0.07, rel=0.1)
    assert f"| temperature | {texts['temperature']:.4g}, by which" in (tmp_path / "exported" / "README.md").read_text()
    assert {"embed_text", "embed_tokens"} <= card["signatures"].keys()
    index = f"--index={tmp_path}/index"
    source = [f"--images={CARS}", f"--data_dir={pictures()}"]
    ok("tfdml.index", f"--model={tmp_path}/exported", *source, f"--out={tmp_path}/index")
    searched = run("tfdml.search", index, "--text=a red van", "--format=json", "--k=3")
    (answer,) = json.loads(searched.stdout)
    assert answer["query"] == "a red van" and len(answer["neighbors"]) == 3
    assert answer["threshold"]["threshold"] == found["threshold"]
    accepted = [each["similarity"] >= found["threshold"] for each in answer["neighbors"]]
    assert [each["accepted"] for each in answer["neighbors"]] == accepted
    # Another fit goes into the index, by labels as texts.
    embedded = f"--embeddings={tmp_path}/embedded"
    ok("tfdml.embed", f"--model={tmp_path}/exported", *source, f"--out={tmp_path}/embedded")
    flags = ["--queries=text", "--far=0.1", "--samples=100", f"--into={tmp_path}/index"]
    found = last_json(run("tfdml.threshold", embedded, "--captions=a {}", *flags))
    card = read_card(tmp_path / "index" / "model")
    assert card["text_threshold"]["threshold"] == found["threshold"] and found["captions"] == "a {}"
    assert card["threshold"]["threshold"] == of_images["threshold"]


@pytest.mark.slow
def test_a_run_without_texts_is_told():
    done = run("tfdml.threshold", f"--run_dir={straight_run()}", "--queries=text", "--far=0.1", "--split=test")
    assert_one_error(done, "has a Single model, which has no text tower")


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--run_dir=a", "--captions=a {}", "--queries=text"], "--captions has no effect here"),
        (["--embeddings=a", "--captions=a {}"], "--captions has no effect here"),
        (["--embeddings=a", "--queries=text"], "--queries=text with --embeddings needs --into"),
        (["--embeddings=a", "--queries=text", "--protocol=self_retrieval"], "--protocol has no effect here"),
        (["--embeddings=a.npz", "--queries=text", "--into=b"], "--into needs --embeddings to be a folder"),
    ],
)
def test_bad_flags_of_thresholds_are_told(flags, words):
    assert_one_error(run("tfdml.threshold", "--far=0.1", *flags), words)


@pytest.mark.nightly
def test_class_labels_train_images_and_the_result_has_the_search_by_text_before_and_after(tmp_path):
    network = ["--image_size=24", "--backbone=small(width=8, stages=2)", "--embedding_size=16", "--noprojector"]
    method = ["--method=two_towers(text='small(width=16, depth=1)')", "--loss=n_pair", "--protocol=image_text"]
    data = [f"--dataset={CARS}", f"--data_dir={pictures()}", "--sampler=pxk(classes=4, per_class=2)"]
    ok("tfdml.train", *data, *network, *method, "--epochs=1", "--steps_per_epoch=4", f"--run_dir={tmp_path}/run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    names = [f"{way}_recall_at_{k}" for way in ("text_to_image", "image_to_text") for k in (1, 5, 10)]
    before, after = ([result[part][name] for name in names] for part in ("untrained", "metrics"))
    assert before != after and set(names) <= set(result["intervals"])
    # The text tower has not changed.
    first, last = (tfdml.load(tmp_path / "run", which) for which in ("best", "final"))
    np.testing.assert_array_equal(first.embed_texts(["a red van"]), last.embed_texts(["a red van"]))


@pytest.mark.nightly
def test_the_image_tower_stays_near_its_initial_embeddings(tmp_path):
    """Without a projection, as in a preset, no embedding starts at random."""
    network = ["--image_size=24", "--backbone=small(width=16)", "--initial_weights=toycars", "--noprojector"]
    method = ["--method=two_towers(text='small(width=128, depth=1)', train='image', projection=False)", "--loss=n_pair"]
    data = [f"--dataset={CARS}", f"--data_dir={pictures()}", "--evaluate_on=validation", "--protocol=image_text"]
    steps = ["--sampler=pxk(classes=4, per_class=2)", "--epochs=1", "--steps_per_epoch=2"]
    near = ["--toward_initial_embeddings=1.0", "--toward_initial_weights=0.1"]
    ok("tfdml.train", *data, *network, *method, *steps, *near, f"--run_dir={tmp_path}/run")
    found = json.loads((tmp_path / "run" / "result.json").read_text())
    assert {"text_to_image_recall_at_1"} <= found["untrained"].keys() & found["best"].keys()
