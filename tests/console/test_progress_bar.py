"""Progress of work that counts things."""

import pytest

from tfdml.console import progress_bar
from tfdml.console.progress_bar import ProgressBar


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [100.0]
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now[0])
    return now


def test_a_line_every_few_seconds_with_speed_and_time_left(clock, capsys):
    bar = ProgressBar(6000, "image", done=1000, every=5.0)
    for _ in range(4):
        clock[0] += 3.0
        bar.add(30)
    assert capsys.readouterr().out.splitlines() == [
        "1,060/6,000 images, 10 a second, 8 min left",
        "1,120/6,000 images, 10 a second, 8 min left",
    ]
    bar.add(4000)
    clock[0] += 30.0
    bar.add(0)
    assert capsys.readouterr().out == "5,120/6,000 images, 105 a second, 8 s left\n"


def test_without_a_total_or_anything_done(clock, capsys):
    bar = ProgressBar(None, "file")
    clock[0] += 10.0
    bar.add(0)
    bar.add(20)
    clock[0] += 9.0
    bar.add(9)
    assert capsys.readouterr().out == "0 files\n"
    clock[0] += 1.0
    bar.add(1)
    assert capsys.readouterr().out == "30 files, 1 a second\n"


def test_the_first_part_which_makes_the_graph_is_left_out(clock, capsys):
    bar = ProgressBar(100, "image", every=1.0)
    clock[0] += 60.0
    bar.add(10)
    clock[0] += 2.0
    bar.add(10)
    assert capsys.readouterr().out.splitlines() == ["10/100 images", "20/100 images, 5 a second, 16 s left"]


def test_a_bar_in_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    bar = ProgressBar(3, "image")
    bar.add(3)
    assert "3/3" in capsys.readouterr().out


def test_nothing_where_nothing_is_wanted(clock, capsys):
    bar = ProgressBar(3, "image", verbose=0)
    clock[0] += 50.0
    bar.add(2)
    assert capsys.readouterr().out == ""
