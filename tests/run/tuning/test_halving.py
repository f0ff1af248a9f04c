"""Successive halving, with a clock and trials that take no time."""

import pytest

from tfdml.run.tuning.outcome import Halving
from tfdml.run.tuning.state import Cost, RungScore, SearchState
from tfdml.run.tuning.trials import TrialFailed

EPOCH, LONGEST = 50, 900
DRAWN = [{"loss": f"--loss={number}"} for number in range(1, 41)]


class Stub:
    """Trials whose score is known, and a clock that they move: 10 seconds for a process, and 0.1 for a step."""

    def __init__(self, score=lambda number, steps: number, step=lambda number: 0.1, fail=(), stop_after=None):
        self.now, self.trained, self.left = 0.0, [], stop_after
        self.score, self.step, self.fail, self.taken = score, step, fail, {}
        self.said, self.reason = [], "the loss is NaN"

    def __call__(self, number, steps):
        if self.left is not None:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
        cost = Cost(10.0, self.step(number))
        self.now += cost.of(steps - self.taken.get(number, 0))
        if number in self.fail:
            raise TrialFailed(self.reason)
        self.taken[number] = steps
        self.trained.append((number, steps))
        return RungScore(number, steps, self.score(number, steps), None, cost)

    def say(self, sentence):
        self.said.append(sentence)


class Silent:
    def __init__(self, stub):
        self.say = stub.say

    def trained(self, *given):
        pass


def search(stub, state=None, seconds=1700.0, drawn=DRAWN, **more):
    state = state or SearchState({})
    about = {"drawn": drawn, "epoch": EPOCH, "longest": LONGEST, "progress": Silent(stub)}
    halving = Halving(state, lambda: None, stub, seconds=seconds, clock=lambda: stub.now, **about, **more)
    halving.run()
    return state


def test_the_best_go_on_and_the_recipe_beside_them():
    stub = Stub()
    state = search(stub)
    assert stub.trained == [
        *((number, 100) for number in range(41)),
        *((number, 300) for number in (0, *range(40, 27, -1))),
        *((number, 900) for number in (0, 40, 39, 38, 37)),
    ]
    assert [(each.trial, each.steps) for each in state.ranked()][:4] == [(40, 900), (39, 900), (38, 900), (37, 900)]
    assert state.seconds == stub.now <= 1700
    rungs = "all of them for 100 steps, the best 13 for 300 steps, the best 4 for 900 steps"
    assert f"40 alternatives: {rungs}. It takes about 26 minutes." in stub.said[0]


def test_all_trials_have_the_same_length_unless_it_halves():
    stub = Stub()
    state = search(stub, drawn=DRAWN[:5], seconds=400.0, halves=False)
    assert stub.trained == [(0, 100), *((number, 500) for number in range(6))]
    assert state.seconds <= 400
    again = Stub()
    search(again, state, drawn=DRAWN[:5], seconds=400.0, halves=False)
    assert again.trained == []


def test_what_is_bad_at_first_is_out():
    stub = Stub(score=lambda number, steps: number if steps == 100 else -number)
    search(stub)
    assert [trial for trial, steps in stub.trained if steps > 100] == [0, *range(40, 27, -1), 0, *range(28, 32)]


@pytest.mark.parametrize("after", (0, 1, 2, 30, 41, 42, 50, 54, 55, 57, 59))
def test_a_search_that_was_stopped_goes_on(after):
    """Nothing is trained twice, and the trials are those of a search that was not stopped."""
    whole = Stub()
    search(whole)
    stub, state = Stub(stop_after=after), SearchState({})
    with pytest.raises(KeyboardInterrupt):
        search(stub, state)
    assert len(stub.trained) == after
    stub.left = None
    search(stub, state)
    assert stub.trained == whole.trained and stub.now == whole.now == state.seconds
    search(stub, state)
    assert stub.trained == whole.trained


def test_a_trial_that_fails_is_left_out():
    stub = Stub(fail=(40, 9))
    state = search(stub)
    assert state.failed == {9: "the loss is NaN", 40: "the loss is NaN"}
    assert [trial for trial, steps in stub.trained if steps > 100] == [0, *range(39, 27, -1), 0, *range(39, 35, -1)]
    # It is not tried again.
    stub.fail = ()
    search(stub, state)
    assert 9 not in stub.taken


def test_a_trial_that_was_killed_is_trained_by_the_next_search():
    """In the rung that has begun last; what it is tried for again in others would change nothing."""
    stub = Stub(fail=(9,), stop_after=20)
    stub.reason = "It ended by signal 9."
    state = SearchState({})
    with pytest.raises(KeyboardInterrupt):
        search(stub, state)
    assert state.failed == {9: "It ended by signal 9."} and (9, 100) not in stub.trained
    stub.fail, stub.left = (), None
    search(stub, state)
    assert state.failed == {} and (9, 100) in stub.trained and (39, 300) in stub.trained


def test_what_is_measured_stays_where_no_time_is_left_for_a_trial_that_was_killed():
    """Ten seconds less are left than it takes, and than the next rungs take."""
    stub = Stub(fail=(9,), stop_after=41)
    stub.reason = "It ended by signal 9."
    state = SearchState({})
    with pytest.raises(KeyboardInterrupt):
        search(stub, state)
    assert [number for number in range(41) if state.at(number, 100)] == [*range(9), *range(10, 41)]
    state.rungs = state.rungs[:1]
    stub.fail, stub.left = (), None
    state.seconds = 1700.0 - state.plan.seconds_after(0, 40, Cost(10.0, 0.1)) - 10.0
    search(stub, state)
    assert "No time is left for 1 of the trials with 100 steps." in stub.said
    assert (40, 300) in stub.trained and state.rungs[0] == [number for number in range(41) if number != 9]


def test_what_does_not_fit_into_the_time_is_not_begun():
    """A step of other trials takes four times as long: some are left out, and later rungs have their time."""
    stub = Stub(step=lambda number: 0.4 if number else 0.1)
    state = search(stub, seconds=1700.0)
    assert state.plan.drawn == 40
    first = [trial for trial, steps in stub.trained if steps == 100]
    assert 1 < len(first) < 41 and state.rungs[0] == first
    assert (0, 900) in stub.trained and len([trial for trial, steps in stub.trained if steps == 900]) >= 2
    assert state.seconds <= 1700
    assert f"No time is left for {41 - len(first)} of the trials with 100 steps." in stub.said
    before = list(stub.trained)
    search(stub, state)
    assert stub.trained == before


def test_the_recipe_is_trained_whatever_it_takes():
    stub = Stub(step=lambda number: 50.0 if number else 0.1)
    search(stub)
    assert [steps for trial, steps in stub.trained if trial == 0] == [100, 300, 900]


def test_too_few_minutes_are_told_with_those_that_are_needed():
    stub, state = Stub(), SearchState({})
    with pytest.raises(ValueError) as told:
        search(stub, state, seconds=60.0)
    assert str(told.value) == (
        "--minutes=1 is too short for a search. The first 100 steps took 10 seconds, and starting and evaluating "
        "took 10 seconds. The smallest search trains the default settings for 300 steps, and 2 alternatives: all of "
        "them for 100 steps, the best 1 for 300 steps. Set --minutes=3 or more."
    )
    # In another folder, or in this one: what it has measured stays.
    assert stub.trained == [(0, 100)]
    assert search(stub, state, seconds=180.0).plan.lengths == (100, 300)


def test_a_recipe_that_failed_is_tried_again():
    """As one whose weights could not be downloaded."""
    state = SearchState({})
    with pytest.raises(ValueError, match="the loss is NaN"):
        search(Stub(fail=(0,)), state)
    assert search(Stub(), state).failed == {} and state.at(0, LONGEST)
