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
    np.testing.assert_allclose(numbers, 100 * np.array(expected), atol=0.051)


def test_a_run_without_models_is_not_measured(tmp_path):
    measured.measure(tmp_path, "best")
    assert not list(tmp_path.iterdir())
