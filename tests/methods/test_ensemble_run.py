"""An Attention-based Ensemble by the command line."""

import pytest

from tests.commands import Forked, run
from tests.run_helpers import assert_same_run, assert_went_on, result, steps, train, train_flags


@pytest.mark.slow
@pytest.mark.nightly
def test_by_the_command_line_killed_and_taken_up_again_with_pairs_and_pictures(tmp_path):
    run_dir, killed = tmp_path / "run", tmp_path / "killed"
    method = "--method=attention_ensemble(learners=2, branch='stage1', attention_depth=1)"
    more = [method, "--sampler=pairs(images=8)", "--loss=contrastive", "--epochs=1", "--checkpoint_every=3"]
    done = train(run_dir, *more)
    assert done.returncode == 0, done.stderr
    Forked("tfdml.train", *train_flags(killed, *more)).until(lambda: steps(killed)).kill()
    assert not (killed / "result.json").exists()
    done = train(killed, *more)
    assert done.returncode == 0, done.stderr
    assert_went_on(killed, done)
    assert_same_run(killed, run_dir)
    found = result(run_dir)
    assert found["learners"]["pair_cosines"]["mean_self"] < 1
    assert 0 < found["cost"]["one_learner"]["multiply_adds"] < found["cost"]["multiply_adds"]
    done = run("tfdml.report", f"--run_dir={run_dir}")
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in (run_dir / "report").iterdir()}
    assert {"learners.png", "pair_cosines.png", "attention.png"} <= drawn
    assert list((run_dir / "tensorboard" / "report").iterdir())
    # A run that goes on has learners, too.
    for name in ("result.json", "report/learners.png"):
        (run_dir / name).unlink()
    only = "--only=attention,learners,page"
    done = run("tfdml.report", f"--run_dir={run_dir}", only, "--channels=0,3", "--learners=1")
    assert done.returncode == 0, done.stderr
    assert (run_dir / "report" / "learners.png").exists()
    assert "Each learner alone" in (run_dir / "report" / "index.html").read_text(encoding="utf-8")
    done = run("tfdml.report", f"--run_dir={run_dir}", "--only=attention", "--channels=999")
    # After the warning that the run is not complete.
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "Error: Expected channels from 0 to 7, received 999."
