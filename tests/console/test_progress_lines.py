"""Lines that tell how far training is."""

import re

import keras
import numpy as np

from tfdml.console.progress_bar import ProgressBar
from tfdml.console.progress_lines import ProgressLines


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
    model().predict(np.ones((4, 2)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=0.0)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["embedded batch 1/2", "embedded batch 2/2"]
    assert lines[1].endswith(" a second, 0 s left")


def test_soon_there_is_none(capsys):
    model().fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=1e6)])
    assert capsys.readouterr().out == ""


def test_lines_of_all_work_come_every_ten_seconds():
    assert ProgressLines().every == ProgressBar(3, "image").every == 10.0
