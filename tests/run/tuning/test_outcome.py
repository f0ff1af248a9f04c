"""The last lines of a search."""

import itertools

import numpy as np
import pytest

from tfdml.console import flags
from tfdml.console.settings import Settings
from tfdml.evaluation.comparison import compare, compare_all
from tfdml.evaluation.metrics import metric_of
from tfdml.evaluation.scores import Scores
from tfdml.run.experiment.length import Length
from tfdml.run.tuning import outcome
from tfdml.run.tuning.state import RungScore, SearchDirectory, SearchState

CHANGES = [{}, {"loss": "--loss=circle"}, {"image_size": "--image_size=96"}, {"loss": "--loss=contrastive"}]
ROWS = [(0, 4, 0.3), (1, 4, 0.4), (2, 4, 0.2), (0, 12, 0.5), (1, 12, 0.625)]


def state_of(rows=ROWS, interval=(0.1, 0.9)):
    state = SearchState({}, metric="recall_at_1", changes=[dict(each) for each in CHANGES])
    state.measured = [RungScore(trial, steps, score, interval and list(interval), None) for trial, steps, score in rows]
    state.failed = {3: "The loss is NaN."}
    return state


def test_the_table_has_the_longest_first():
    lines = outcome.table(state_of()).splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["1", "001", "12", "62.5%", "10.0", "to", "90.0", "--loss=circle"],
        ["2", "000", "12", "50.0%", "10.0", "to", "90.0", "the", "default", "settings"],
    ]
    assert lines[0].split() == ["rank", "trial", "steps", "Recall@1", "95%", "CI", "flags"]
    assert lines[3].split()[:4] == ["3", "002", "4", "20.0%"]
    assert lines[4] == "Failed: trial 003, --loss=contrastive: The loss is NaN."


@pytest.fixture
def compared(monkeypatch):
    """Comparisons of runs that were asked for, in which the last run is surely better than the first one alone."""
    asked = []

    def compare(groups, **about):
        asked.append([group[0] for group in groups])
        ends = {True: [0.05, 0.2], False: [-0.1, 0.2]}
        pairs = [
            {"first": one, "second": other, "difference": 0.125, "interval": ends[(one, other) == ("a", last)]}
            for last in ["abcdef"[len(groups) - 1]]
            for one, other in itertools.combinations("abcdef"[: len(groups)], 2)
        ]
        two = {"difference": 0.125, "interval": ends[True], "better": "b"}
        return {"metrics": {"recall_at_1": {"pairs": pairs} if groups[2:] else two}}

    monkeypatch.setattr(outcome, "compare_runs", compare)
    return asked


def test_the_winner_is_compared_with_the_recipe_and_the_second(compared):
    folder = SearchDirectory("search")
    state = state_of([*ROWS, (2, 12, 0.55)])
    found = outcome.leads(state, folder, {})
    assert compared == [[f"search/trials/00{number}" for number in (0, 2, 1)]]
    assert outcome.sentences(state, found) == [
        "Best of 3 trials: trial 001, --loss=circle.",
        "Recall@1 compared with the default settings: +12.5 points (95% CI +5.0 to +20.0).",
        "Recall@1 compared with the second-best trial: +12.5 points (95% CI -10.0 to +20.0). The interval contains "
        "0, so the difference may be due to chance.",
        "The intervals are corrected for the choice among the 3 longest trials.",
        outcome.CAUTION,
    ]


def test_the_best_of_equal_trials_is_seldom_sure(monkeypatch):
    """Of twelve equal ones, measured on 24 classes: each pair by itself was called sure in 19 of these 100 searches."""
    random, sure = np.random.default_rng(0), 0
    monkeypatch.setattr(outcome, "compare_runs", lambda groups, metrics, **about: {"metrics": compared_scores(groups)})

    def compared_scores(groups):
        scores = {}
        for name, (run,) in zip("abcdefghijkl", groups, strict=False):
            values = of_trials[int(run[-3:])]
            scores[name] = [Scores({}, np.arange(24), {"recall_at_1": values}, 24)]
        about = {"metrics": [metric_of("recall_at_1")], "clusters": np.arange(24), "samples": 300}
        return compare_all(scores, **about) if groups[2:] else compare(*scores.values(), **about)

    for _ in range(100):
        of_trials = random.normal(0.5, 0.1, 24) + random.normal(0, 0.1, (12, 24))
        state = SearchState({}, metric="recall_at_1", changes=[{}] + 11 * [{"loss": "--loss=circle"}])
        state.measured = [RungScore(trial, 4, each.mean(), [0.1, 0.9], None) for trial, each in enumerate(of_trials)]
        sure += any(lead.better for lead in outcome.leads(state, SearchDirectory("search"), {}))
    assert sure <= 5, sure


def test_of_more_finalists_than_are_compared_the_recipe_is_one(monkeypatch):
    asked = []

    def compare(groups, **about):
        asked.extend(group[0][-3:] for group in groups)
        raise InterruptedError

    monkeypatch.setattr(outcome, "compare_runs", compare)
    state = SearchState({}, metric="recall_at_1", changes=40 * [{}])
    state.measured = [RungScore(trial, 4, trial / 40, [0.1, 0.9], None) for trial in range(40)]
    with pytest.raises(InterruptedError):
        outcome.leads(state, SearchDirectory("search"), {})
    assert asked == ["000", *(f"{trial:03}" for trial in range(38, 14, -1)), "039"]


def test_the_recipe_may_be_the_second_or_win(compared):
    folder = SearchDirectory("search")
    assert [lead.name for lead in outcome.leads(state_of(), folder, {})] == ["the default settings"]
    assert compared == [["search/trials/000", "search/trials/001"]]
    state = state_of([*ROWS[:3], (0, 12, 0.7), (1, 12, 0.6)])
    found = outcome.leads(state, folder, {})
    assert [lead.name for lead in found] == ["the second-best trial"]
    assert outcome.sentences(state, found)[0] == "Best of 3 trials: the default settings. No alternative was better."


def test_a_recipe_that_was_trained_longest_alone_has_won_nothing(compared):
    state = state_of([*ROWS[:3], (0, 12, 0.5)])
    assert outcome.sentences(state, outcome.leads(state, SearchDirectory("search"), {}))[0] == (
        "Best of 3 trials: the default settings. No time was left to train an alternative for the same number of "
        "steps. After 4 steps, trial 001, --loss=circle, had Recall@1 40.0%, compared with 30.0% for the default "
        "settings. Set a larger --minutes to train it longer."
    )


def test_without_intervals_nothing_is_sure(compared):
    state = state_of(interval=None)
    assert outcome.leads(state, SearchDirectory("search"), {}) == [] == compared
    told = "No confidence interval can be computed for Recall@1 here, so the lead may be due to chance."
    assert told in outcome.sentences(state, [])


def test_the_flags_that_won_train_on_the_real_dataset(tmp_path):
    about = ["--dataset=folder(test_classes=0.3)", "--data_dir=/photos", "--evaluate_on=validation", "--loss=triplet"]
    serialized = flags.resolve(about)
    folder = SearchDirectory(tmp_path)
    assert outcome.write_best(state_of(), folder, serialized, 0).trial == 1
    first, score, *lines = folder.best_flags.read_text().splitlines()
    assert first == "# Best of 3 trials of python -m tfdml.tune: --loss=circle."
    assert score.startswith("# recall_at_1: 0.625 after 12 steps")
    expected = [*about[:3], "--loss=circle", "--steps=12"]
    assert sorted(lines) == sorted(expected)
    assert flags.resolve([f"--flagfile={folder.best_flags}"]) == flags.resolve(expected)
    outcome.write_best(state_of(), folder, serialized, 500)
    assert "--steps=500" in folder.best_flags.read_text()


def test_a_run_on_all_training_classes_is_longer_and_its_steps_can_be_divided_into_epochs():
    """Of 2,062 steps, twice a prime number, a run could not."""
    assert outcome.length_of(flags.resolve(["--evaluate_on=validation"]), 1000) == 1000
    on_all = flags.resolve(["--evaluate_on=test", "--validation_classes=0.2"])
    assert outcome.length_of(on_all, 1000) == 1250
    assert outcome.length_of(on_all, 1650) == 2062 and outcome.length_of(on_all, 1650, epoch=50) == 2050
    settings = Settings().replace(steps=2050)
    assert Length.of(settings.length, settings.evaluation, batches=20).steps == 2050
