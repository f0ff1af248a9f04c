"""Lines that tell how far training is."""

import re

import keras
import numpy as np
import pytest

from tfdml.console.progress_bar import ProgressBar
from tfdml.console.progress_lines import EpochProgress, ProgressLines


def model():
    made = keras.Sequential([keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def test_each_batch_that_comes_later_gets_a_line(capsys):
    model().fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=0.0)])
    first, second = capsys.readouterr().out.splitlines()
    # The first one makes the graph, which takes many times as long.
    assert re.fullmatch(r"step 1/2 - loss: [\d.]+", first)
    assert re.fullmatch(r"step 2/2, [\d.,e+]+ a second, 0 s left - loss: [\d.]+", second)


def test_a_pass_over_images_too(capsys):
    model().predict(np.ones((4, 2)), batch_size=2, verbose=0, callbacks=[ProgressLines(0.0, "4 test images")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "embedded batch 1/2 of 4 test images",
        "embedded batch 2/2 of 4 test images",
    ]
    assert lines[1].endswith(" a second, 0 s left")


class Measured(keras.callbacks.Callback):
    """Adds the metrics of a run to the logs of each second epoch."""

    def on_epoch_end(self, epoch, logs=None):
        logs.update({"gradient_norm": 2.0, "active": 0.5})
        if epoch % 2:
            names = ("recall_at_1", "recall_at_2", "map_at_r", "nmi")
            logs.update({f"validation_{name}": 0.1 * place for place, name in enumerate(names)})


@pytest.mark.parametrize("monitor, shown", [("recall_at_1", ["recall_at_1", "map_at_r"]), ("nmi", ["nmi", "map_at_r"])])
def test_the_line_of_an_epoch_has_three_metrics(capsys, monitor, shown):
    callbacks = [Measured(), EpochProgress("validation", monitor)]
    model().fit(np.ones((4, 2)), np.ones((4, 1)), epochs=2, verbose=2, callbacks=callbacks)
    one, other = [line for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert re.findall(r" - (\w+): ", one) == ["loss"]
    assert re.findall(r" - (\w+): ", other) == ["loss", *(f"validation_{name}" for name in shown)]


def test_a_run_that_measures_other_metrics_shows_the_first(capsys):
    class Other(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs.update({"test_alignment": 0.1, "test_uniformity": 0.2, "test_effective_rank": 3.0})

    callbacks = [Other(), EpochProgress("test", "uniformity")]
    model().fit(np.ones((4, 2)), np.ones((4, 1)), verbose=2, callbacks=callbacks)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "loss" in line]
    assert re.findall(r" - (\w+): ", line) == ["loss", "test_uniformity", "test_alignment"]


def test_soon_there_is_none(capsys):
    model().fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=1e6)])
    assert capsys.readouterr().out == ""


def test_lines_of_all_work_come_every_ten_seconds():
    assert ProgressLines().every == ProgressBar(3, "image").every == 10.0
