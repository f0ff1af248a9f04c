"""How a search divides its time, the settings that it tries, and its folder."""

import json

import pytest

from tfdml import registry
from tfdml.console import flags
from tfdml.console.flags import RECIPE
from tfdml.files.checked import locked
from tfdml.run.tuning.state import (
    PLANNED,
    SPACE,
    Cost,
    Plan,
    RungScore,
    SearchDirectory,
    TooShort,
    draw,
    make_plan,
    shortest,
)

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
    assert of_three.in_words() == (
        "the default settings for 900 steps, and 9 alternatives: all of them for 100 steps, the best 3 for 300 steps, "
        "the best 1 for 900 steps"
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


def test_with_a_single_rung_all_trials_are_as_long():
    one = ((1, 5),)
    assert make_plan(1e9, QUICK, 50, 2000, 5, one) == Plan((2000,), 5)
    assert make_plan(300, QUICK, 50, 2000, 5, one) == Plan((350,), 5)
    with pytest.raises(TooShort):
        make_plan(90, QUICK, 50, 2000, 5, one)


def test_lengths_are_multiples_of_an_epoch_up_to_the_longest():
    assert plan(1e9, epoch=2, longest=12) == Plan((4, 12), 100)
    assert plan(1e9, epoch=7, longest=300) == Plan((28, 84, 252), 100)


def test_too_little_time_is_told_with_what_is_needed():
    with pytest.raises(TooShort) as told:
        plan(100)
    assert told.value.plan == Plan((100, 300), 2)
    assert told.value.needed == pytest.approx((4 * 10 + 0.1 * (2 * 100 + 2 * 200)) / PLANNED)
    assert plan(told.value.needed) == told.value.plan


FIRST = flags.resolve([f"--{name}={value}" for name, value in RECIPE.items()])


def test_draws_are_random_and_each_comes_once():
    drawn = draw(FIRST, [], seed=0)
    assert len(drawn) == 6 * 3 * 2 * 3 * 3 - 1
    assert len({tuple(sorted(each.items())) for each in drawn}) == len(drawn)
    # The recipe itself is the first trial.
    assert {} not in drawn
    assert draw(FIRST, [], seed=0) == drawn != draw(FIRST, [], seed=1)
    losses = [each.get("loss", FIRST["loss"]) for each in drawn[:60]]
    assert {losses.count(loss) > 2 for loss in set(losses)} == {True} and len(set(losses)) == 6


def test_a_draw_says_only_what_it_changes():
    (changes,) = [each for each in draw(FIRST, [], seed=0) if "proxy_nca" in each.get("loss", "") and len(each) == 2]
    assert changes == {"loss": "--loss=proxy_nca(scale=16.0)", "lr_multipliers": "--lr_multipliers=loss=100"}


def test_given_flags_stay():
    drawn = draw(FIRST, ["loss", "image_size"], seed=0)
    assert len(drawn) == 3 * 2 * 3 - 1 and not any({"loss", "image_size"} & set(each) for each in drawn)
    assert not any("lr_multipliers" in each for each in draw(FIRST, ["lr_multipliers"], seed=0))
    assert draw(FIRST, list(SPACE), seed=0) == []


@pytest.mark.parametrize("kind, flag", [("loss", "loss"), ("optimizer", "optimizer")])
def test_what_is_tried_can_be_made(kind, flag):
    for choice in SPACE[flag]:
        registry.create(kind, choice[flag], classes=4, learning_rate=0.1)
    assert RECIPE[flag] in [choice[flag] for choice in SPACE[flag]]


def test_every_choice_is_a_flag_of_training():
    for choices in SPACE.values():
        for choice in choices:
            flags.resolve([f"--{name}={value}" for name, value in choice.items()])


MEASURED = {"trial": 0, "steps": 4, "score": 0.5, "interval": None, "cost": None}
FLAGS = {"loss": "--loss=triplet", "minutes": "--minutes=30"}


@pytest.fixture
def folder(tmp_path):
    return SearchDirectory(tmp_path / "runs" / "tune")


def test_a_state_is_read_as_it_was_written(folder):
    with folder.claimed(FLAGS) as state:
        state.seconds, state.metric = 12.5, "recall_at_1"
        state.plan, state.changes = Plan((4, 12), 2), [{}, {"loss": "--loss=circle"}, {}]
        state.rungs, state.failed = [[0, 1, 2]], {2: "NaN"}
        state.measured = [RungScore(0, 4, 0.5, [0.4, 0.6], Cost(2.0, 0.1)), RungScore(1, 4, 0.75, None, None)]
        folder.write(state)
    with folder.claimed(FLAGS) as again:
        assert again == state
    assert [each.trial for each in again.ranked()] == [1, 0]
    assert again.last(2) is None and again.at(0, 12) is None and again.at(0, 4).score == 0.5


def test_what_is_not_damaged_is_read(folder):
    with folder.claimed(FLAGS):
        pass
    file = folder.path / "tune.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "measured": [MEASURED]}))
    with folder.claimed(FLAGS) as state:
        assert state.measured == [RungScore(0, 4, 0.5, None, None)]


def test_another_search_is_refused(folder):
    with folder.claimed(FLAGS) as state:
        state.plan = Plan((4, 12), 2)
        folder.write(state)
    with pytest.raises(ValueError, match=r"other flags \(--minutes=30 there, --minutes=9 now\). Use the same"):
        with folder.claimed({**FLAGS, "minutes": "--minutes=9"}):
            pass


def test_until_it_is_planned_a_search_may_have_more_time(folder):
    for minutes in ("--minutes=2", "--minutes=9"):
        with folder.claimed({**FLAGS, "minutes": minutes}) as state:
            assert state.flags["minutes"] == minutes
    with pytest.raises(ValueError, match="--loss=triplet there, --loss=circle now"):
        with folder.claimed({**FLAGS, "loss": "--loss=circle"}):
            pass


def test_other_folders_are_refused(folder):
    folder.path.mkdir(parents=True)
    (folder.path / "photo.jpg").touch()
    with pytest.raises(ValueError, match="exists but is not a tfdml search directory. Use a new or empty folder"):
        with folder.claimed(FLAGS):
            pass
    assert [entry.name for entry in folder.path.iterdir()] == ["photo.jpg"]


def test_a_search_whose_first_write_fails_begins_again(folder, monkeypatch):
    def full(*given):
        raise OSError("No space left on device")

    with monkeypatch.context() as context:
        context.setattr("tfdml.run.tuning.state.write_manifest", full)
        with pytest.raises(OSError, match="No space left"):
            with folder.claimed(FLAGS):
                pass
    with folder.claimed(FLAGS) as state:
        assert state.flags == FLAGS and folder.trial(0).parent.is_dir()


def test_a_folder_is_one_processs_alone(folder):
    folder.path.mkdir(parents=True)
    with locked(folder.path, "search"):
        with pytest.raises(ValueError, match="Another process is changing the search"):
            with folder.claimed(FLAGS):
                pass


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content.pop("measured"),
        lambda content: content.update(plan={"lengths": 3}),
        lambda content: content.update(measured=[{"trial": 1}]),
        lambda content: content.update(rungs=[[0]]),
        lambda content: content.update(plan={"lengths": [4], "drawn": 2}, rungs=[[0, 1]]),
        lambda content: content.update(plan={"lengths": [], "drawn": 2}),
        lambda content: content.update(seconds=float("nan")),
        lambda content: content.update(failed={"7": "NaN"}),
        lambda content: content.update(changes=[{}, {"loss": "--import_modules=theirs"}]),
        lambda content: content.update(changes=[{}, {"dataset": "--dataset=photos"}]),
        lambda content: content.update(changes=[{}, {"import_modules": "--import_modules=theirs"}]),
        lambda content: content.update(changes=[{}, {"loss": "--loss=circle\n--import_modules=theirs"}]),
        lambda content: content.update(measured=[{**MEASURED, "score": "0.5"}]),
        lambda content: content.update(measured=[{**MEASURED, "trial": 1}]),
        lambda content: content.update(measured=[{**MEASURED, "cost": {"start": 1.0, "step": None}}]),
    ],
)
def test_damage_is_told(folder, damage):
    with folder.claimed(FLAGS):
        pass
    file = folder.path / "tune.json"
    content = json.loads(file.read_text())
    damage(content)
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="tune.json is damaged: an entry is missing or wrong"):
        with folder.claimed(FLAGS):
            pass


def test_a_link_is_not_followed(folder, tmp_path):
    folder.path.mkdir(parents=True)
    with folder.claimed(FLAGS):
        pass
    (folder.path / "trials").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (folder.path / "trials").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link that leads out of the search"):
        folder.log(0)
