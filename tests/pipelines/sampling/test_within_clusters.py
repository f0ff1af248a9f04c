"""Batches out of one cluster each."""

import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.build import training_batches
from pipelines.datasets import Split
from pipelines.sampling import PxK, Uniform, WithinClusters
from tests.pipelines.sampling.in_graph import rows_and_learners

CLASSES, PER_CLASS, LEARNERS = 24, 6, 3
LABELS = np.repeat(np.arange(CLASSES), PER_CLASS)
# Classes stay together, but for those of which each cluster has a part: 9, 8 and 7 classes, and one divided.
ASSIGNMENT = np.array([0] * 9 + [1] * 8 + [2] * 7)[LABELS]
# As the method's `cluster_order` names them.
ORDERS = {"uniform": {}, "proportional": {"proportional": True}, "round_robin": {"shuffle": False}}


def bound(sampler=None, order="uniform", labels=LABELS, assignment=ASSIGNMENT):
    sampler = WithinClusters(sampler or PxK(4, 2), **ORDERS[order])
    sampler.bind(labels)
    found = sampler.assign(assignment)
    return sampler, found


def batches(sampler, steps, seed=0):
    return rows_and_learners(sampler, range(steps), seed)


@pytest.mark.parametrize("order", ORDERS)
def test_the_method_wraps_the_sampler_as_its_cluster_order_says(order):
    backbone = tfdml.backbones.Small(width=4, stages=1)
    method = tfdml.DivideAndConquer(backbone, embedding_size=6, learners=LEARNERS, cluster_order=order)
    wrapped = method.wrap_sampler(PxK(4, 2))
    wrapped.bind(LABELS)
    wrapped.assign(ASSIGNMENT)
    assert isinstance(wrapped, WithinClusters)
    np.testing.assert_array_equal(wrapped.learners(0, tf.range(30)), bound(order=order)[0].learners(0, tf.range(30)))


@pytest.mark.parametrize("order", ["proportional", "round_robin"])
def test_a_batch_is_of_one_cluster_and_has_p_classes_with_k_images(order):
    sampler, _ = bound(order=order)
    rows, learners = batches(sampler, 60)
    np.testing.assert_array_equal(ASSIGNMENT[rows], np.repeat(learners[:, None], 8, axis=1))
    for batch in rows:
        classes, counts = np.unique(LABELS[batch], return_counts=True)
        assert len(classes) == 4 and set(counts) == {2} and len(set(batch)) == 8


def test_orders_of_clusters():
    learners = {order: batches(bound(order=order)[0], 90)[1] for order in ORDERS}
    np.testing.assert_array_equal(learners["round_robin"], np.arange(90) % LEARNERS)
    np.testing.assert_array_equal(np.bincount(learners["uniform"]), [30, 30, 30])
    assert np.any(learners["uniform"] != learners["round_robin"])
    # 54, 48 and 42 images fill 7, 6 and 5 batches of 8.
    np.testing.assert_array_equal(np.bincount(learners["proportional"]), [35, 30, 25])


def test_in_a_cluster_every_class_and_image_comes_once_before_any_comes_twice():
    sampler, _ = bound()
    rows, learners = batches(sampler, 9 * LEARNERS)
    own = rows[learners == 1]  # 9 batches of 4 of its 8 classes: 4.5 rounds.
    classes = LABELS[own[:, ::2]].reshape(-1)
    for round_of_classes in classes[:32].reshape(4, 8):
        assert len(set(round_of_classes)) == 8
    images, counts = np.unique(own[:6], return_counts=True)  # 3 rounds, 2 images of 6 each time.
    assert len(images) == 48 and set(counts) == {1}


def test_a_cluster_with_fewer_classes_still_fills_batches():
    small = np.where(LABELS < 2, 0, 1 + LABELS % 2)
    sampler, found = bound(assignment=small)
    assert found["small"] == [0] and found["idle"] == []
    rows, learners = batches(sampler, 30)
    np.testing.assert_array_equal(small[rows], np.repeat(learners[:, None], 8, axis=1))
    for batch in rows[learners == 0]:
        # Two classes, each twice, with other images.
        assert {*np.unique(LABELS[batch], return_counts=True)[1]} == {4} and len(set(batch)) == 8


def test_images_alone_in_their_class_are_left_out_and_counted():
    assignment = ASSIGNMENT.copy()
    assignment[[0, 100]] = 1, 0  # One image of class 0 strays to cluster 1, one of class 16 to cluster 0.
    sampler, found = bound(assignment=assignment)
    assert found["left_out"] == 2
    assert not {0, 100} & {*batches(sampler, 200)[0].ravel()}


def test_a_learner_without_a_pair_waits():
    assignment = ASSIGNMENT.copy()
    assignment[assignment == 1] = 0
    assignment[[0, 50]] = 1  # Two images of different classes.
    sampler, found = bound(assignment=assignment)
    assert found["idle"] == [1] and found["left_out"] == 2
    assert set(batches(sampler, 30)[1]) == {0, 2}
    with pytest.raises(ValueError, match="No cluster contains two images of a class"):
        sampler.assign(np.arange(len(LABELS)))


def test_uniform_batches_stay_in_a_cluster():
    sampler, found = bound(Uniform(batch_size=50))
    assert found["small"] == [1, 2]
    rows, learners = batches(sampler, 30)
    np.testing.assert_array_equal(ASSIGNMENT[rows], np.repeat(learners[:, None], 50, axis=1))
    assert all(len(set(batch)) == 50 for batch in rows[learners == 0])


def test_without_turns_the_clusters_stay_and_the_learner_is_none():
    sampler, _ = bound()
    rows, _ = batches(sampler, 20)
    sampler.assign(ASSIGNMENT, turns=False)
    others, learners = batches(sampler, 20)
    np.testing.assert_array_equal(rows, others)
    assert set(learners) == {-1}


def test_the_dataset_draws_from_new_clusters_from_the_next_pass_on_and_traces_nothing():
    sampler, _ = bound()
    split = Split(np.array([f"{row}".encode() for row in range(len(LABELS))], object), LABELS)
    traced = []

    def preprocess(contents, seed):
        traced.append(contents)
        return tf.strings.to_number(contents)

    step = tf.Variable(0, dtype=tf.int64)
    data = training_batches(split, sampler, preprocess, seed=0, step=step, steps_per_epoch=12)
    assert data.element_spec[1].keys() == {"label", "learner"}
    before = len(traced)
    for assignment in (ASSIGNMENT, LABELS % LEARNERS, None):
        sampler.assign(assignment)
        count = 0
        for rows, targets in data:
            rows = rows.numpy().astype(int)
            np.testing.assert_array_equal(targets["label"], LABELS[rows])
            expected = np.full(8, -1) if assignment is None else assignment[rows]
            np.testing.assert_array_equal(targets["learner"], expected)
            count += 1
        assert count == 12
        step.assign_add(12)
    assert len(traced) == before


@pytest.mark.parametrize(
    "sampler, message", [(PxK(25, 2), "needs 25 classes .*Received: 24"), (Uniform(150), "needs 150 .*Received: 144")]
)
def test_rows_that_fill_no_batch_are_told(sampler, message):
    with pytest.raises(ValueError, match=message):
        WithinClusters(sampler).bind(LABELS)


def test_what_cannot_be_is_told():
    sampler, _ = bound()
    with pytest.raises(ValueError, match="Expected a learner for each of 144 rows"):
        sampler.assign(ASSIGNMENT[:-1])
