"""Which epochs a callback takes for one that a resumed run goes on with."""

import keras
import numpy as np

from tfdml.callbacks.base import EmbeddingCallback


class Told(EmbeddingCallback):
    """Keeps what it is told of each epoch."""

    def begin_epoch(self, epoch, goes_on):
        self.told = [*getattr(self, "told", []), goes_on]


def test_only_the_first_epoch_of_a_fit_can_go_on():
    """Steps are not counted where gradients are accumulated, or a scaled loss has overflowed."""
    images, taken = np.ones((4, 2), "float32"), [5]
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse", run_eagerly=True)
    callback = Told(images, steps_per_epoch=2, step=lambda: taken[0])
    for expected in ([True, False, False], [True, False, False, True, False, False]):
        model.fit(images, images[:, :1], batch_size=2, epochs=3, callbacks=[callback], verbose=0)
        assert callback.told == expected
    taken[0] = 6
    model.fit(images, images[:, :1], batch_size=2, callbacks=[callback], verbose=0)
    assert callback.told[-1] is False
