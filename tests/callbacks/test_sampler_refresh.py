"""A sampler's tables follow the embedding."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.sampling import HardNeighbors
from tests.callbacks.test_recluster import Log
from tests.commands import Forked
from tests.loss_specs import LOSS_SPECS
from tests.methods.test_every_method import OPTIONS
from tests.run_helpers import assert_same_run, assert_went_on, events, result, steps, train, train_flags
from tfdml.backbones import Small
from tfdml.callbacks import SamplerRefresh
from tfdml.neighbors.nearest import nearest_negatives
from tfdml.registry import create, names

LABELS, STEPS = np.repeat(np.arange(8), 4), 3
IMAGES = np.random.default_rng(0).normal(size=(len(LABELS), 8, 8, 3)).astype(np.float32)


class Watch(keras.callbacks.Callback):
    """The table that each epoch trains with, and the neighbors by the embeddings at its beginning."""

    def __init__(self, sampler):
        super().__init__()
        self.sampler = sampler
        self.tables, self.neighbors = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.tables.append(self.sampler.refreshed()[0].numpy())
        self.neighbors.append(nearest_negatives(self.model.predict(IMAGES, verbose=0), LABELS, 2))


def fit(epochs, *, first=0, steps_before=0, state=None, every=2, seed=0):
    """Trains on arrays by the sampler's arithmetic, with steps of the first epoch taken before; gives the callbacks."""
    keras.utils.set_random_seed(seed)
    model = tfdml.Single(keras.Sequential([keras.layers.Conv2D(8, 3, activation="relu")]), embedding_size=6)
    model.compile(keras.optimizers.Adam(0.01), loss="lifted_structure")
    sampler = HardNeighbors(pairs=2, neighbors=2, refresh_every=every)
    sampler.bind(LABELS)
    log = Log()
    taken = [first * STEPS + steps_before]
    where = {"step": lambda: taken[-1], "steps_per_epoch": STEPS}
    refresh, watch = SamplerRefresh(IMAGES, sampler, log=log, **where), Watch(sampler)
    count = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: taken.append((epoch + 1) * STEPS))
    if state:
        saved, tables = state
        for variable, table in zip(refresh.variables, tables, strict=True):
            variable.assign(table)
        refresh.set_state(saved)
    drawn = tf.function(sampler.rows, autograph=False)

    def epoch():
        for rows in drawn(0, tf.range(STEPS, dtype=tf.int64)):
            yield tf.gather(IMAGES, rows), tf.gather(LABELS, rows)

    signature = (tf.TensorSpec([8, *IMAGES.shape[1:]], tf.float32), tf.TensorSpec([8], tf.int64))
    data = tf.data.Dataset.from_generator(epoch, output_signature=signature)
    data = data.apply(tf.data.experimental.assert_cardinality(STEPS))
    model.fit(data, epochs=epochs, initial_epoch=first, verbose=0, callbacks=[refresh, watch, count])
    return refresh, watch, log


@pytest.mark.slow
def test_after_every_n_epochs_the_tables_are_those_of_the_model_then():
    refresh, watch, log = fit(epochs=5)
    assert np.all(watch.tables[0] == -1) and np.all(watch.tables[1] == -1)
    for epoch in (2, 3, 4):
        np.testing.assert_array_equal(watch.tables[epoch], watch.neighbors[epoch // 2 * 2])
    np.testing.assert_array_equal(refresh.variables[0].numpy(), watch.tables[4])
    assert [(event, step) for event, step, _ in log.events] == [("sampler", 2 * STEPS), ("sampler", 4 * STEPS)]
    assert log.events[0][2] == {"changed": 1.0}
    changed = np.mean(watch.tables[4] != watch.tables[2])
    assert refresh.finding() == {"epoch": 4, "changed": changed} and log.events[1][2] == {"changed": changed}


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(
    "method, loss",
    [
        *((method, "triplet") for method in sorted(names("method"))),
        *(
            ("single", LOSS_SPECS.get(loss, [loss])[0].replace("classes=7", "classes=8"))
            for loss in names("loss")
            if LOSS_SPECS.get(loss, [loss])
        ),
    ],
)
def test_every_method_and_every_loss_learns_from_hard_neighbors(method, loss):
    model = create("method", method, backbone=Small(width=2, stages=2), embedding_size=4, **OPTIONS[method])
    model.compile("sgd", loss=loss)
    sampler = model.wrap_sampler(HardNeighbors(pairs=2, neighbors=2, refresh_every=1))
    sampler.bind(LABELS)
    where = {"step": lambda: int(model.optimizer.iterations), "steps_per_epoch": 1}
    refresh = SamplerRefresh(IMAGES, sampler, **where)
    for epoch in range(2):
        rows = sampler.rows(0, [epoch])[0].numpy()
        model.fit(
            *(each[rows] for each in (IMAGES, LABELS)),
            batch_size=8,
            initial_epoch=epoch,
            epochs=epoch + 1,
            verbose=0,
            callbacks=[refresh],
        )
    neighbors = refresh.variables[0].numpy()
    assert np.all(neighbors >= 0) and np.all(LABELS[neighbors] != LABELS[:, None])
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


@pytest.mark.nightly
def test_a_state_goes_on_within_an_epoch_and_refreshes_at_the_next():
    before, watch, _ = fit(epochs=3, every=1)
    state = before.get_state(), [variable.numpy() for variable in before.variables]
    assert state[0]["last"]["epoch"] == 2 and state[1][0].dtype == np.int32 and state[1][0].shape == (len(LABELS), 2)
    # The weights are others now: were it to search again, the result would differ.
    again, watched, _ = fit(epochs=4, first=2, steps_before=1, state=state, every=1, seed=9)
    assert np.any(watched.neighbors[0] != watch.tables[2])
    np.testing.assert_array_equal(watched.tables[0], watch.tables[2])
    np.testing.assert_array_equal(watched.tables[1], watched.neighbors[1])
    assert again.finding()["epoch"] == 3
    # A state of an epoch's end: the next one begins with a refresh.
    _, watched, _ = fit(epochs=4, first=3, state=state, every=1, seed=9)
    np.testing.assert_array_equal(watched.tables[0], watched.neighbors[0])


@pytest.mark.slow
@pytest.mark.nightly
def test_a_killed_run_ends_with_the_same_bits(tmp_path):
    more = [
        "--sampler=hard_neighbors(pairs=4, neighbors=3, refresh_every=2)",
        "--loss=lifted_structure(margin=1.0)",
        "--steps_per_epoch=10",
        "--epochs=4",
        "--eval_every=4",
        "--checkpoint_every=3",
    ]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    done = train(straight, *more)
    assert done.returncode == 0, done.stderr
    refreshed = [event for event in events(straight) if event["event"] == "sampler"]
    assert [(event["step"], event["changed"]) for event in refreshed] == [(20, 1.0)]
    assert result(straight)["sampler"] == {"epoch": 2, "changed": 1.0}
    # Within the second epoch with the neighbors that were found at the beginning of the first.
    Forked("tfdml.train", *train_flags(killed, *more)).until(lambda: max(steps(killed), default=0) >= 33).kill()
    assert 33 <= max(steps(killed)) < 40
    done = train(killed, *more)
    assert done.returncode == 0, done.stderr
    assert_went_on(killed, done)
    assert_same_run(killed, straight)


def test_embeddings_that_are_not_finite_are_an_error():
    sampler = HardNeighbors(pairs=2)
    sampler.bind(LABELS)
    refresh = SamplerRefresh(np.where(np.arange(len(LABELS))[:, None, None, None] == 7, np.nan, IMAGES), sampler)
    refresh.set_model(tfdml.Single(keras.Sequential([keras.layers.Conv2D(8, 3)]), embedding_size=6))
    with pytest.raises(ValueError, match="1 of 32 embeddings are not finite. The first is row 7"):
        refresh.on_epoch_begin(1)
