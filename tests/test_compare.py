"""`python -m tfdml.compare`: a trained run against copies of it with noise in the weights, and what it refuses."""

import functools
import json
import shutil

import keras
import numpy as np
import pytest

from tests.commands import assert_one_error, ok, run, scratch
from tests.run_helpers import change_flags, straight_run

pytestmark = pytest.mark.slow


def copy_of(run_dir, name, old="", new=""):
    """A copy of what is read of a run, with a text in its flags replaced."""
    copy = scratch() / name
    copy.mkdir()
    for file in ("flags.txt", "result.json", "model.keras"):
        shutil.copy(run_dir / file, copy / file)
    change_flags(copy, old, new)
    return copy


@functools.cache
def noisy_run(seed):
    """The straight run with noise in the weights of its model, and without --deterministic."""
    noisy = copy_of(straight_run(), f"noisy{seed}", "--deterministic\n", "--nodeterministic\n")
    model = keras.models.load_model(noisy / "model.keras", compile=False)
    random = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign_add(random.normal(0, 0.3, weight.shape))
    model.save(noisy / "model.keras")
    return noisy


@functools.cache
def compare(*flags):
    done = ok("tfdml.compare", *flags)
    *table, last = done.stdout.splitlines()
    return table, json.loads(last)


def best(run_dir):
    return json.loads((run_dir / "result.json").read_text())["best"]


def test_two_runs():
    a, b = straight_run(), noisy_run(0)
    table, found = compare(f"--run_dirs={a},{b}")
    assert "nmi" not in found["metrics"] and {"recall_at_1", "map_at_r"} < found["metrics"].keys()
    for name, each in found["metrics"].items():
        assert each["a"] == pytest.approx(best(a)[name])
        assert each["difference"] == pytest.approx(each["b"] - each["a"])
        assert each["interval"][0] < each["difference"] < each["interval"][1]
    recall, alone = found["metrics"]["recall_at_1"], found["right_alone"]
    assert found["queries"] == best(a)["queries"]
    assert alone["a"] - alone["b"] == pytest.approx((recall["a"] - recall["b"]) * found["queries"])
    assert table[:2] == [f"A: {a}", f"B: {b}"]
    (row,) = [line.split() for line in table if line.startswith("Recall@1 ")]
    points = f"{100 * recall['difference']:+.1f}"
    assert row[1:5] == [f"{recall['a']:.1%}", f"{recall['b']:.1%}", points, "points"]
    assert row[-1] == (recall["better"] or "-").upper()
    right = f"{alone['a']} are right at rank 1 only in A, and {alone['b']} only in B."
    assert f"Of {found['queries']} queries, {right}" in table


@pytest.mark.nightly
def test_several_seeds_over_classes():
    a, noisy = straight_run(), [noisy_run(0), noisy_run(1)]
    flags = ["--samples=300", "--seed=3", "--metrics=map_at_r"]
    table, found = compare(f"--run_dirs={noisy[0]},{noisy[1]}:{a}", *flags)
    assert (found["a"], found["b"]) == ([str(each) for each in noisy], [str(a)])
    assert (found["bootstrap"], found["samples"], found["seed"]) == ("classes", 300, 3)
    (values,) = found["metrics"].values()
    assert values["b"] == pytest.approx(best(a)["map_at_r"]) and "b_std" not in values
    first = compare(f"--run_dirs={a},{noisy[0]}")[1]["metrics"]["map_at_r"]["b"]
    second = 2 * values["a"] - first
    assert first != second and values["a_std"] == pytest.approx(np.std([first, second], ddof=1))
    (row,) = [line for line in table if line.startswith("MAP@R ")]
    assert f" {values['a']:.1%} ± {100 * values['a_std']:.1f} " in row


@pytest.mark.nightly
def test_metrics_of_pairs_over_classes():
    a, b = straight_run(), noisy_run(0)
    flags = ["--metrics=recall_at_1,roc_auc", "--samples=200"]
    table, found = compare(f"--run_dirs={a},{b}", *flags)
    each = found["metrics"]["roc_auc"]
    assert list(found["metrics"]) == ["recall_at_1", "roc_auc"]
    assert each["difference"] == pytest.approx(each["b"] - each["a"])
    assert each["interval"][0] < each["difference"] < each["interval"][1]
    assert [line.split()[2] for line in table if line.startswith("roc auc ")] == [f"{each['a']:.3f}"]
    done = run("tfdml.compare", f"--run_dirs={a},{b}", "--bootstrap=queries", *flags)
    assert_one_error(done, "roc_auc: pair metrics are not means over queries. Compare them with --bootstrap=classes")


@pytest.mark.nightly
def test_three_runs():
    runs = {"a": straight_run(), "b": noisy_run(0), "c": noisy_run(1)}
    table, found = compare(f"--run_dirs={','.join(map(str, runs.values()))}", "--metrics=recall_at_1,map_at_r")
    assert {name: found[name] for name in "abc"} == {name: [str(path)] for name, path in runs.items()}
    two = compare(f"--run_dirs={runs['a']},{runs['b']}")[1]["metrics"]
    for metric, each in found["metrics"].items():
        assert each["a"]["mean"] == pytest.approx(best(runs["a"])[metric])
        assert [(pair["first"], pair["second"]) for pair in each["pairs"]] == [("a", "b"), ("a", "c"), ("b", "c")]
        pair = each["pairs"][0]
        assert pair["difference"] == pytest.approx(two[metric]["difference"])
        assert np.diff(pair["interval"]) > np.diff(two[metric]["interval"])
    assert found["right_alone"].keys() == set("abc")
    assert table[:3] == [f"{name.upper()}: {path}" for name, path in runs.items()]
    (row,) = [line.split() for line in table if line.startswith("Recall@1  C - B")]
    last = found["metrics"]["recall_at_1"]["pairs"][2]
    assert row[4] == f"{100 * last['difference']:+.1f}" and row[-1] == (last["better"] or "-").upper()


def test_runs_that_cannot_be_compared(tmp_path):
    a = straight_run()
    copy = copy_of(a, "copy")
    done = run("tfdml.compare", f"--run_dirs={a},{copy}", "--which=final")
    assert_one_error(done, f"{copy}/final.keras does not exist")
    (copy / "result.json").unlink()
    assert_one_error(run("tfdml.compare", f"--run_dirs={a},{copy}"), f"The run in {copy} is not complete")
    assert_one_error(run("tfdml.compare", f"--run_dirs={a},{tmp_path}"), f"{tmp_path} is not a tfdml run directory")
    assert_one_error(run("tfdml.compare", f"--run_dirs={a},{copy}:{a}"), "must name different runs", str(a))
    other = copy_of(a, "other", "--protocol=\n", "--protocol=self_retrieval(distance='euclidean')\n")
    done = run("tfdml.compare", f"--run_dirs={a},{other}")
    assert_one_error(done, f"{a} and {other} have different protocols", "distance='cosine'", "distance='euclidean'")
