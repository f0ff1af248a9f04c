"""Runs of a study that are measured once more."""

import hashlib
import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from tests.run_helpers import result, trained
from tests.test_runs_of_other_labels import straight
from tfdml.run.study import records

# Degrees of freedom to the quantile that 2.5% are above.
T = {degrees: stats.t.isf(0.025, degrees) for degrees in (1, 2, 39)}
# In a process of its own, because TensorFlow is set up once in a process.
PROGRAM = """
import json, sys
from tfdml.run.study.records import measure
from tfdml.run.experiment.comparison import compare_runs
elsewhere = {
    "the same": {"dataset": "toycars(classes=16, images_per_class=8, image_size=24)"},
    "new designs": {"dataset": "toycars(classes=12, images_per_class=5, image_size=24, seed=7)", "data_dir": ""},
}
for run_dir in sys.argv[1:]:
    measure(run_dir, "final", learners=2)
    measure(run_dir, "final", learners=2, elsewhere=elsewhere)
found = compare_runs([[run_dir] for run_dir in sys.argv[1:]], "final", ["recall_at_1"], bootstrap="classes")
print(json.dumps(found["metrics"]["recall_at_1"]))
"""


@pytest.mark.nightly
def test_measures_are_those_of_the_run(tmp_path):
    """Differences are as `tfdml.compare` computes them from the models."""
    run_dirs = [tmp_path / "a", tmp_path / "b"]
    for seed, run_dir in enumerate(run_dirs):
        trained(run_dir, "--epochs=1", "--steps_per_epoch=4", f"--seed={seed}")
    done = subprocess.run([sys.executable, "-c", PROGRAM, *run_dirs], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    of_first, of_second = map(records.measured, run_dirs)
    recall = sum(of_first["right"]) / sum(of_first["queries"])
    assert recall == pytest.approx(result(run_dirs[0])["metrics"]["recall_at_1"], abs=1e-6)
    assert len(of_first["learners"]["alone"]) == 2
    # The second call has measured the other datasets, too.
    elsewhere = of_first["elsewhere"]
    assert elsewhere["the same"] == {name: of_first[name] for name in ("queries", "right")}
    assert elsewhere["new designs"]["queries"] == [5] * 6
    assert of_first["right"] != of_second["right"]
    expected = [found["difference"], *found["interval"]]
    numbers = records.interval(*([run_dir] for run_dir in run_dirs))
    assert numbers[0] == pytest.approx(expected[0], abs=1e-6)
    # Of other resamples.
    np.testing.assert_allclose(numbers[1:], expected[1:], atol=0.02)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["pairs", "several labels"])
def test_runs_of_other_labels_are_measured_without_classes(kind, tmp_path):
    shutil.copytree(straight(kind), tmp_path / "run")
    program = "import sys; from tfdml.run.study.records import measure; measure(sys.argv[1], 'best')"
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "run"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert records.measured(tmp_path / "run").keys() == {"model", "sha256"}


def measured_runs(folder, right, **more):
    """Run directories with so many right of 10 queries of each class: one for each list."""
    for number, counts in enumerate(right):
        run_dir = folder / str(number)
        run_dir.mkdir(parents=True)
        (run_dir / records.FILE).write_text(json.dumps({"queries": [10] * len(counts), "right": counts, **more}))
    return sorted(folder.iterdir())


def test_intervals_are_over_classes_and_seeds(tmp_path):
    """Seeds that disagree make an interval wider, and so do classes; where all agree it has no width.

    How many standard errors wide it is depends on how many seeds or classes there are.
    """
    first = measured_runs(tmp_path / "first", [[5] * 40, [5] * 40])
    mean, *ends = records.interval(first, measured_runs(tmp_path / "all_agree", [[6] * 40, [6] * 40]))
    np.testing.assert_allclose([mean, *ends], 0.1)
    mean, *ends = records.interval(first, measured_runs(tmp_path / "seeds_differ", [[8] * 40, [4] * 40]))
    # The standard error of two seeds, 0.2 above and below their mean, is 0.2 * 2**0.5 / 2**0.5.
    np.testing.assert_allclose([mean, *ends], [0.1, 0.1 - T[1] * 0.2, 0.1 + T[1] * 0.2], atol=0.25)
    classes = [7] * 20 + [5] * 20
    mean, *ends = records.interval(first, measured_runs(tmp_path / "classes_differ", [classes, classes]))
    # The standard error of the mean of 40 values of 0 or 0.2.
    error = 0.1 / 39**0.5
    np.testing.assert_allclose([mean, *ends], [0.1, 0.1 - T[39] * error, 0.1 + T[39] * error], atol=0.004)


@pytest.mark.parametrize("seeds", [2, 3])
def test_intervals_of_a_few_seeds_contain_the_true_difference(seeds, tmp_path):
    """Nearly all of the variance is that of seeds: normal quantiles missed in 19% of the studies of two of these."""
    random, missed = np.random.default_rng(0), 0
    for study in range(200):
        of_seeds = random.normal(0.5, 0.1, (2, seeds, 1))
        right = random.binomial(400, of_seeds, (2, seeds, 40)) / 40
        rows = [measured_runs(tmp_path / f"{study}-{row}", counts.tolist()) for row, counts in enumerate(right)]
        _, low, high = records.interval(*rows, samples=200)
        missed += low > 0 or high < 0
    assert 2 <= missed <= 18, missed


def test_rows_of_which_one_has_other_seeds_have_the_degrees_of_freedom_of_its_seeds(tmp_path):
    first = measured_runs(tmp_path / "first", [[5] * 40] * 3)
    second = measured_runs(tmp_path / "second", [[8] * 40, [5] * 40, [5] * 40])
    mean, low, high = records.interval(first, second)
    assert (high - low) / 2 == pytest.approx(T[2] * 0.1, rel=0.1) and mean == pytest.approx(0.1)


def test_whole_groups_are_drawn(tmp_path):
    """Classes of a group are as one class of all their queries; groups have other sizes."""
    of_class, groups = np.repeat([4, 9, 6, 8, 5, 3, 7, 5], np.arange(1, 9)), np.repeat(np.arange(8), np.arange(1, 9))
    intervals = {}
    for name, more in (("classes", {}), ("groups", {"groups": groups.tolist()})):
        first = measured_runs(tmp_path / name / "first", [[5] * len(groups)], **more)
        intervals[name] = records.interval(
            first, measured_runs(tmp_path / name / "second", [of_class.tolist()], **more)
        )
    mean, *ends = intervals["groups"]
    assert mean == pytest.approx(intervals["classes"][0])
    sums, sizes = np.bincount(groups, of_class - 5) / 10, np.bincount(groups)
    drawn = np.random.default_rng(1).integers(0, 8, (20000, 8))
    # Groups of 1 to 8 classes vary as 36^2 / 204 = 6.35 of one size.
    error = np.std(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)) * (6.35 / 5.35) ** 0.5
    width = stats.t.isf(0.025, 5.35) * error
    np.testing.assert_allclose(ends, [mean - width, mean + width], atol=0.1 * width)
    assert ends[1] - ends[0] > 1.5 * (intervals["classes"][2] - intervals["classes"][1])


def test_groups_that_training_has_are_not_drawn():
    def split(**groups):
        return SimpleNamespace(labels=np.array([3, 1, 1, 2]), class_groups=groups["groups"])

    birds = SimpleNamespace(train=split(groups={0: "owl"}), test=split(groups={1: "jay", 2: "auk", 3: "jay"}))
    assert records.groups_of_test(birds, [1, 2, 3]) == [1, 0, 1]
    # A class of one image has no query.
    assert records.groups_of_test(birds, [1, 3]) == [0, 0]
    birds.train = split(groups={0: "jay"})
    assert records.groups_of_test(birds, [1, 2, 3]) is None
    birds.test = split(groups=None)
    assert records.groups_of_test(birds, [1, 2, 3]) is None


def test_a_seed_is_the_mean_of_its_folds(tmp_path):
    first = measured_runs(tmp_path / "first", [[5] * 4, [5] * 4])
    folds = measured_runs(tmp_path / "folds", [[5, 5, 6, 4], [7, 7, 6, 8], [6] * 4, [6] * 4])
    mean, *ends = records.interval(first, [folds[:2], folds[2:]])
    np.testing.assert_allclose([mean, *ends], 0.1)
    assert records.recall([folds[:2], folds[2:]]) == pytest.approx(0.6)


def test_rows_with_other_runs_are_not_compared(tmp_path):
    first, second = measured_runs(tmp_path / "a", [[5] * 4]), measured_runs(tmp_path / "b", [[5] * 4, [6] * 4])
    with pytest.raises(ValueError, match="the same number of runs, and all runs the same test classes"):
        records.interval(first, second)
    with pytest.raises(ValueError, match="the same number of runs, and all runs the same test classes"):
        records.interval(first, measured_runs(tmp_path / "c", [[5] * 5]))
    with pytest.raises(ValueError, match="Every measured.json must have the same groups of test classes"):
        records.interval(first, measured_runs(tmp_path / "d", [[5] * 4], groups=[0, 0, 1, 1]))


def test_runs_without_classes_are_not_compared(tmp_path):
    (tmp_path / records.FILE).write_text(json.dumps({"model": "final"}))
    with pytest.raises(ValueError, match="no Recall@1 per class .* Remove --intervals and --pairwise"):
        records.interval([tmp_path], [tmp_path])


@pytest.mark.nightly
def test_rows_that_are_equal_but_for_chance_seldom_differ_significantly(tmp_path):
    """Of 20 rows, 190 pairs, one of these by one interval is no rare thing, and here it is; one that is better is."""
    random = np.random.default_rng(0)
    rows = [measured_runs(tmp_path / str(row), random.binomial(10, 0.5, (3, 100)).tolist()) for row in range(20)]
    ends = [records.interval(rows[a], rows[b])[1:] for a in range(20) for b in range(a)]
    assert any(low > 0 or high < 0 for low, high in ends)
    assert not records.compared(rows).larger().any()
    better = measured_runs(tmp_path / "better", random.binomial(10, 0.7, (3, 100)).tolist())
    expected = np.zeros([21, 21], bool)
    expected[20, :20] = True
    np.testing.assert_array_equal(records.compared([*rows, better]).larger(), expected)


@pytest.mark.nightly
def test_seeds_make_no_equal_rows_different(tmp_path):
    """Rows of three seeds whose differences are mostly of seeds are called different in about 5 % of the studies."""
    random, wrong = np.random.default_rng(0), 0
    for study in range(40):
        of_seeds = random.normal(0.5, 0.03, (12, 3, 1))
        right = (random.binomial(30, of_seeds, (12, 3, 100)) / 3).tolist()
        rows = [measured_runs(tmp_path / f"{study}-{row}", counts) for row, counts in enumerate(right)]
        wrong += records.compared(rows, samples=500).larger().any()
    assert wrong <= 4, wrong


def test_what_another_study_measured_is_said(tmp_path):
    (tmp_path / records.FILE).write_text(json.dumps({"model": "best", "queries": [1], "right": [1]}))
    records.measure(tmp_path, "best")
    with pytest.raises(ValueError, match="describes the best model without its learners, and the run has no model"):
        records.measure(tmp_path, "best", learners=4)
    with pytest.raises(ValueError, match="describes the best model without all other datasets, and the run has no"):
        records.measure(tmp_path, "best", elsewhere={"emoji": {"dataset": "folder", "data_dir": "data/emoji"}})


def test_a_run_without_models_is_not_measured(tmp_path):
    records.measure(tmp_path, "best")
    assert not list(tmp_path.iterdir())


def test_a_run_whose_model_has_changed_is_measured_again(tmp_path):
    """As one that went on; here there is no run to measure it on."""
    (tmp_path / "model.keras").write_bytes(b"one")
    known = {"model": "best", "sha256": hashlib.sha256(b"one").hexdigest()}
    (tmp_path / records.FILE).write_text(json.dumps(known))
    records.measure(tmp_path, "best")
    (tmp_path / "model.keras").write_bytes(b"another")
    with pytest.raises(FileNotFoundError, match="is not a tfdml run directory"):
        records.measure(tmp_path, "best")
