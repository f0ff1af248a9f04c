"""Runs of a study that are measured once more."""

import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import measured
from tests.run_helpers import result, train

# In a process of its own, because TensorFlow is set up once in a process.
PROGRAM = """
import json, sys
from benchmarks.measured import measure
from tfdml.run.comparison import compare_runs
for run_dir in sys.argv[1:]:
    measure(run_dir, "final", learners=2)
first, second = ([run_dir] for run_dir in sys.argv[1:])
found = compare_runs(first, second, "final", ["recall_at_1"], resample="classes")
print(json.dumps(found["metrics"]["recall_at_1"]))
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_measures_are_those_of_the_run(tmp_path):
    """Differences are as `tfdml.compare` computes them from the models."""
    run_dirs = [tmp_path / "a", tmp_path / "b"]
    for seed, run_dir in enumerate(run_dirs):
        done = train(run_dir, "--epochs=1", "--steps_per_epoch=4", f"--seed={seed}")
        assert done.returncode == 0, done.stderr
    done = subprocess.run([sys.executable, "-c", PROGRAM, *run_dirs], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    of_first, of_second = map(measured.measured, run_dirs)
    recall = sum(of_first["right"]) / sum(of_first["queries"])
    assert recall == pytest.approx(result(run_dirs[0])["metrics"]["recall_at_1"], abs=1e-6)
    assert len(of_first["learners"]["alone"]) == 2
    assert of_first["right"] != of_second["right"]
    expected = [found["difference"], *found["interval"]]
    text = measured.difference(*([run_dir] for run_dir in run_dirs))
    numbers = [float(each) for each in text.replace("(", "").replace(")", "").replace(" to", "").split()]
    assert numbers[0] == pytest.approx(100 * expected[0], abs=0.051)
    # Of other resamples.
    np.testing.assert_allclose(numbers[1:], 100 * np.array(expected[1:]), atol=0.5)


def measured_runs(folder, right):
    """Run directories with so many right of 10 queries of each class: one for each list."""
    for number, counts in enumerate(right):
        run_dir = folder / str(number)
        run_dir.mkdir(parents=True)
        (run_dir / measured.FILE).write_text(json.dumps({"queries": [10] * len(counts), "right": counts}))
    return sorted(folder.iterdir())


def test_intervals_are_over_classes_and_seeds(tmp_path):
    """Seeds that disagree make an interval wider, and so do classes; where all agree it has no width."""
    first = measured_runs(tmp_path / "first", [[5] * 40, [5] * 40])
    mean, *ends = measured.interval(first, measured_runs(tmp_path / "all_agree", [[6] * 40, [6] * 40]))
    np.testing.assert_allclose([mean, *ends], 0.1)
    mean, *ends = measured.interval(first, measured_runs(tmp_path / "seeds_differ", [[8] * 40, [4] * 40]))
    # A quarter of the resamples has one seed twice.
    np.testing.assert_allclose([mean, *ends], [0.1, -0.1, 0.3])
    classes = [7] * 20 + [5] * 20
    mean, *ends = measured.interval(first, measured_runs(tmp_path / "classes_differ", [classes, classes]))
    # The standard error of 40 draws of 0 or 0.2.
    error = 0.1 / 40**0.5
    np.testing.assert_allclose([mean, *ends], [0.1, 0.1 - 1.96 * error, 0.1 + 1.96 * error], atol=0.004)


def test_a_run_without_models_is_not_measured(tmp_path):
    measured.measure(tmp_path, "best")
    assert not list(tmp_path.iterdir())
