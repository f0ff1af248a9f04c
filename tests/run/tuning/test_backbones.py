"""Which backbone: heads on the stored features of several networks."""

import numpy as np
import pytest

from tfdml.console import flags
from tfdml.files.checked import write_record
from tfdml.files.shards import SPEED, EmbeddingShards
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.tuning.backbones import alternatives, best_trials, sentences, stored_features, table
from tfdml.run.tuning.outcome import CAUTION, Lead
from tfdml.run.tuning.state import RungScore, SearchDirectory, SearchState


def write(path, dims, labels="aabb"):
    shards = EmbeddingShards.create(path, model="0", dimension=dims)
    vectors = np.random.default_rng(dims).normal(size=(len(labels), dims))
    shards.append([f"{row}.jpg" for row in range(len(labels))], list(labels), vectors)
    return str(path)


@pytest.fixture
def features(tmp_path):
    paths = [write(tmp_path / "small", 2), write(tmp_path / "large", 1200), str(tmp_path / "own.npz")]
    write_record(tmp_path / "large" / SPEED, {"images_per_second": 1234.5})
    np.savez(paths[2], embeddings=np.ones((4, 8), np.float32), labels=np.array(list("aabb")))
    return stored_features(paths)


FIRST = flags.resolve(["--optimizer=adam(learning_rate=0.0003)", "--initial_embedding=lda"])
RATE = "--optimizer=adam(learning_rate={})"


def test_what_is_known_of_features(features, tmp_path):
    assert [(each.dims, each.images_per_second) for each in features] == [(2, None), (1200, 1234.5), (8, None)]
    assert features[0].flag == f"--dataset=embeddings(path='{tmp_path}/small', test_classes=0.3)"
    other = write(tmp_path / "other", 3, "aaab")
    with pytest.raises(ValueError, match="the same labels in the same order. Embed the same images with each"):
        stored_features([features[0].name, other])


def test_every_backbone_has_the_same_choices(features, tmp_path):
    first = {**FIRST, "dataset": features[0].flag}
    trials = [{**first, **changes} for changes in [{}, *alternatives(features, first, [])]]
    of_each = [(each["optimizer"], each["initial_embedding"][20:], each["dataset"]) for each in trials]
    rates = [RATE.format(rate) for rate in ("0.0003", "0.0001", "0.001")]
    # Those of the first trial come first, with which each backbone is trained even if the time is short.
    expected = [(rate, start, each.flag) for rate in rates for start in ("lda", "wccn") for each in features]
    assert of_each == expected
    folder = SearchDirectory(tmp_path / "search")
    with folder.claimed(first) as state:
        state.changes += alternatives(features, first, [])
        folder.write(state)
    with folder.claimed(first) as again:
        assert again == state
    others = alternatives(features, first, ["optimizer", "initial_embedding"])
    assert others == [{"dataset": each.flag} for each in features[1:]]
    own = {**first, "optimizer": "--optimizer=sgd"}
    assert len(alternatives(features, own, ["optimizer"])) == 5 and len(alternatives(features, own, [])) == 23


def test_the_table_has_the_best_trial_of_each_backbone(features, tmp_path):
    folder, small, large = SearchDirectory(tmp_path / "search"), features[0].flag, features[1].flag
    state = SearchState({**FIRST, "dataset": small}, metric="recall_at_1")
    state.changes = [{}, {"dataset": large}, {"optimizer": RATE.format(0.001)}, {"dataset": large}, {"dataset": "x"}]
    scores = [0.5, 0.6, 0.55, 0.7, 0.9]
    state.measured = [RungScore(trial, 100, score, [0.25, 0.75], None) for trial, score in enumerate(scores)]
    state.failed = {5: "The loss is NaN."}
    for trial in range(len(scores)):
        folder.trial(trial).mkdir(parents=True)
        RunDirectory(folder.trial(trial)).write_result(
            {"step": 100, "best": {"step": 100}, "features": {"recall_at_1": 0.125}}
        )
    assert [(each.dims, score.trial) for each, score in best_trials(state, features)] == [(1200, 3), (2, 2)]
    heads, *rows, failed, untried = table(state, features, folder).splitlines()
    assert heads.split("  ")[0] == "features" and "Recall@1 without training" in heads
    found = [row.split() for row in rows]
    assert found[0] == [
        *f"{features[1].name} 1,200 1,234 12.5% 70.0% 25.0 to 75.0".split(),
        RATE.format(0.0003),
        FIRST["initial_embedding"],
    ]
    assert found[1] == [
        *f"{features[0].name} 2 - 12.5% 55.0% 25.0 to 75.0".split(),
        RATE.format(0.001),
        FIRST["initial_embedding"],
    ]
    assert failed == "Failed: trial 005: The loss is NaN."
    assert untried == f"No trial of {features[2].name} is complete. Set a larger --minutes."
    lead = Lead(features[0].name, 0.15, [0.05, 0.2])
    assert sentences(state, features, [lead]) == [
        f"Best features: {features[1].name}.",
        f"Recall@1 compared with {features[0].name}: +15.0 points (95% CI +5.0 to +20.0).",
        CAUTION,
    ]
