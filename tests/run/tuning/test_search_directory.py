"""The folder of a search."""

import json

import pytest

from tfdml.files.checked import locked
from tfdml.run.tuning.state import Cost, Plan, RungScore, SearchDirectory

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
    with pytest.raises(ValueError, match=r"other flags \(--minutes=30 there, --minutes=9 now\). Give the same"):
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
    with pytest.raises(ValueError, match="exists and is no search of tfdml; give a new or empty folder"):
        with folder.claimed(FLAGS):
            pass
    assert [entry.name for entry in folder.path.iterdir()] == ["photo.jpg"]


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
        lambda content: content.update(failed=[1]),
        lambda content: content.update(seconds="many"),
        lambda content: content.update(flags=None),
        lambda content: content.update(changes=[["--loss=circle"]]),
        lambda content: content.update(rungs=[0]),
        lambda content: content.update(rungs=[[0]]),
        lambda content: content.update(plan={"lengths": [4], "drawn": 2}, rungs=[[0, 1]]),
        lambda content: content.update(plan={"lengths": [4, "12"], "drawn": 2}),
        lambda content: content.update(plan={"lengths": [], "drawn": 2}),
        lambda content: content.update(seconds=float("nan")),
        lambda content: content.update(metric=3),
        lambda content: content.update(failed={"7": "NaN"}),
        lambda content: content.update(changes=[{}, {"loss": "--import_modules=theirs"}]),
        lambda content: content.update(changes=[{}, {"import_modules": "--import_modules=theirs"}]),
        lambda content: content.update(changes=[{}, {"loss": "--loss=circle\n--import_modules=theirs"}]),
        lambda content: content.update(measured=[{**MEASURED, "score": "0.5"}]),
        lambda content: content.update(measured=[{**MEASURED, "trial": 1}]),
        lambda content: content.update(measured=[{**MEASURED, "interval": [0.1]}]),
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
    with pytest.raises(ValueError, match="is a link out of the search"):
        folder.log(0)
