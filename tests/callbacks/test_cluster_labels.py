import keras
import numpy as np
import pytest

import tfdml
from pipelines.sampling import PseudoClasses, PxK
from tfdml.callbacks import ClusterLabels
from tfdml.callbacks.base import EmbeddingCallback
from tfdml.neighbors.clustering import kmeans

# Four kinds of images, which any network tells apart.
KINDS = np.arange(32) % 4
IMAGES = (np.random.default_rng(0).normal(size=(4, 8, 8, 3))[KINDS] * 3).astype(np.float32)
IMAGES += 0.05 * np.random.default_rng(1).normal(size=IMAGES.shape).astype(np.float32)


def callback(every=1, clusters=4, seed=0):
    keras.utils.set_random_seed(seed)
    model = tfdml.Single(keras.Sequential([keras.layers.Conv2D(8, 3)]), embedding_size=6)
    sampler = PseudoClasses(PxK(2, 2))
    sampler.bind(np.random.default_rng(0).permutation(32) % clusters)
    made = ClusterLabels(IMAGES, sampler, clusters, every=every)
    made.set_model(model)
    return made


def test_labels_are_the_clusters_of_the_embeddings():
    made = callback()
    made.on_epoch_begin(0)
    expected = kmeans(made.model.predict(IMAGES, verbose=0), 4, seed=0, iterations=20)[0]
    np.testing.assert_array_equal(made.assignment, expected)
    np.testing.assert_array_equal(made.sampler.tables()[0], expected)
    assert len(set(zip(expected.tolist(), KINDS.tolist(), strict=True))) == 4
    assert made.finding() == {"epoch": 0, "smallest": 8, "largest": 8}


def test_every_nth_epoch_clusters_keep_their_numbers():
    made = callback(every=2)
    made.on_epoch_begin(0)
    first = made.assignment
    # Numbers that another round would give otherwise.
    made.assignment = (first + 1) % 4
    made.on_epoch_begin(1)
    assert made.finding()["epoch"] == 0
    made.on_epoch_begin(2)
    np.testing.assert_array_equal(made.assignment, (first + 1) % 4)
    assert made.finding()["changed"] == 0.0


def test_a_state_restores_the_labels():
    made, other = callback(), callback(seed=1)
    made.on_epoch_begin(0)
    other.set_state(made.get_state())
    np.testing.assert_array_equal(other.sampler.tables()[0], made.assignment)
    # An epoch that a run goes on with keeps them.
    other.begin_epoch(0, goes_on=True)
    np.testing.assert_array_equal(other.assignment, made.assignment)


def test_clusters_without_batches_are_told():
    made = callback()
    made.sampler.sampler.classes = 5
    with pytest.raises(
        ValueError, match="cannot draw batches from the 4 clusters of epoch 1: pxk.classes=5. needs that many"
    ):
        made.on_epoch_begin(0)


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
