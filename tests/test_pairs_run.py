"""A run on given pairs and on given triplets: trained, stopped and gone on with, on several devices."""

import json

import numpy as np
import pytest

from tests.commands import assert_one_error, ok, run
from tests.run_helpers import MODEL_FLAGS, assert_goes_on, events, shared
from tests.test_photos_run import IMAGES, photos_folder


@shared("tables_of_pairs")
def tables(folder):
    """A folder with a table of pairs and one of triplets, of images of which each two are the same."""
    folder.mkdir()
    names = sorted(str(path) for path in photos_folder().rglob("*.png"))
    random = np.random.default_rng(0)
    groups = [names[start : start + 4] for start in range(0, IMAGES, 4)]
    pairs = [f"{a},{b},1\n{a},{c},0\n{c},{d},1\n{b},{d},0\n" for a, b, c, d in groups]
    triplets = [f"{a},{b},{c}\n{c},{d},{random.choice([a, b])}\n" for a, b, c, d in groups]
    (folder / "pairs.csv").write_text("a,b,same\n" + "".join(pairs))
    (folder / "triplets.csv").write_text("anchor,positive,negative\n" + "".join(triplets))


def flags(run_dir, *more, table="pairs"):
    data = [f"--dataset=pairs(file='{tables()}/{table}.csv')", "--sampler=given(count=8)"]
    length = ["--epochs=2", "--steps_per_epoch=6", "--optimizer=adam(learning_rate=0.003)"]
    return [*MODEL_FLAGS, "--head=linear", *data, *length, "--loss=contrastive", f"--run_dir={run_dir}", *more]


@shared("pairs_run")
def straight(run_dir):
    assert not ok("tfdml.train", *flags(run_dir)).stderr


@pytest.mark.slow
def test_pairs_train_and_are_measured():
    found = json.loads((straight() / "result.json").read_text())
    assert found["best"]["selected_by"] == "roc_auc"
    assert list(found["metrics"]) == ["roc_auc", "pair_average_precision", "equal_error_rate", "effective_rank"]
    assert found["metrics"] != found["untrained"]
    (first, last) = [event for event in events(straight()) if event["event"] == "train"]
    assert first["positive_distance"] > 0 and first["negative_distance"] > 0 and first["loss"] != last["loss"]


@pytest.mark.nightly
@pytest.mark.slow
def test_it_goes_on_to_the_same_bits(tmp_path):
    run_dir = tmp_path / "run"
    assert_goes_on(run_dir, flags(run_dir, "--checkpoint_every=3"), straight(), step=3)


@pytest.mark.nightly
@pytest.mark.slow
def test_two_devices_learn_what_one_does(tmp_path):
    ok("tfdml.train", *flags(tmp_path / "run", "--devices=cpu:2", "--epochs=1"))
    (loss,) = [event["loss"] for event in events(tmp_path / "run") if event["event"] == "train"]
    first = next(event["loss"] for event in events(straight()) if event["event"] == "train")
    # Batch norm is of each device's own images.
    assert loss == pytest.approx(first, rel=0.3)


@pytest.mark.nightly
@pytest.mark.slow
def test_triplets_train(tmp_path):
    more = ["--loss=triplet(mining='given')", "--epochs=1"]
    ok("tfdml.train", *flags(tmp_path / "run", *more, table="triplets"))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["metrics"]["roc_auc"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "more, words",
    [
        (["--sampler=pxk(classes=4, per_class=2)"], ["pairs has no classes. Use --sampler='given(count=32)'"]),
        (["--loss=triplet(mining='given')"], ["takes batches in 3 parts", "whose batches have 2"]),
        (["--memory=xbm(size=64)"], ["Expected labels of shape [batch] with class numbers"]),
        (["--loss=proxy_anchor"], ["class numbers"]),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, more, words):
    assert_one_error(run("tfdml.train", *flags(tmp_path / "run", *more)), *words)
