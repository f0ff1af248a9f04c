"""How a search divides its time."""

import pytest

from tfdml.run.tuning.state import PLANNED, Cost, Plan, TooShort, make_plan, shortest

QUICK = Cost(start=10.0, step=0.1)


def plan(left, cost=QUICK, epoch=50, longest=2000, most=100):
    found = make_plan(left, cost, epoch, longest, most)
    assert found.seconds(cost, shortest(epoch)) <= PLANNED * left
    return found


def test_what_a_plan_takes():
    """Processes: the recipe and 9 others, the recipe and 3, the recipe and 1."""
    of_three = Plan((100, 300, 900), 9)
    assert of_three.counts() == [9, 3, 1]
    assert of_three.steps() == 10 * 100 + 4 * 200 + 2 * 600
    assert of_three.seconds(QUICK) == pytest.approx(16 * 10 + 0.1 * of_three.steps())
    # The recipe has begun, and needs no process for its first rung.
    assert of_three.seconds(QUICK, begun=100) == pytest.approx(of_three.seconds(QUICK) - 10 - 10)
    assert of_three.seconds(QUICK, begun=50) == pytest.approx(of_three.seconds(QUICK) - 5)
    assert of_three.seconds_after(1, 3, QUICK) == pytest.approx(2 * (10 + 60))
    assert of_three.seconds_after(2, 1, QUICK) == 0
    assert of_three.told() == (
        "the recipe for 900 steps, and beside it 9 for 100 steps, the best 3 for 300 steps, the best 1 for 900 steps"
    )


def test_more_time_makes_more_trials():
    assert plan(112) == Plan((100, 300), 2)
    assert plan(260) == Plan((100, 300), 7)
    # Before there is a third rung there are 40.
    assert plan(1640) == Plan((100, 300), 50)
    assert plan(1660) == Plan((100, 300, 900), 40)
    counts = [plan(seconds).drawn for seconds in range(1660, 4500, 50)]
    assert counts == sorted(counts) and counts[-1] == 100


def test_a_first_rung_is_not_much_shorter_than_the_start_of_a_process():
    """Of 40 seconds, 200 steps of 0.1 seconds are half, and longer ones do not fit into 2,000 steps."""
    slow = Cost(start=20.0, step=0.1)
    assert plan(4000, slow).lengths == (200, 600, 1800)
    assert plan(4000, Cost(start=15.0, step=0.1)).lengths == (150, 450, 1350)
    assert plan(6000, Cost(start=40.0, step=0.1)).lengths == (200, 600, 1800)
    # Where there is no time for that it is shorter.
    assert plan(200, slow) == Plan((100, 300), 3)


def test_where_all_that_can_be_chosen_fits_trials_are_longer():
    assert plan(1e9) == Plan((200, 600, 1800), 100)
    assert plan(1e9, most=5) == Plan((650, 1950), 5)
    assert plan(1e9, most=1) == Plan((2000,), 1)
    assert plan(600, most=5) == Plan((500, 1500), 5)


def test_lengths_are_multiples_of_an_epoch_up_to_the_longest():
    assert plan(1e9, epoch=2, longest=12) == Plan((4, 12), 100)
    assert plan(1e9, epoch=7, longest=300) == Plan((28, 84, 252), 100)


def test_too_little_time_is_told_with_what_is_needed():
    with pytest.raises(TooShort) as told:
        plan(100)
    assert told.value.plan == Plan((100, 300), 2)
    assert told.value.needed == pytest.approx((4 * 10 + 0.1 * (2 * 100 + 2 * 200)) / PLANNED)
    assert plan(told.value.needed) == told.value.plan
