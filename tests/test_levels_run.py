"""A run on classes with levels: trained, stopped and gone on with, measured at each level."""

import json

import pytest

from tests.commands import assert_one_error, ok, run
from tests.run_helpers import assert_goes_on, shared, train_flags

OWN = ["--levels=body,class", "--sampler=pxk(classes=4, per_class=4, groups=2)", "--steps_per_epoch=6"]
OWN += ["--loss=by_level(loss='multi_similarity', weights=(0.3, 1.0))"]


@shared("levels_run")
def straight(run_dir):
    ok("tfdml.train", *train_flags(run_dir, *OWN, *LARGER))


# Two classes of each body type in either half.
LARGER = ["--dataset=toycars(classes=32, images_per_class=6, image_size=24)"]


@pytest.mark.slow
def test_levels_are_learned_and_measured():
    found = json.loads((straight() / "result.json").read_text())
    assert found["best"]["selected_by"] == "recall_at_1"
    names = list(found["metrics"])
    assert names[:3] == ["recall_at_1", "recall_at_1_of_body", "recall_at_2"]
    assert {"map_at_r_of_body", "hierarchical_ap", "ndcg", "nmi"} <= set(names)
    assert found["metrics"]["recall_at_1_of_body"] >= found["metrics"]["recall_at_1"]


@pytest.mark.slow
@pytest.mark.nightly
def test_it_goes_on_to_the_same_bits(tmp_path):
    run_dir = tmp_path / "run"
    assert_goes_on(run_dir, train_flags(run_dir, *OWN, *LARGER, "--checkpoint_every=2"), straight(), step=2)


@pytest.mark.nightly
@pytest.mark.slow
def test_another_loss_is_taken_at_each_level_and_a_run_is_measured_again(tmp_path):
    more = ["--loss=triplet", "--sampler=pxk(classes=4, per_class=4)", "--epochs=1"]
    ok("tfdml.train", *train_flags(tmp_path / "run", *OWN, *LARGER, *more))
    done = ok("tfdml.evaluate", f"--run_dir={tmp_path / 'run'}", "--metrics=recall_at_1,hierarchical_ap")
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"recall_at_1", "recall_at_1_of_body", "hierarchical_ap"} <= set(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more, words",
    [
        (["--levels=class,body"], ["is in several of class", "no tree"]),
        (["--levels=make,class"], ["expected levels of toycars", "it has class, body"]),
        (["--loss=proxy_anchor"], ["takes a loss on pairs", "ProxyAnchor"]),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, more, words):
    assert_one_error(run("tfdml.train", *train_flags(tmp_path / "run", *OWN, *LARGER, *more)), *words)
