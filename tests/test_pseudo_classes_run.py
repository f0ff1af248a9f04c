"""Runs whose training images are labelled by clusters, with a loss on pairs and with one on proxies."""

import json

import pytest

from tests.commands import assert_one_error, ok, run
from tests.run_helpers import MODEL_FLAGS, assert_goes_on, events, shared
from tests.test_photos_run import photos_folder


def flags(run_dir, *more):
    data = ["--dataset=photos(held_out=0.25)", f"--data_dir={photos_folder()}", "--labels=clusters(k=4, every=1)"]
    length = ["--epochs=3", "--steps_per_epoch=4", "--optimizer=adam(learning_rate=0.003)"]
    own = ["--sampler=pxk(classes=3, per_class=4)", "--loss=proxy_anchor"]
    return [*MODEL_FLAGS, *data, *length, *own, f"--run_dir={run_dir}", *more]


@shared("pseudo_classes_run")
def straight(run_dir):
    ok("tfdml.train", *flags(run_dir))


@pytest.mark.slow
def test_clusters_are_found_anew_and_measured_without_classes():
    found = json.loads((straight() / "result.json").read_text())
    assert found["pseudo_classes"]["epoch"] == 2 and 0 <= found["pseudo_classes"]["changed"] <= 1
    assert found["best"]["selected_by"] == "neighbors_kept"
    told = [event for event in events(straight()) if event["event"] == "labels"]
    assert len(told) == 3 and all(event["smallest"] >= 1 for event in told)


@pytest.mark.nightly
@pytest.mark.slow
def test_it_goes_on_to_the_same_bits(tmp_path):
    run_dir = tmp_path / "run"
    assert_goes_on(run_dir, flags(run_dir, "--checkpoint_every=3"), straight(), step=6)


@pytest.mark.nightly
@pytest.mark.slow
def test_views_and_clusters_together(tmp_path):
    more = ["--sampler=views(images=8)", "--loss=sup_con", "--epochs=1"]
    ok("tfdml.train", *flags(tmp_path / "run", *more))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more, words",
    [
        (["--labels=clusters(k=16)"], ["30 training images are too few for 16 clusters"]),
        (["--levels=make"], ["no classes"]),
        (["--sampler=given"], ["draws by no labels that change"]),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, more, words):
    assert_one_error(run("tfdml.train", *flags(tmp_path / "run", *more)), *words)
