"""`python -m tfdml.train --members=E` trains the members of an ensemble, as `--member=i` does one by one."""

import functools
import re
import shutil
import signal

import keras
import pytest

import tfdml
from tests.commands import Command, assert_one_error, ok, run, scratch
from tests.run_helpers import assert_same_run, result, same, saved_model, steps, train_flags


def ensemble_flags(run_dir, *more):
    """Two members with hard proxies on meta-classes of their own, from one backbone, with shared validation classes."""
    weights = scratch() / "backbone.weights.h5"
    if not weights.exists():
        keras.utils.set_random_seed(0)
        tfdml.backbones.Small(width=8, stages=2).save_weights(weights)
    about = ["--members=2", "--epochs=2", "--meta_classes=4", "--evaluate_on=validation", "--validation_classes=0.25"]
    about += ["--loss=contextual_manifold(proxies='hard')", "--checkpoint_every=3", f"--initial_weights={weights}"]
    return train_flags(run_dir, *about, *more)


@functools.cache
def trained():
    """An ensemble that was trained by one command."""
    run_dir = scratch() / "ensemble"
    done = Command("tfdml.train", *ensemble_flags(run_dir)).wait()
    assert done.returncode == 0, done.stderr
    return run_dir


@pytest.mark.nightly
def test_members_are_the_same_together_and_one_by_one(tmp_path):
    for number in (1, 0):
        done = ok("tfdml.train", *ensemble_flags(tmp_path / "apart", f"--member={number}"))
        assert "without --member to join them" in done.stdout
    for name in ("member_000", "member_001"):
        assert_same_run(tmp_path / "apart" / name, trained() / name)
    assert steps(trained() / "member_000")[-1] == 40
    first, second = (saved_model(trained() / name / "final.keras") for name in ("member_000", "member_001"))
    assert first != second
    ok("tfdml.train", *ensemble_flags(tmp_path / "apart"))
    for name in ("model.keras", "final.keras"):
        same(saved_model(tmp_path / "apart" / name), saved_model(trained() / name))
    found, expected = result(tmp_path / "apart"), result(trained())
    assert found["metrics"] == expected["metrics"] and found["learners"] == expected["learners"]


@pytest.mark.nightly
def test_stopped_in_the_first_member_and_killed_in_the_second(tmp_path):
    """A complete member is left as it is, one that began goes on, and the bits are those of an uninterrupted one."""
    run_dir, flags = tmp_path / "ensemble", ensemble_flags(tmp_path / "ensemble")
    first, second = run_dir / "member_000", run_dir / "member_001"
    command = Command("tfdml.train", *flags)
    done = command.until(lambda: max(steps(first), default=0) >= 3).kill(signal.SIGTERM)
    assert done.returncode == 75, done.stderr
    stopped, ensemble = done.stderr.splitlines()
    assert re.fullmatch(r"Stopped by SIGTERM after step \d+, and saved\. .*", stopped)
    assert ensemble == "The ensemble stopped with this member. To resume, repeat the same command."
    assert not (first / "result.json").exists() and not second.exists()

    command = Command("tfdml.train", *flags)
    command.until(lambda: max(steps(second), default=0) >= 3)
    # The member ends with it.
    assert command.kill().returncode == -9
    assert not (second / "result.json").exists() and not (run_dir / "result.json").exists()
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in first.rglob("*") if path.is_file()}
    done = Command("tfdml.train", *flags).wait()
    assert done.returncode == 0, done.stderr
    assert f"Member 1 of 2 is complete: {first}" in done.stdout
    assert re.search(rf"Resuming {second} after step \d+\.", done.stdout)
    assert before == {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in first.rglob("*") if path.is_file()}
    for member in (first, second):
        assert_same_run(member, trained() / member.name)
    for name in ("model.keras", "final.keras"):
        same(saved_model(run_dir / name), saved_model(trained() / name))


@pytest.mark.nightly
def test_weights_are_fitted_on_the_classes_that_all_members_hold_out(tmp_path):
    ok("tfdml.ensemble", f"--run_dirs={trained()}", f"--out={tmp_path}/out", "--fit_weights")
    found = result(tmp_path / "out")["fitted"]
    assert found["metric"] == "recall_at_1" and len(found["weights"]) == 2
    assert found["fitted_weights"] >= found["equal_weights"]
    assert result(tmp_path / "out")["validation"]["best"]["recall_at_1"] == found["fitted_weights"]
    assert result(trained())["validation"]["best"]["recall_at_1"] == found["equal_weights"]
    # Where seeds decide, classes differ.
    flags = ensemble_flags(tmp_path / "other", "--members=0", "--seed=5", "--validation_seed=3")
    assert run("tfdml.train", *flags).returncode == 0
    done = run("tfdml.ensemble", f"--run_dirs={trained()},{tmp_path}/other", f"--out={tmp_path}/no", "--fit_weights")
    assert_one_error(done, "have different ones", "--validation_seed")


@pytest.mark.nightly
def test_a_member_that_fails_is_named(tmp_path):
    """The second one's folder belongs to another run; the flags of the other command fit no member."""
    done = Command("tfdml.train", *train_flags(tmp_path / "none", "--members=2", "--loss=tripplet")).wait()
    assert_one_error(done, "Unknown loss 'tripplet'", "Did you mean 'triplet'")
    assert not (tmp_path / "none").exists()
    shutil.copytree(trained(), tmp_path / "ensemble")
    for file in ("result.json", "model.keras", "final.keras", "flags.txt", "dataset.json", "checksums.json"):
        (tmp_path / "ensemble" / file).unlink()
    shutil.rmtree(tmp_path / "ensemble" / "tensorboard")
    damaged = tmp_path / "ensemble" / "member_001" / "result.json"
    damaged.write_text("{")
    done = Command("tfdml.train", *ensemble_flags(tmp_path / "ensemble")).wait()
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert last.startswith("Error: 1 of 2 members failed: ") and str(damaged) in last and "--member=1" in last
    assert "best of 1 of 2 members" in done.stdout
    assert len(result(tmp_path / "ensemble")["members"]) == 1
