"""Runs of a study that are measured once more."""

import numpy as np
import pytest

from benchmarks import measured
from tests.run_helpers import result, train
from tfdml.run.comparison import compare_runs


@pytest.mark.slow
def test_measures_are_those_of_the_run(tmp_path):
    """Differences are as `tfdml.compare` computes them from the models."""
    run_dirs = [tmp_path / "a", tmp_path / "b"]
    for seed, run_dir in enumerate(run_dirs):
        done = train(run_dir, "--epochs=1", "--steps_per_epoch=4", f"--seed={seed}")
        assert done.returncode == 0, done.stderr
        measured.measure(run_dir, "final", slices=2)
    of_first, of_second = map(measured.measured, run_dirs)
    recall = sum(of_first["right"]) / sum(of_first["queries"])
    assert recall == pytest.approx(result(run_dirs[0])["metrics"]["recall_at_1"], abs=1e-6)
    assert len(of_first["slices"]["alone"]) == 2
    assert of_first["right"] != of_second["right"]
    paths = [[str(run_dir)] for run_dir in run_dirs]
    found = compare_runs(*paths, "final", ["recall_at_1"], resample="classes")["metrics"]["recall_at_1"]
    expected = [found["difference"], *found["interval"]]
    text = measured.difference(*([run_dir] for run_dir in run_dirs))
    numbers = [float(each) for each in text.replace("(", "").replace(")", "").replace(" to", "").split()]
    np.testing.assert_allclose(numbers, 100 * np.array(expected), atol=0.051)


def test_a_run_without_models_is_not_measured(tmp_path):
    measured.measure(tmp_path, "best")
    assert not list(tmp_path.iterdir())
