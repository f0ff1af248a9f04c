"""What the command lines say and how they end: results in one place, bad input in one clear line."""

import resource

import numpy as np
import pytest

from tests.commands import Command, Forked, assert_one_error, run
from tests.photo_runs import photo_flags
from tests.run_helpers import (
    METRICS,
    RETRIEVAL,
    events,
    result,
    steps,
    straight_flags,
    straight_run,
    train,
    train_flags,
)
from tfdml import registry
from tfdml.backbones import Small
from tfdml.console import scores
from tfdml.run.directory.checkpoints import CheckpointFolder


def shown_table(stdout):
    """The rows of the table: name to numbers."""
    rows = [line.rsplit(None, len(METRICS) - 1) for line in stdout.splitlines()]
    return {row[0].strip(): row[1:] for row in rows if row and row[0].startswith(("before training", "best", "final"))}


# Bad flags


BAD_FLAGS = {
    "mistyped_flag": (["--epoch=3"], ["epoch", "Use --epochs."]),
    "nearly_a_flag": (["--epocs=3"], ["epocs", "Did you mean: epochs?"]),
    "learning_rate": (["--learning_rate=0.1"], ["--learning_rate", "--optimizer='adam(learning_rate=0.001)'"]),
    "no_number": (["--epochs=many"], ["--epochs must be an integer. Received: --epochs=many."]),
    "no_fraction": (["--ema=high"], ["--ema must be a number. Received: --ema=high."]),
    "neither": (
        ["--blend=maybe"],
        ["--blend must be true or false. Received: --blend=maybe. Use --blend or --noblend."],
    ),
    "number_too_low": (["--epochs=-1"], ["--epochs=-1"]),
    "too_large_images": (["--image_size=100000"], ["--image_size=100000", "each from 8 to 4096; or 0"]),
    "no_choice": (["--evaluate_on=train"], ["evaluate_on", "test|validation"]),
    "no_flagfile": (["--flagfile=/none/such.flags"], ["/none/such.flags"]),
    "stray_word": (["quickstart"], ["Unexpected argument 'quickstart'"]),
    "unknown_loss": (["--loss=tripplet"], ["--loss=tripplet: ", "'tripplet'", "Did you mean 'triplet'", "contrastive"]),
    "unknown_transform": (["--test_transform=warp|flipp"], ["--test_transform=warp|flipp: ", "'flip'"]),
    "unknown_metric": (["--metrics=nmi,recal_at_2"], ["--metrics=recal_at_2: ", "'recall_at_k'"]),
    "no_crop": (["--train_transform=resize_short"], ["resize_short", "(24, 24, 3)"]),
    "too_many_classes": (["--sampler=pxk(classes=99, per_class=4)"], ["classes=99", "8"]),
    "nothing_held_out": (["--evaluate_on=validation", "--validation_classes=0"], ["0.0", "8 training classes"]),
    "no_such_gpus": (["--devices=gpu:9"], ["--devices=gpu:9", "9 GPUs"]),
    "uneven_split": (["--devices=cpu:3"], ["16 images", "3 replicas"]),
    "unknown_device": (["--devices=tpu"], ["--devices=tpu", "cpu:N"]),
    "workers_without_config": (["--devices=workers"], ["TF_CONFIG"]),
    "no_weights": (["--initial_weights=/none/such.weights.h5"], ["/none/such.weights.h5"]),
    "no_module": (["--import_modules=none_such"], ["none_such of import_modules", "No module named 'none_such'"]),
    "too_few_classes": (["--loss=arc_face(classes=3)"], ["--loss=arc_face(classes=3)", "8 training classes"]),
    "pictures_below_a_file": ([f"--data_dir={__file__}/x"], [f"{__file__}/x"]),
}


@pytest.mark.parametrize("flags, words", BAD_FLAGS.values(), ids=BAD_FLAGS)
def test_train_with_bad_flags(tmp_path, flags, words):
    """One line that names what is wrong, and no run directory is made."""
    done = train(tmp_path / "run", *flags)
    assert_one_error(done, *words)
    assert not (tmp_path / "run").exists()


@pytest.mark.nightly
def test_train_with_a_mistyped_flag_and_a_missing_folder_in_processes_of_their_own(tmp_path):
    """The second after a module of the user's, which finds all of tfdml; and other commands without their run."""
    own = "--import_modules=tests.programs.own_loss"
    commands = [
        Command("tfdml.train", *train_flags(tmp_path / "run", "--epoch=3")),
        Command("tfdml.train", *photo_flags(tmp_path / "none", tmp_path / "run", own)),
        Command("tfdml.evaluate", f"--run_dir={tmp_path}/none"),
        Command("tfdml.export", f"--run_dir={tmp_path}/none", f"--out={tmp_path}/out"),
    ]
    assert_one_error(commands[0].wait(), "--epoch.", "--epochs")
    assert_one_error(commands[1].wait(), str(tmp_path / "none" / "train"))
    for command in commands[2:]:
        assert_one_error(command.wait(), f"{tmp_path}/none", "flags.txt")


def test_initial_weights_that_are_no_weights(tmp_path):
    path = tmp_path / "text.weights.h5"
    path.write_text("no weights")
    assert_one_error(
        train(tmp_path / "run", f"--initial_weights={path}"), f"--initial_weights={path}", "does not match"
    )
    assert not (tmp_path / "run").exists()


def test_initial_weights_of_another_backbone(tmp_path):
    path = tmp_path / "other.weights.h5"
    Small(width=4, stages=2).save_weights(path)
    done = train(tmp_path / "run", f"--initial_weights={path}")
    assert_one_error(done, f"--initial_weights={path}", "stage1_conv1", "(3, 3, 3, 8)", "(3, 3, 3, 4)")


# Run directories


@pytest.mark.nightly
def test_the_same_command_again_prints_the_table_again(finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    done = run("tfdml.train", *straight_flags(finished))
    assert done.returncode == 0 and done.stderr == ""
    assert f"The run in {finished} is already complete" in done.stdout
    given, rows = result(finished), shown_table(done.stdout)
    expected = {
        "before training": given["untrained"],
        f"best on test (step {given['best']['step']})": given["best"],
        f"final (step {given['step']})": given["metrics"],
    }
    assert rows == {
        name: [scores.score(key, metrics.get(key)) for key in METRICS[:-1]] for name, metrics in expected.items()
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


def test_nested_flagfiles_and_later_flags_override(finished, tmp_path):
    (tmp_path / "outer.flags").write_text(f"--epochs=99\n--flagfile={finished}/flags.txt\n--seed=7\n")
    arguments = ["--embedding_size=99", f"--flagfile={tmp_path}/outer.flags", f"--run_dir={finished}"]
    done = run("tfdml.train", *arguments, "--seed=0")
    assert done.returncode == 0 and "is already complete" in done.stdout, done.stderr
    assert_one_error(run("tfdml.train", *arguments), "--seed=0 before, --seed=7 now")


def test_a_folder_that_is_no_run_and_a_place_below_a_file_are_refused(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("mine")
    assert_one_error(train(tmp_path / "thesis"), str(tmp_path / "thesis"), "is not a tfdml run")
    assert_one_error(
        train(tmp_path / "thesis" / "chapter.tex"),
        str(tmp_path / "thesis" / "chapter.tex"),
        "is not a tfdml run directory",
    )
    below = tmp_path / "thesis" / "chapter.tex" / "run"
    assert_one_error(train(below), f"Cannot write to --run_dir={below}")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


# What goes wrong while training


@pytest.mark.slow
@pytest.mark.parametrize(
    "rate, steps_per_epoch",
    [pytest.param(1e30, 20, marks=pytest.mark.nightly), pytest.param(1e39, 20, marks=pytest.mark.nightly), (1e39, 1)],
)
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


@pytest.mark.nightly
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
    assert f"The checkpoint of step {newest[0]} still exists" in done.stderr
