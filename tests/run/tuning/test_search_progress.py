"""How a search tells how far it is."""

import logging

import pytest

from tfdml.run.tuning.search import SearchProgress
from tfdml.run.tuning.state import Plan, RungScore, SearchState


@pytest.fixture
def state():
    state = SearchState({}, seconds=90.0, metric="recall_at_1", changes=[{}, {"loss": "--loss=circle"}])
    state.plan, state.failed = Plan((100, 300), 1), {1: "The loss is NaN."}
    state.measured = [RungScore(0, 100, 0.5, None, None)]
    return state


def test_lines_of_trials(state, caplog):
    caplog.set_level(logging.INFO)
    progress = SearchProgress(600, verbose=2)
    progress.trained(state, 0, 100, 100)
    progress.trained(state, 1, 100, 100)
    progress.end()
    assert caplog.messages == [
        "Trial 0, 100 steps: recall_at_1 0.500; 1.5 of 10 minutes; the recipe",
        "Trial 1, 100 steps: failed: The loss is NaN.; 1.5 of 10 minutes; --loss=circle",
    ]


def test_a_bar_of_all_steps_in_a_terminal(state, capsys, caplog):
    caplog.set_level(logging.INFO)
    progress = SearchProgress(600, verbose=1)
    progress.trained(state, 0, 100, 100)
    state.measured.append(RungScore(0, 300, 0.5, None, None))
    progress.trained(state, 0, 300, 200)
    progress.say("No time is left.")
    printed = capsys.readouterr().out
    assert "300/600" in printed and printed.endswith("\n") and caplog.messages == ["No time is left."]


def test_the_bar_of_a_search_that_goes_on_begins_where_it_was(state, capsys):
    state.measured.append(RungScore(0, 300, 0.5, None, None))
    SearchProgress(600, verbose=1).trained(state, 0, 300, 200)
    assert "100/600" in capsys.readouterr().out
