"""What the command lines say and how they end: results in one place, bad input in one clear line."""

import json
import os
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.datasets.folder import folder as folder_dataset
from tests.run_helpers import (
    MODEL_FLAGS,
    Command,
    Forked,
    assert_one_error,
    events,
    result,
    run,
    steps,
    straight_flags,
    straight_run,
    train,
    train_flags,
)
from tfdml import registry
from tfdml.backbones import Small
from tfdml.run.checkpoint_folder import CheckpointFolder

# Measured at every evaluation, and at the end.
RETRIEVAL = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r", "queries")
METRICS = (*RETRIEVAL[:-1], "nmi", "f1", "queries")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of images: four classes to train, three to test."""
    folder, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for class_folder in ("train/ant", "train/bee", "train/cat", "train/dog", "test/eel", "test/fox", "test/gnu"):
        (folder / class_folder).mkdir(parents=True)
        for number in range(4):
            pixels = random.integers(0, 256, (32, 40, 3), np.uint8)
            Image.fromarray(pixels).save(folder / class_folder / f"{number}.jpg")
    return folder


@pytest.fixture
def damaged_photos(photos, tmp_path):
    """Function that copies the photos and replaces the content of one of them."""

    def damage(name, content):
        folder = tmp_path / "photos"
        shutil.copytree(photos, folder)
        path = folder / name
        path.write_bytes(content(path.read_bytes()))
        return folder, path

    return damage


@pytest.fixture
def finished(tmp_path):
    """A copy of a complete run."""
    return shutil.copytree(straight_run(), tmp_path / "finished")


def photo_flags(folder, run_dir, *more):
    short = ["--epochs=1", "--steps_per_epoch=2", "--sampler=pxk(classes=2, per_class=2)"]
    return ["--dataset=folder", f"--data_dir={folder}", *MODEL_FLAGS, *short, f"--run_dir={run_dir}", *more]


def shown_table(stdout):
    """The rows of the table: name to numbers."""
    rows = [line.rsplit(None, len(METRICS) - 1) for line in stdout.splitlines()]
    return {row[0].strip(): row[1:] for row in rows if row and row[0].startswith(("untrained", "best", "final"))}


# Bad flags


BAD_FLAGS = {
    "mistyped_flag": (["--epoch=3"], ["epoch", "Did you mean: epochs"]),
    "no_number": (["--epochs=many"], ["--epochs=many"]),
    "number_too_low": (["--epochs=0"], ["--epochs=0"]),
    "no_choice": (["--evaluate_on=train"], ["evaluate_on", "test|validation"]),
    "no_flagfile": (["--flagfile=/none/such.flags"], ["/none/such.flags"]),
    "stray_word": (["quickstart"], ["Unexpected argument 'quickstart'"]),
    "unknown_loss": (["--loss=tripplet"], ["loss", "'tripplet'", "Did you mean 'triplet'", "contrastive"]),
    "unknown_dataset": (["--dataset=toycar"], ["dataset", "'toycar'", "Did you mean 'toycars'"]),
    "unknown_argument": (["--loss=triplet(margn=1)"], ["'margn'", "Did you mean 'margin'"]),
    "argument_without_name": (["--loss=triplet(0.2)"], ["triplet(0.2)", "triplet(argument=value)"]),
    "text_without_quotes": (["--loss=triplet(mining=hard)"], ["mining='hard'"]),
    "open_bracket": (["--loss=triplet(margin=0.2"], ["triplet(margin=0.2"]),
    "wrong_value": (["--loss=triplet(mining='soft')"], ["'soft'", "semi_hard"]),
    "unknown_optimizer": (["--optimizer=adamm"], ["'adamm'", "Did you mean 'adam'"]),
    "no_crop": (["--train_transform=resize_short"], ["resize_short", "(24, 24, 3)"]),
    "no_crop_in_test": (["--test_transform=resize_short"], ["resize_short", "(24, 24, 3)"]),
    "impossible_number": (["--loss=triplet(margin=-1)"], ["expects margin to be a number of 0 or more; received -1."]),
    "too_many_classes": (["--sampler=pxk(classes=99, per_class=4)"], ["classes=99", "8"]),
    "nothing_held_out": (["--evaluate_on=validation", "--validation_classes=0"], ["0.0", "8 training classes"]),
    "no_such_gpus": (["--devices=gpu:9"], ["--devices=gpu:9", "9 GPUs"]),
    "uneven_split": (["--devices=cpu:3"], ["16 images", "3 replicas"]),
    "unknown_device": (["--devices=tpu"], ["'tpu'", "cpu:N"]),
    "workers_without_config": (["--devices=workers"], ["TF_CONFIG"]),
    "no_weights": (["--initial_weights=/none/such.weights.h5"], ["/none/such.weights.h5"]),
    "no_module": (["--import_modules=none_such"], ["--import_modules=none_such", "No module named 'none_such'"]),
    "too_few_classes": (["--loss=arc_face(classes=3)"], ["--loss=arc_face(classes=3)", "8 training classes"]),
    "pictures_below_a_file": ([f"--data_dir={__file__}/x"], [f"{__file__}/x"]),
}


@pytest.mark.parametrize("flags, words", BAD_FLAGS.values(), ids=BAD_FLAGS)
def test_train_with_bad_flags(tmp_path, flags, words):
    """One line that names what is wrong, and no run directory is made."""
    done = train(tmp_path / "run", *flags)
    assert_one_error(done, *words)
    assert not (tmp_path / "run").exists()


def test_train_with_an_argument_of_a_wrong_type(tmp_path):
    assert_one_error(train(tmp_path / "run", "--backbone=small(width='wide')"), "small", "width")


@pytest.mark.slow
def test_train_with_a_mistyped_flag_and_a_missing_folder_in_processes_of_their_own(tmp_path):
    """The second after a module of the user's, which finds all of tfdml; and other commands without their run."""
    own = "--import_modules=tests.programs.own_loss"
    commands = [
        Command("tfdml.train", *train_flags(tmp_path / "run", "--epoch=3")),
        Command("tfdml.train", *photo_flags(tmp_path / "none", tmp_path / "run", own)),
        Command("tfdml.evaluate", f"--run_dir={tmp_path}/none"),
        Command("tfdml.export", f"--run_dir={tmp_path}/none", f"--out={tmp_path}/out"),
    ]
    assert_one_error(commands[0].wait(), "'epoch'", "epochs")
    assert_one_error(commands[1].wait(), str(tmp_path / "none" / "train"))
    for command in commands[2:]:
        assert_one_error(command.wait(), f"{tmp_path}/none", "flags.txt")


def test_initial_weights_that_are_no_weights(tmp_path):
    path = tmp_path / "text.weights.h5"
    path.write_text("no weights")
    assert_one_error(train(tmp_path / "run", f"--initial_weights={path}"), f"--initial_weights={path}", "fit")
    assert not (tmp_path / "run").exists()


def test_initial_weights_of_another_backbone(tmp_path):
    path = tmp_path / "other.weights.h5"
    Small(width=4, stages=2).save_weights(path)
    done = train(tmp_path / "run", f"--initial_weights={path}")
    assert_one_error(done, f"--initial_weights={path}", "stage1_conv1", "(3, 3, 3, 8)", "(3, 3, 3, 4)")


# Bad images


def half(content):
    return content[: len(content) // 2]


def text(content):
    return b"no image"


def nothing(content):
    return b""


@pytest.mark.parametrize(
    "name, content", [("train/bee/2.jpg", text), ("test/gnu/3.jpg", nothing), ("test/fox/1.jpg", half)]
)
def test_train_names_the_unreadable_image(damaged_photos, tmp_path, name, content):
    """What is no image, and an image whose header is whole and whose body is cut."""
    folder, path = damaged_photos(name, content)
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run", "--steps_per_epoch=9"))
    assert_one_error(done, str(path))


@pytest.mark.slow
def test_train_names_the_truncated_image_in_a_process_of_its_own(damaged_photos, tmp_path):
    folder, path = damaged_photos("train/cat/0.jpg", half)
    done = Command("tfdml.train", *photo_flags(folder, tmp_path / "run", "--steps_per_epoch=9")).wait()
    assert_one_error(done, str(path))


@pytest.mark.slow
def test_train_goes_on_without_as_many_bad_images_as_are_allowed(damaged_photos, tmp_path):
    """Through a cache and with clusters, which see all training images; one more stops the run."""
    folder, path = damaged_photos("train/cat/0.jpg", half)
    more = ["--max_bad_images=1", "--steps_per_epoch=9"]
    divided = ["--method=divide_and_conquer(learners=2)", "--sampler=uniform(batch_size=4)"]
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run", *more, *divided))
    assert done.returncode == 0, done.stderr
    assert f"Cannot read {path}" in done.stderr and result(tmp_path / "run")["bad_images"] == 1
    other = folder / "train" / "cat" / "1.jpg"
    other.write_bytes(half(other.read_bytes()))
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "more", *more))
    assert_one_error_at_the_end(done, "2 training images cannot be read, more than --max_bad_images=1", str(other))


@pytest.mark.slow
def test_a_class_of_bad_images_stops_training_however_many_are_allowed(damaged_photos, tmp_path):
    folder, path = damaged_photos("train/cat/0.jpg", half)
    for other in path.parent.iterdir():
        if other != path:
            other.write_bytes(half(other.read_bytes()))
    more = ["--max_bad_images=99", "--steps_per_epoch=9"]
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run", *more))
    count = len(list(path.parent.iterdir()))
    told = f"Cannot read any of the {count} images of a class, such as {path.parent}"
    assert_one_error_at_the_end(done, told, "Invalid JPEG data")


def assert_one_error_at_the_end(done, *parts):
    assert done.returncode == 1 and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ") and all(part in last for part in parts), done.stderr


@pytest.mark.slow
def test_a_cache_changes_no_result(photos, tmp_path):
    results = {}
    for kind in ("none", "pixels"):
        more = [f"--cache={kind}", f"--cache_dir={tmp_path}/kept", "--cache_memory=0", "--steps_per_epoch=3"]
        done = run("tfdml.train", *photo_flags(photos, tmp_path / kind, *more))
        assert done.returncode == 0, done.stderr
        results[kind] = result(tmp_path / kind)
    assert results["none"] == results["pixels"]
    assert len(list((tmp_path / "kept").iterdir())) >= 2


def test_train_names_the_unreadable_image_in_a_class_that_is_held_out(photos, tmp_path):
    folder = shutil.copytree(photos, tmp_path / "photos")
    _, validation = folder_dataset(folder).hold_out(0.5, seed=0)
    path = Path(validation.images[0])
    path.write_bytes(half(path.read_bytes()))
    more = ["--evaluate_on=validation", "--validation_classes=0.5"]
    assert_one_error(run("tfdml.train", *photo_flags(folder, tmp_path / "run", *more)), str(path))


def test_train_names_the_empty_class_folder(photos, tmp_path):
    folder = shutil.copytree(photos, tmp_path / "photos")
    (folder / "train" / "yak").mkdir()
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run"))
    assert_one_error(done, str(folder / "train" / "yak"), "no images")


@pytest.mark.parametrize("missing", ["", "train", "test"])
def test_train_names_the_missing_folder(photos, tmp_path, missing):
    folder = tmp_path / "photos"
    if missing:
        shutil.copytree(photos, folder)
        shutil.rmtree(folder / missing)
    done = run("tfdml.train", *photo_flags(folder, tmp_path / "run"))
    assert_one_error(done, str(folder / (missing or "train")))
    assert not (tmp_path / "run").exists()


def test_train_without_data_dir(tmp_path):
    assert_one_error(run("tfdml.train", *photo_flags("", tmp_path / "run")), "--data_dir", "train/<class>")


# Run directories


@pytest.mark.slow
def test_the_same_command_again_prints_the_table_again(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    done = run("tfdml.train", *straight_flags(finished))
    assert done.returncode == 0 and done.stderr == ""
    assert f"The run in {finished} is complete" in done.stdout
    given, rows = result(finished), shown_table(done.stdout)
    expected = {
        "untrained": given["untrained"],
        f"best on test (step {given['best']['step']})": given["best"],
        f"final (step {given['step']})": given["metrics"],
    }
    assert rows == {
        name: [f"{metrics[key]:.3f}" if key in metrics else "-" for key in METRICS[:-1]]
        for name, metrics in expected.items()
    }
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


def test_best_on_test_is_marked_so():
    given = result(straight_run())
    assert given["selected_on"] == given["best"]["selected_on"] == "test"
    found = [event for event in events(straight_run()) if event["event"] == "evaluation"]
    assert {event["split"] for event in found} == {"test"}
    best = max(found, key=lambda event: event["recall_at_1"])
    assert given["best"].keys() == {*METRICS, "step", "selected_on", "selected_by"}
    assert (given["best"]["step"], given["best"]["selected_by"]) == (best["step"], "recall_at_1")
    for name, event in (("best", best), ("metrics", found[-1]), ("untrained", found[0])):
        assert {key: given[name][key] for key in RETRIEVAL} == {key: event[key] for key in RETRIEVAL}
    assert given["metrics"].keys() == set(METRICS) and given["untrained"].keys() == set(RETRIEVAL)


def test_curves():
    """The learning rate is one, and the number of queries is none."""
    trained = [event for event in events(straight_run()) if event["event"] == "train"]
    schedule = registry.create(
        "schedule", "cosine(warmup_epochs=0.5, floor=0.1)", learning_rate=0.01, steps_per_epoch=20, epochs=2
    )
    expected = [float(schedule(event["step"])) for event in trained]
    assert [event["learning_rate"] for event in trained] == pytest.approx(expected)
    written = "".join(path.read_text(errors="replace") for path in (straight_run() / "tensorboard").glob("events.*"))
    assert all(name in written for name in ("train/learning_rate", "pairs/mined_negatives", "evaluation/recall_at_1"))
    assert "evaluation/queries" not in written


def test_other_flags_are_refused_by_name(finished):
    done = run("tfdml.train", *straight_flags(finished, "--seed=1", "--epochs=4"))
    assert_one_error(done, str(finished), "--seed=0 there, --seed=1 now", "--epochs=2 there, --epochs=4 now")
    assert "--loss" not in done.stderr


def test_nested_flagfiles_and_later_flags_override(finished, tmp_path):
    (tmp_path / "outer.flags").write_text(f"--epochs=99\n--flagfile={finished}/flags.txt\n--seed=7\n")
    arguments = ["--embedding_size=99", f"--flagfile={tmp_path}/outer.flags", f"--run_dir={finished}"]
    done = run("tfdml.train", *arguments, "--seed=0")
    assert done.returncode == 0 and "is complete" in done.stdout, done.stderr
    assert_one_error(run("tfdml.train", *arguments), "--seed=0 there, --seed=7 now")


def test_a_folder_that_is_no_run_and_a_place_below_a_file_are_refused(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("mine")
    assert_one_error(train(tmp_path / "thesis"), str(tmp_path / "thesis"), "no run of tfdml")
    assert_one_error(train(tmp_path / "thesis" / "chapter.tex"), str(tmp_path / "thesis" / "chapter.tex"), "no run")
    below = tmp_path / "thesis" / "chapter.tex" / "run"
    assert_one_error(train(below), f"Cannot write to --run_dir={below}")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_run_directory(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o555)
    assert_one_error(train(tmp_path / "locked" / "run"), str(tmp_path / "locked"), "read-only")


def test_damaged_flags_txt(finished):
    (finished / "flags.txt").write_text("--epochs=3\n--los")
    for module in ("tfdml.train", "tfdml.evaluate"):
        flags = straight_flags(finished) if module == "tfdml.train" else [f"--run_dir={finished}"]
        assert_one_error(run(module, *flags), str(finished / "flags.txt"), "los")


def test_images_of_a_size_that_the_backbone_does_not_take(tmp_path):
    done = train(tmp_path / "run", "--backbone=bn_inception", "--image_size=40")
    assert_one_error(done, "--backbone=bn_inception", "40 x 40", "another --image_size")


# What goes wrong while training


@pytest.mark.slow
@pytest.mark.parametrize("rate, steps_per_epoch", [(1e30, 20), (1e39, 20), (1e39, 1)])
def test_a_loss_that_is_no_number_stops_the_run(tmp_path, rate, steps_per_epoch):
    """In the middle of an epoch; with weights that one step makes infinite, so that they must not be saved; and
    where an evaluation meets them first."""
    run_dir = tmp_path / "run"
    more = ["--checkpoint_every=1", "--keep_checkpoints=99", f"--steps_per_epoch={steps_per_epoch}"]
    done = train(run_dir, f"--optimizer=sgd(learning_rate=100, lr_multipliers={{'*': {rate / 100}}})", *more)
    assert_one_error(done, "at step ", "lower learning rate")
    assert not (run_dir / "result.json").exists()
    for step in steps(run_dir):
        with np.load(run_dir / "checkpoints" / f"step-{step:08d}" / "arrays.npz") as stored:
            assert all(np.isfinite(stored[name]).all() for name in stored if name != "names"), step
    whole = CheckpointFolder(run_dir / "checkpoints").read_newest(lambda message: pytest.fail(message))
    assert whole is None if rate == 1e39 else whole[0] >= 1


@pytest.mark.slow
def test_a_full_disk_leaves_the_earlier_checkpoint_whole(tmp_path):
    """A limit on the size of files stands for the full disk."""
    run_dir, flags = tmp_path / "run", train_flags(tmp_path / "run", "--checkpoint_every=2")
    command = Forked("tfdml.train", *flags).until(lambda: steps(run_dir))
    resource.prlimit(command.pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
    done = command.wait()
    assert_one_error(done, "Cannot write the checkpoint of step", str(run_dir / "checkpoints"), "Make room")
    assert not list((run_dir / "checkpoints").glob(".writing-*"))
    newest = CheckpointFolder(run_dir / "checkpoints").read_newest(lambda message: pytest.fail(message))
    assert newest[0] == steps(run_dir)[-1]
    assert f"the one of step {newest[0]} is whole" in done.stderr


# Evaluate


def last_json(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_evaluate_gives_the_best_of_the_result():
    done = Command("tfdml.evaluate", f"--run_dir={straight_run()}").wait()
    assert done.stderr == ""
    found, best = last_json(done), result(straight_run())["best"]
    assert {key: found[key] for key in METRICS} == {key: best[key] for key in METRICS}
    assert (found["run_dir"], found["model"], found["split"]) == (str(straight_run()), "best", "test")
    assert found["protocol"] == "self_retrieval"
    assert found["dataset"] == "toycars(classes=16, images_per_class=8, image_size=24)"


def test_evaluate_a_models_file():
    dataset = "toycars(classes=16, images_per_class=8, image_size=24)"
    found = last_json(run("tfdml.evaluate", f"--model_file={straight_run()}/model.keras", f"--dataset={dataset}"))
    best = result(straight_run())["best"]
    assert {key: found[key] for key in METRICS} == {key: best[key] for key in METRICS}
    assert found["split"] == "test" and found["protocol"] == "self_retrieval"


def test_evaluate_the_final_model():
    found = last_json(run("tfdml.evaluate", f"--run_dir={straight_run()}", "--model=final"))
    assert {key: found[key] for key in METRICS} == result(straight_run())["metrics"]
    assert found["model"] == "final"


def test_evaluate_on_another_dataset(photos):
    done = run("tfdml.evaluate", f"--run_dir={straight_run()}", "--dataset=folder", f"--data_dir={photos}")
    found = last_json(done)
    assert (found["dataset"], found["queries"]) == ("folder", 12)
    assert 0 <= found["recall_at_1"] <= found["recall_at_8"] <= 1


def test_evaluate_bad_input(finished, damaged_photos, tmp_path):
    here = f"--run_dir={finished}"
    assert_one_error(run("tfdml.evaluate"), "--run_dir")
    assert_one_error(run("tfdml.evaluate", here, "--modle=final"), "'modle'", "model")
    assert_one_error(run("tfdml.evaluate", here, "--model=worst"), "worst", "best|final")
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


# Report


def test_report_of_one_learner_says_what_would_be_drawn_of_which_runs(finished):
    done = run("tfdml.report", f"--run_dir={finished}")
    assert_one_error(done, str(finished), "'learners' for runs with several", "'attention' for", "attention_ensemble")
    assert not (finished / "report").exists()


# Export


def test_export(tmp_path):
    done = Command("tfdml.export", f"--run_dir={straight_run()}", f"--out={tmp_path}/out").wait()
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Exported {straight_run()} to {tmp_path}/out" in done.stdout.splitlines()[-1]
    assert (tmp_path / "out" / "saved_model.pb").is_file()


def test_export_bad_input(finished, tmp_path):
    here, out = f"--run_dir={finished}", f"--out={tmp_path}/out"
    assert_one_error(run("tfdml.export", here), "--out")
    assert_one_error(run("tfdml.export", out), "--run_dir")
    assert_one_error(run("tfdml.export", f"--run_dir={tmp_path}/none", out), f"{tmp_path}/none")
    assert_one_error(run("tfdml.export", here, f"--out={finished}/flags.txt"), f"{finished}/flags.txt")
    assert_one_error(run("tfdml.export", here, f"--out={finished}/flags.txt/out"), f"{finished}/flags.txt/out")
    assert_one_error(run("tfdml.export", here, out, "--format=onnx"), "'format'")
    model = finished / "model.keras"
    model.write_bytes(half(model.read_bytes()))
    assert_one_error(run("tfdml.export", here, out), str(model), "damaged")
    assert not (tmp_path / "out").exists()
    assert_one_error(run("tfdml.export", here, f"--out={finished}"), str(finished), "not empty")
