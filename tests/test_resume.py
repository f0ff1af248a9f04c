"""A run that is killed and started again ends with the same bits as one that never stopped."""

import shutil

import pytest

from tests.commands import Forked, ok
from tests.run_helpers import (
    EPOCHS,
    STEPS_PER_EPOCH,
    assert_same_run,
    assert_went_on,
    events,
    result,
    steps,
    straight_flags,
    straight_run,
    train_flags,
    trained,
    variable_names,
)


def newest(run_dir):
    return max(steps(run_dir), default=0)


def latest_event(run_dir):
    return max((event["step"] for event in events(run_dir)), default=-1)


@pytest.mark.slow
def test_the_straight_run_trains_with_all_that_is_random():
    """What the others compare with: losses and weights move, and so does every source of chance."""
    found = events(straight_run())
    assert [(event["event"], event["step"]) for event in found] == [
        ("evaluation", 0),
        *((name, STEPS_PER_EPOCH * epoch) for epoch in (1, 2) for name in ("train", "pairs", "evaluation")),
    ]
    losses = [event["loss"] for event in found if event["event"] == "train"]
    assert len(set(losses)) == EPOCHS
    flags = (straight_run() / "flags.txt").read_text()
    assert "dropout=0.3" in flags and "random_resized_crop" in flags and "flip" in flags
    names = " ".join(variable_names(straight_run()))
    assert "moving_variance" in names and "seed_generator_state" in names and "adam" in names and "loss/total" in names


@pytest.mark.slow
def test_killed_twice_with_a_damaged_checkpoint(tmp_path):
    """SIGKILL in the first epoch, while the backbone is frozen and the learning rate rises, and in the last, after
    both; then the newest checkpoint is truncated, too."""
    run_dir = tmp_path / "run"
    flags = straight_flags(run_dir, "--checkpoint_every=3")
    assert Forked("tfdml.train", *flags).until(lambda: newest(run_dir) >= 3).kill().returncode == -9
    assert newest(run_dir) % STEPS_PER_EPOCH and newest(run_dir) < STEPS_PER_EPOCH

    again = Forked("tfdml.train", *flags).until(lambda: newest(run_dir) > STEPS_PER_EPOCH + 6).kill()
    assert again.returncode == -9 and f"Epoch 1/{EPOCHS}" in again.stdout
    before, last = steps(run_dir)[-2:]
    assert last % STEPS_PER_EPOCH and not (run_dir / "result.json").exists()
    damaged = run_dir / "checkpoints" / f"step-{last:08d}"
    arrays = (damaged / "arrays.npz").read_bytes()
    (damaged / "arrays.npz").write_bytes(arrays[: len(arrays) // 2])

    done = ok("tfdml.train", *flags)
    assert f"{damaged} is damaged" in done.stderr and "Using the previous checkpoint" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert f"Resuming {run_dir} after step {before}." in done.stdout
    assert_same_run(run_dir, straight_run())


@pytest.mark.nightly
def test_killed_with_events_later_than_the_newest_checkpoint(tmp_path):
    """Before any checkpoint, and after one: the events that come again are not there twice."""
    more = ["--eval_unit=steps", "--eval_every=5", "--evaluate_on=validation", "--validation_classes=0.5"]
    more += ["--patience=0"]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    done = trained(straight, *more)
    # Not again for the untrained model that is measured at the end.
    assert done.stdout.count("Defaults for this backbone: ") == 1

    flags = train_flags(killed, *more)
    stopped = Forked("tfdml.train", *flags).until(lambda: latest_event(killed) >= 5).kill()
    assert stopped.returncode == -9
    assert steps(killed) == [] and latest_event(killed) >= 5
    Forked("tfdml.train", *flags).until(lambda: latest_event(killed) >= STEPS_PER_EPOCH + 5).kill()
    assert steps(killed) == [STEPS_PER_EPOCH] and latest_event(killed) > STEPS_PER_EPOCH
    with open(killed / "metrics.jsonl", "a") as file:
        file.write('{"event": "train", "st')

    done = ok("tfdml.train", *flags)
    assert f"after step {STEPS_PER_EPOCH}." in done.stdout
    assert_same_run(killed, straight)
    check_evaluated_by_steps_on_validation(straight)


def check_evaluated_by_steps_on_validation(run_dir):
    found = [event for event in events(run_dir) if event["event"] == "evaluation"]
    assert [event["step"] for event in found] == list(range(0, EPOCHS * STEPS_PER_EPOCH + 1, 5))
    assert {event["split"] for event in found} == {"validation"}
    # Half of the eight training classes are held out, eight images each; the test split has eight classes.
    assert {event["queries"] for event in found} == {4 * 8}
    given = result(run_dir)
    assert given["selected_on"] == given["best"]["selected_on"] == "validation"
    assert given["metrics"]["queries"] == given["best"]["queries"] == 8 * 8
    best = max(found, key=lambda event: event["recall_at_1"])
    # Both scores, by name: those of the test above, and those of the validation classes, which chose.
    scores = given["validation"]
    for name, event in (("untrained", found[0]), ("best", best), ("metrics", found[-1])):
        assert scores[name] and scores[name] == {key: event[key] for key in scores[name]}
    assert given["best"]["step"] == best["step"]


@pytest.mark.slow
def test_killed_between_the_last_checkpoint_and_the_result(tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(straight_run(), run_dir)
    (run_dir / "result.json").unlink()
    (run_dir / "final.keras").unlink()
    done = ok("tfdml.train", *straight_flags(run_dir))
    assert_went_on(run_dir, done)
    assert_same_run(run_dir, straight_run())


@pytest.mark.nightly
def test_patience_stops_and_stays_stopped(tmp_path):
    """In the middle of an epoch; a run that was killed before its result does not train on."""
    run_dir, more = tmp_path / "run", ["--patience=2", "--eval_unit=steps", "--eval_every=1", "--epochs=9"]
    trained(run_dir, *more)
    recalls = [event["recall_at_1"] for event in events(run_dir) if event["event"] == "evaluation"]
    waited, stop = 0, None
    for step in range(1, len(recalls)):
        waited = 0 if recalls[step] > max(recalls[:step]) else waited + 1
        stop = stop or (step if waited == 2 else None)
    assert stop is not None and stop == len(recalls) - 1
    assert result(run_dir)["step"] == stop < 9 * STEPS_PER_EPOCH
    assert stop % STEPS_PER_EPOCH, "this test wants to stop inside an epoch"

    again = tmp_path / "again"
    shutil.copytree(run_dir, again)
    (again / "result.json").unlink()
    done = trained(again, *more)
    assert_went_on(again, done)
    assert_same_run(again, run_dir)


@pytest.mark.nightly
def test_flags_txt_is_a_flagfile_of_the_identical_run(tmp_path):
    ok("tfdml.train", f"--flagfile={straight_run() / 'flags.txt'}", f"--run_dir={tmp_path / 'run'}")
    assert_same_run(tmp_path / "run", straight_run())


@pytest.mark.nightly
def test_two_runs_of_the_quickstarts_size_are_equal(tmp_path):
    """At this size, unlike that of the others, operations take long enough to finish in another order each time."""
    flags = [
        "--dataset=toycars(classes=64, images_per_class=4)",
        "--loss=triplet(mining='semi_hard', distance='euclidean')",
    ]
    # One step each, whose loss is an event: it tells when two runs part.
    flags += ["--epochs=6", "--steps_per_epoch=1", "--eval_every=6", "--noprojector", f"--data_dir={tmp_path / 'data'}"]
    for name in ("first", "second"):
        # On all cores, as a user has it.
        on_all = {"TF_NUM_INTRAOP_THREADS": "0"}
        done = Forked("tfdml.train", *flags, f"--run_dir={tmp_path / name}", environment=on_all).wait()
        assert done.returncode == 0, done.stderr
    assert len([event for event in events(tmp_path / "first") if "loss" in event]) == 6
    assert_same_run(tmp_path / "first", tmp_path / "second")
