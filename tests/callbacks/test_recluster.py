"""Divides the data again and again."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.sampling import PxK
from tfdml.neighbors.clustering import kmeans, matched, overlap

CLASSES, PER_CLASS, LEARNERS, STEPS = 12, 4, 3, 6
LABELS = np.repeat(np.arange(CLASSES), PER_CLASS)
IMAGES = np.random.default_rng(0).normal(size=(len(LABELS), 8, 8, 3)).astype(np.float32)
IMAGES += np.random.default_rng(1).normal(size=(CLASSES, 1, 1, 3))[LABELS]


class Log:
    def __init__(self):
        self.events = []

    def write(self, event, step, values):
        self.events.append((event, step, values))


def make_model(**arguments):
    keras.utils.set_random_seed(0)
    backbone = keras.Sequential([keras.layers.Conv2D(8, 3, activation="relu")])
    model = tfdml.DivideAndConquer(backbone, embedding_size=12, **{"learners": LEARNERS, **arguments})
    model.compile(keras.optimizers.Adam(0.01), loss="triplet(mining='all')")
    return model


class Watch(keras.callbacks.Callback):
    """What each epoch trains with: clusters, learners of its batches, embeddings that the clusters are of."""

    def __init__(self, recluster):
        super().__init__()
        self.recluster = recluster
        self.epochs, self.embeddings = [], []

    def on_epoch_begin(self, epoch, logs=None):
        self.embeddings.append(self.model.predict(IMAGES, verbose=0))
        steps = epoch * STEPS + np.arange(STEPS)
        learners = self.recluster.sampler.learners(0, steps).numpy()
        assignment = self.recluster.assignment
        self.epochs.append((None if assignment is None else assignment.copy(), learners))


def train(model, epochs, state=None, first=0):
    """Trains on arrays by the samplers' arithmetic, from within the first epoch if there is a state; the callbacks."""
    sampler = model.wrap_sampler(PxK(classes=2, per_class=2))
    sampler.bind(LABELS)
    log = Log()
    taken = [first * STEPS + (state is not None)]
    where = {"step": lambda: taken[-1], "steps_per_epoch": STEPS}
    recluster = tfdml.callbacks.Recluster(IMAGES, LABELS, sampler, seed=5, log=log, **where)
    if state:
        recluster.set_state(state)
    watch = Watch(recluster)
    step = tf.Variable(first * STEPS, dtype=tf.int64)
    drawn = tf.function(lambda steps: (sampler.rows(0, steps), sampler.learners(0, steps)), autograph=False)

    def epoch():
        for rows, turn in zip(*drawn(step + tf.range(STEPS, dtype=tf.int64)), strict=True):
            yield tf.gather(IMAGES, rows), {"label": tf.gather(LABELS, rows), "learner": tf.repeat(turn, 4)}

    of_batch = tf.TensorSpec([4], tf.int64)
    signature = (tf.TensorSpec([4, *IMAGES.shape[1:]], tf.float32), {"label": of_batch, "learner": of_batch})
    data = tf.data.Dataset.from_generator(epoch, output_signature=signature)
    data = data.apply(tf.data.experimental.assert_cardinality(STEPS))
    count = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: (step.assign_add(STEPS), taken.append((epoch + 1) * STEPS))
    )
    model.fit(data, epochs=epochs, initial_epoch=first, verbose=0, callbacks=[recluster, watch, count])
    return recluster, watch, log


@pytest.mark.nightly
def test_k_means_has_the_iterations_and_restarts_of_the_method(monkeypatch):
    given = []

    def noted(*arguments, **options):
        given.append(options)
        return kmeans(*arguments, **options)

    monkeypatch.setattr("tfdml.callbacks.clusters.kmeans", noted)
    train(make_model(iterations=2, restarts=3), epochs=1)
    assert given == [{"seed": 5, "iterations": 2, "restarts": 3}]


@pytest.mark.slow
def test_algorithm_1():
    recluster, watch, log = train(make_model(recluster_every=2, merge_at=4), epochs=5)
    assignments, learners = zip(*watch.epochs, strict=True)
    first, _ = kmeans(watch.embeddings[0], LEARNERS, seed=5)
    np.testing.assert_array_equal(assignments[0], first)
    np.testing.assert_array_equal(assignments[1], first)
    second = matched(first, kmeans(watch.embeddings[2], LEARNERS, seed=5)[0], LEARNERS)
    np.testing.assert_array_equal(assignments[2], second)
    np.testing.assert_array_equal(assignments[3], second)
    assert all(set(each) == {0, 1, 2} for each in learners[:4]) and set(learners[4]) == {-1}
    last = recluster.history[-1]
    assert last["epoch"] == 2 and last["sizes"] == np.bincount(second, minlength=LEARNERS).tolist()
    np.testing.assert_allclose(last["iou"], np.diag(overlap(first, second, LEARNERS)))
    assert last["changed"] == pytest.approx(np.mean(first != second))
    names = [event for event, _, _ in log.events]
    assert names == ["clusters", "learners", "learners", "clusters", "learners", "learners"]
    assert log.events[3][2].keys() >= {"size_of_learner_0", "left_out", "iou", "changed"}
    assert log.events[1][2].keys() == {"loss_of_learner_0", "loss_of_learner_1", "loss_of_learner_2"}


@pytest.mark.nightly
@pytest.mark.slow
def test_plain_epochs_first_and_a_loss_that_merges_before_the_data():
    _, watch, _ = train(make_model(divide_at=1, recluster_every=1, merge_loss_at=2, merge_at=3), epochs=4)
    assignments, learners = zip(*watch.epochs, strict=True)
    assert assignments[0] is None and set(learners[0]) == {-1}
    assert set(learners[1]) == {0, 1, 2}
    assert set(learners[2]) == {-1} and np.any(assignments[2] != assignments[1])
    assert set(learners[3]) == {-1}


@pytest.mark.nightly
@pytest.mark.parametrize("data_split", ["kmeans", pytest.param("random", marks=pytest.mark.nightly)])
def test_training_that_begins_in_the_middle_of_the_plan_is_divided(data_split):
    """As `fit(initial_epoch=3)` of a loaded model, with a new callback."""
    recluster, watch, _ = train(make_model(data_split=data_split), epochs=4, first=3)
    assert len(recluster.history) == 1 and set(watch.epochs[0][0]) == {0, 1, 2}
    assert set(watch.epochs[0][1]) == {0, 1, 2}


@pytest.mark.nightly
@pytest.mark.slow
def test_other_divisions_are_made_once():
    for data_split in ("random", "labels"):
        recluster, watch, _ = train(make_model(data_split=data_split, recluster_every=1), epochs=3)
        assert len(recluster.history) == 1
        assignment = watch.epochs[2][0]
        assert np.bincount(assignment).tolist() == [16, 16, 16]
        if data_split == "labels":
            np.testing.assert_array_equal(assignment, LABELS // 4)
        else:
            assert any(len(set(assignment[LABELS == label])) > 1 for label in range(CLASSES))


@pytest.mark.nightly
@pytest.mark.slow
def test_no_step_is_traced_again():
    model = make_model(recluster_every=1)
    traced = []
    values = model.loss_values

    def counted(*arguments):
        traced.append(arguments)
        return values(*arguments)

    model.loss_values = counted
    train(model, epochs=1)
    once = len(traced)
    assert once
    train(model, epochs=4, first=1)
    assert len(traced) == once


@pytest.mark.nightly
@pytest.mark.slow
def test_a_state_goes_on_within_an_epoch():
    recluster, watch, _ = train(make_model(recluster_every=2), epochs=3)
    state = recluster.get_state()
    # The weights are others now: were it to cluster again, the result would differ.
    again, watched, _ = train(make_model(recluster_every=2), epochs=5, state=state, first=2)
    np.testing.assert_array_equal(watched.epochs[0][0], watch.epochs[2][0])
    assert again.history[:2] == recluster.history
    assert [entry["epoch"] for entry in again.history] == [0, 2, 4]


def test_only_a_model_that_divides():
    model = tfdml.Single(keras.Sequential([keras.layers.Conv2D(8, 3)]), embedding_size=12)
    model.compile("adam", loss="contrastive")
    recluster = tfdml.callbacks.Recluster(IMAGES, LABELS, sampler=None)
    with pytest.raises(ValueError, match="DivideAndConquer model. Received: Single"):
        model.fit(IMAGES, LABELS, batch_size=16, verbose=0, callbacks=[recluster])


def test_classes_of_any_size_are_shared_out():
    labels = np.repeat([7, 1, 9, 5, 3], [10, 60, 10, 10, 10])
    recluster = tfdml.callbacks.Recluster(None, labels, sampler=None)
    recluster._divide(tfdml.methods.division.Division(learners=2, data_split="labels"))
    np.testing.assert_array_equal(recluster.assignment, labels != 1)


def test_random_classes_stay_whole():
    labels = np.repeat(np.arange(40), np.arange(40) % 3 + 1)
    recluster = tfdml.callbacks.Recluster(None, labels, sampler=None, seed=1)
    recluster._divide(tfdml.methods.division.Division(learners=4, data_split="random_classes"))
    clusters = [set(recluster.assignment[labels == label]) for label in range(40)]
    assert all(len(each) == 1 for each in clusters)
    sizes = np.bincount(recluster.assignment)
    assert len(sizes) == 4 and np.ptp(sizes) <= 4
    # Not the ranges of their numbers.
    assert [*map(min, clusters)] != sorted(map(min, clusters))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("most, told", [(0.0, 1), (1.0, 0)])
def test_time_spent_on_clustering_is_told_of_once(most, told, caplog, monkeypatch):
    monkeypatch.setattr("tfdml.callbacks.clusters.MOST_TIME", most)
    train(make_model(recluster_every=1), epochs=3)
    assert caplog.text.count("Increase recluster_every, which is 1") == told
