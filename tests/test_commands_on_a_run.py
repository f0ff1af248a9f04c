"""The commands that evaluate, report and export what a run has trained."""

import importlib.util
import json

import pytest
import tensorflow as tf
from PIL import Image

from tests.commands import Command, assert_one_error, last_json, ok, run
from tests.photo_runs import half
from tests.run_helpers import METRICS, change_flags, result, straight_run
from tfdml.serving.exported_model import model_hash

CARS = "toycars(classes=16, images_per_class=8, image_size=24)"


@pytest.mark.nightly
def test_evaluate_gives_the_best_of_the_result():
    done = Command("tfdml.evaluate", f"--run_dir={straight_run()}", "--bootstrap=classes").wait()
    assert done.stderr == ""
    found, best = last_json(done), result(straight_run())["best"]
    assert found["intervals"] == result(straight_run())["intervals"]
    low, high = found["intervals"]["recall_at_1"]
    assert low < best["recall_at_1"] < high
    assert {key: found[key] for key in METRICS} == {key: best[key] for key in METRICS}
    assert (found["run_dir"], found["model"], found["split"]) == (str(straight_run()), "best", "test")
    assert found["protocol"] == "self_retrieval"
    assert found["dataset"] == CARS


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags, kind, expected",
    [
        (["--run_dir={run}", "--which=final"], "metrics", {"model": "final"}),
        (["--model={run}/model.keras", f"--dataset={CARS}"], "best", {"split": "test", "protocol": "self_retrieval"}),
    ],
    ids=["final model", "file of a model"],
)
@pytest.mark.few_by_day(1)
def test_evaluate_gives_the_numbers_of_the_result(flags, kind, expected):
    found = last_json(run("tfdml.evaluate", *(flag.format(run=straight_run()) for flag in flags)))
    assert {key: found[key] for key in METRICS} == {key: result(straight_run())[kind][key] for key in METRICS}
    assert found.items() >= expected.items()


@pytest.mark.slow
def test_evaluate_on_another_dataset(photos):
    done = run("tfdml.evaluate", f"--run_dir={straight_run()}", "--dataset=folder", f"--data_dir={photos}")
    found = last_json(done)
    assert (found["dataset"], found["queries"]) == ("folder", 12)
    assert 0 <= found["recall_at_1"] <= found["recall_at_8"] <= 1


@pytest.mark.slow
def test_the_folder_of_a_run_is_of_datasets_of_its_name(finished, photos):
    """Another dataset, such as toy cars, puts nothing among the photos."""
    before = sorted(photos.rglob("*"))
    change_flags(finished, "--data_dir=", f"--data_dir={photos}")
    change_flags(finished, "--dataset=toycars", "--dataset=csv")
    found = last_json(
        run("tfdml.evaluate", f"--run_dir={finished}", "--dataset=toycars(classes=4, images_per_class=4)")
    )
    assert found["queries"] == 8 and sorted(photos.rglob("*")) == before


@pytest.mark.slow
def test_evaluate_bad_input(finished, damaged_photos, tmp_path):
    here = f"--run_dir={finished}"
    assert_one_error(run("tfdml.evaluate"), "--run_dir")
    assert_one_error(run("tfdml.evaluate", here, "--metrcs=map"), "'metrcs'", "metrics")
    assert_one_error(run("tfdml.evaluate", here, "--which=worst"), "worst", "best|final")
    assert_one_error(run("tfdml.evaluate", here, "--dataset=folder(x=1)"), "'x'", "data_dir")
    assert_one_error(run("tfdml.evaluate", here, "--dataset=folder", "--data_dir=/none"), "/none/train")
    folder, path = damaged_photos("test/fox/1.jpg", half)
    assert_one_error(run("tfdml.evaluate", here, "--dataset=folder", f"--data_dir={folder}"), str(path))
    model = finished / "model.keras"
    model.write_bytes(half(model.read_bytes()))
    assert_one_error(run("tfdml.evaluate", here), str(model), "damaged")
    model.unlink()
    assert_one_error(run("tfdml.evaluate", here), str(model), "no best model")
    assert_one_error(run("tfdml.evaluate", f"--run_dir={tmp_path}/none"), f"{tmp_path}/none", "flags.txt")


def test_report_of_one_learner_says_which_runs_have_a_picture(finished):
    done = run("tfdml.report", f"--run_dir={finished}", "--only=learners,attention")
    assert_one_error(done, str(finished), "'learners' for runs with several", "'attention' for", "attention_ensemble")
    assert not (finished / "report").exists()


@pytest.mark.slow
def test_export(tmp_path):
    done = run("tfdml.export", f"--run_dir={straight_run()}", f"--out={tmp_path}/out")
    assert (done.returncode, done.stderr) == (0, "")
    exported, following = done.stdout.splitlines()[-2:]
    assert f"Exported {straight_run()} to {tmp_path}/out" in exported
    assert following.startswith(f"Next: python -m tfdml.index --model={tmp_path}/out --images=")
    assert (tmp_path / "out" / "saved_model.pb").is_file()


@pytest.mark.nightly
def test_a_projected_and_tolerant_export_and_its_card(tmp_path):
    flags = [f"--run_dir={straight_run()}", f"--out={tmp_path}/out", "--dims=8", "--whiten", "--tolerant"]
    in_onnx = importlib.util.find_spec("tf2onnx") is not None
    done = run("tfdml.export", *flags, *(["--onnx"] if in_onnx else []))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "model.onnx").is_file() == in_onnx
    card, best = json.loads((tmp_path / "out" / "metadata.json").read_text()), result(straight_run())["best"]
    assert card["sha256"] == model_hash(tmp_path / "out")
    assert card["scores"] == {name: best[name] for name in METRICS if name != "queries"}
    assert card["data"]["selected_on"] == "test" and card["data"]["queries"] == best["queries"]
    assert (card["embedding"]["dimension"], card["embedding"]["learners"]) == (8, 1)
    assert "principal components of 16 dimensions, whitened" in card["embedding"]["projection"]
    assert (card["weights"], card["images"]["image_size"], card["tolerant"]) == ("random", 24, True)
    model = tf.saved_model.load(tmp_path / "out")
    assert set(model.signatures) == set(card["signatures"]) == {"serving_default", "embed_images", "read_image"}
    for name, signature in model.signatures.items():
        assert set(signature.structured_outputs) == set(card["signatures"][name]["outputs"])
        if name != "read_image":
            assert signature.structured_outputs["embedding"].shape == (None, 8)
    text = (tmp_path / "out" / "README.md").read_text()
    low, high = result(straight_run())["intervals"]["recall_at_1"]
    told = f"| recall_at_1 | {best['recall_at_1']:.4f} (95% CI: {low:.4f} to {high:.4f}) |"
    assert card["sha256"] in text and told in text and "valid" in text and ("`model.onnx`" in text) == in_onnx
    assert "best of several evaluations on these same images" in text and "Before the projection" in text
    assert "bootstrap intervals over classes: they resample the classes" in text
    (tmp_path / "out" / "variables" / "variables.index").write_bytes(b"other")
    assert model_hash(tmp_path / "out") != card["sha256"]


@pytest.mark.nightly
def test_search_and_index_bad_input(tmp_path):
    for module, flags, words in [
        ("tfdml.search", ["query.jpg"], "--index is missing"),
        (
            "tfdml.search",
            ["--index=x", f"--picture={tmp_path}/none/found.png", "query.jpg"],
            f"--picture={tmp_path}/none/found.png: the folder {tmp_path}/none does not exist",
        ),
        ("tfdml.search", ["--index=x", f"--picture={tmp_path}", "query.jpg"], f"--picture={tmp_path} is a folder"),
        ("tfdml.search", ["--index=x", "--picture=found.xyz", "query.jpg"], "--picture=found.xyz must end like"),
        # Pillow only reads it.
        ("tfdml.search", ["--index=x", "--picture=found.psd", "query.jpg"], "--picture=found.psd must end like"),
        ("tfdml.export", ["--run_dir=none", "--out=."], "--out=. cannot be replaced. Use a folder with a name of its"),
        # Before the run is opened.
        (
            "tfdml.evaluate",
            ["--run_dir=none", f"--per_query={tmp_path}/none/values.csv"],
            f"--per_query={tmp_path}/none/values.csv: the folder {tmp_path}/none does not exist",
        ),
        (
            "tfdml.search",
            ["--index=x"],
            "Set exactly one of: images or a --text to search for, --duplicates, and --label",
        ),
        (
            "tfdml.search",
            ["--index=x", "--label=y", "--threshold=1", "--validation=z"],
            "--threshold and --validation cannot both be set",
        ),
        (
            "tfdml.search",
            [f"--index={tmp_path}", "query.jpg"],
            f"{tmp_path} is not a tfdml index, because it has no manifest.json",
        ),
        ("tfdml.embed", [f"--images={tmp_path}", "--out=x"], "--model is missing"),
        ("tfdml.embed", ["--model=x", f"--images={tmp_path}/*.jpg", "--out=x"], "matches no images"),
        ("tfdml.embed", ["--images=x", "--", "--direct_num_workers=2"], "options after -- need --runner"),
        ("tfdml.embed", ["--images=x", "--runner=DirectRunner", "y"], "Unexpected argument 'y'"),
        ("tfdml.index", ["--images=x"], "--out is missing"),
        ("tfdml.index", ["--delete=x", "--out=gs://bucket/index"], "is not on a file system of this machine"),
        ("tfdml.index", [f"--out={tmp_path}/x", f"--images={tmp_path}/y"], f"{tmp_path}/y is not a folder, a file"),
    ]:
        assert_one_error(run(module, *flags), words)


@pytest.mark.nightly
def test_export_bad_input(finished, tmp_path):
    here, out = f"--run_dir={finished}", f"--out={tmp_path}/out"
    assert_one_error(run("tfdml.export", here), "--out")
    assert_one_error(run("tfdml.export", out), "--run_dir")
    assert_one_error(run("tfdml.export", f"--run_dir={tmp_path}/none", out), f"{tmp_path}/none")
    assert_one_error(run("tfdml.export", here, f"--out={finished}/flags.txt"), f"{finished}/flags.txt")
    assert_one_error(run("tfdml.export", here, f"--out={finished}/flags.txt/out"), f"{finished}/flags.txt/out")
    assert_one_error(run("tfdml.export", here, out, "--format=onnx"), "'format'")
    assert_one_error(run("tfdml.export", here, out, "--whiten"), "--whiten needs --dims")
    assert_one_error(run("tfdml.export", here, out, "--dims=99"), "can be projected to 1 to 16 dimensions")
    model = finished / "model.keras"
    model.write_bytes(half(model.read_bytes()))
    assert_one_error(run("tfdml.export", here, out), str(model), "damaged")
    assert not (tmp_path / "out").exists()
    assert_one_error(run("tfdml.export", here, f"--out={finished}"), str(finished), "not empty")


@pytest.mark.nightly
def test_report_draws_all_that_a_run_of_one_learner_has(finished):
    names = ["neighbors", "confused", "similarity", "map", "similarities", "roc", "det", "recall", "training"]
    # `roc` draws both.
    only = [name for name in names if name != "det"]
    done = ok("tfdml.report", f"--run_dir={finished}", f"--only={','.join([*only, 'projector'])}")
    drawn = {path.stem: path for path in (finished / "report").glob("*.png")}
    assert sorted(drawn) == sorted(names) and all(Image.open(path).width > 200 for path in drawn.values())
    assert {path.stem for path in (finished / "report").glob("*.svg")} == {
        "similarities",
        "roc",
        "det",
        "recall",
        "training",
    }
    folder = finished / "tensorboard"
    written = [f"Wrote {path}" for path in [*map(drawn.get, names), folder / "projector_config.pbtxt"]]
    # The last line is the next command.
    assert done.stdout.splitlines()[-len(written) - 1 : -1] == written and any((folder / "report").iterdir())
    lines = (folder / "projector/metadata.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["label", "name", "nearest", "image"] and len(lines) == 65
    assert Image.open(folder / "projector/sprite.png").size == (8 * 48, 8 * 48)
