"""Lines that tell how far training is."""

import keras
import numpy as np

from tfdml.progress_lines import ProgressLines


def model():
    made = keras.Sequential([keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def test_each_batch_that_comes_later_gets_a_line(capsys):
    model().fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=0.0)])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("step 1/2 - loss: ") and second.startswith("step 2/2 - loss: ")


def test_a_pass_over_images_too(capsys):
    model().predict(np.ones((4, 2)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=0.0)])
    assert capsys.readouterr().out.splitlines() == ["embedded batch 1/2", "embedded batch 2/2"]


def test_soon_there_is_none(capsys):
    model().fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2, verbose=0, callbacks=[ProgressLines(every=1e6)])
    assert capsys.readouterr().out == ""
