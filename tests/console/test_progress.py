"""Progress of work that counts things, and of training."""

import re

import keras
import numpy as np
import pytest

from tfdml.console import progress_bar
from tfdml.console.progress_bar import ProgressBar
from tfdml.console.progress_lines import EpochProgress, ProgressLines


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
        "1,060/6,000 images, 10 per second, 8 min left",
        "1,120/6,000 images, 10 per second, 8 min left",
    ]
    bar.add(4000)
    clock[0] += 30.0
    bar.add(0)
    assert capsys.readouterr().out == "5,120/6,000 images, 105 per second, 8 s left\n"


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
    assert capsys.readouterr().out == "30 files, 1 per second\n"


def test_the_first_part_which_makes_the_graph_is_left_out(clock, capsys):
    bar = ProgressBar(100, "image", every=1.0)
    clock[0] += 60.0
    bar.add(10)
    clock[0] += 2.0
    bar.add(10)
    assert capsys.readouterr().out.splitlines() == ["10/100 images", "20/100 images, 5 per second, 16 s left"]


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


def model():
    made = keras.Sequential([keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def test_each_batch_that_comes_later_gets_a_line(capsys):
    model().fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=0.0)])
    first, second = capsys.readouterr().out.splitlines()
    # The first one makes the graph, which takes many times as long.
    assert re.fullmatch(r"step 1/2 - loss: [\d.]+", first)
    assert re.fullmatch(r"step 2/2, [\d.,e+]+ per second, 0 s left - loss: [\d.]+", second)


def test_a_pass_over_images_too(capsys):
    model().predict(np.ones((4, 2)), batch_size=2, verbose=0, callbacks=[ProgressLines(0.0, "4 test images")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "embedded batch 1/2 of 4 test images",
        "embedded batch 2/2 of 4 test images",
    ]
    assert lines[1].endswith(" per second, 0 s left")


class Measured(keras.callbacks.Callback):
    """Adds the metrics of a run to the logs of each second epoch."""

    def on_epoch_end(self, epoch, logs=None):
        logs.update({"gradient_norm": 2.0, "active": 0.5})
        if epoch % 2:
            names = ("recall_at_1", "recall_at_2", "map_at_r", "nmi")
            logs.update({f"validation_{name}": 0.1 * place for place, name in enumerate(names)})


@pytest.mark.parametrize(
    "monitor, shown",
    [("recall_at_1", "validation: Recall@1 0.0%, MAP@R 20.0%"), ("nmi", "validation: NMI 0.300, MAP@R 20.0%")],
)
def test_two_scores_follow_the_loss_of_an_epoch_that_is_evaluated(capsys, monitor, shown):
    callbacks = [Measured(), EpochProgress("validation", monitor)]
    model().fit(np.ones((4, 2)), np.ones((4, 1)), epochs=2, verbose=2, callbacks=callbacks)
    _, one, _, other, scores = capsys.readouterr().out.splitlines()
    assert re.findall(r" - (\w+): ", one) == re.findall(r" - (\w+): ", other) == ["loss"]
    assert scores == shown


def test_a_run_that_measures_other_metrics_shows_the_first(capsys):
    class Other(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs.update({"test_alignment": 0.1, "test_uniformity": 0.2, "test_effective_rank": 3.0})

    callbacks = [Other(), EpochProgress("test", "uniformity")]
    model().fit(np.ones((4, 2)), np.ones((4, 1)), verbose=2, callbacks=callbacks)
    assert capsys.readouterr().out.splitlines()[-1] == "test: uniformity 0.200, alignment 0.100"


def test_soon_there_is_none(capsys):
    model().fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=1e6)])
    assert capsys.readouterr().out == ""
