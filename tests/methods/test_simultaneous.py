"""Learners that learn at once, each from its part of the batch."""

import keras
import numpy as np
import pytest

import tfdml
from pipelines.sampling import Pairs, PxK, WithinClusters
from tests.pipelines.sampling.in_graph import rows_and_learners
from tfdml.callbacks import Recluster
from tfdml.losses import ProxyNCA, Triplet

LEARNERS, DIM, PART = 3, 4, 8
LABELS = np.tile(np.repeat(np.arange(4), 2), LEARNERS)
IMAGES = np.random.default_rng(0).normal(size=(LEARNERS * PART, 12, 12, 3)).astype(np.float32)
OF_PARTS = np.repeat(np.arange(LEARNERS), PART)


def make_model(loss=None, optimizer=None, **arguments):
    keras.utils.set_random_seed(0)
    backbone = tfdml.backbones.Small(width=4, stages=2)
    arguments = {"simultaneous": True, "freeze_batch_norm": "all", **arguments}
    model = tfdml.DivideAndConquer(backbone, embedding_size=LEARNERS * DIM, learners=LEARNERS, **arguments)
    model(np.zeros((1, 12, 12, 3), np.float32))
    model.compile(optimizer or keras.optimizers.SGD(0.1), loss=loss or Triplet(mining="all"), run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    return model


def moved(model, images, targets):
    """How a step of SGD moves each variable."""
    before = [variable.numpy() for variable in model.trainable_variables]
    model.train_on_batch(images, targets)
    return [variable.numpy() - old for variable, old in zip(model.trainable_variables, before, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Triplet(mining="all"), ProxyNCA(classes=4)])
@pytest.mark.few_by_day(1)
def test_a_step_is_the_mean_of_the_steps_in_turn(loss):
    """With SGD, from the same weights: of each learner on its part alone."""
    together = moved(make_model(loss), IMAGES, {"label": LABELS, "learner": OF_PARTS})
    in_turn = []
    for k in range(LEARNERS):
        rows = OF_PARTS == k
        targets = {"label": LABELS[rows], "learner": OF_PARTS[rows]}
        in_turn.append(moved(make_model(loss, simultaneous=False), IMAGES[rows], targets))
    assert any(np.abs(each).max() > 1e-3 for each in together)
    for found, *expected in zip(together, *in_turn, strict=True):
        np.testing.assert_allclose(found, np.mean(expected, axis=0), atol=1e-6)


def test_a_part_without_a_learner_teaches_nothing():
    learners = np.where(OF_PARTS == 1, -1, OF_PARTS)
    adam = keras.optimizers.Adam(0.01, weight_decay=0.1)
    model = make_model(optimizer=adam)
    before = model.head.kernel.numpy()
    model.train_on_batch(IMAGES, {"label": LABELS, "learner": learners})
    changed = (model.head.kernel.numpy() != before).reshape(-1, LEARNERS, DIM).any(axis=(0, 2))
    assert changed.tolist() == [True, False, True]
    np.testing.assert_array_equal(model.steps.of_slices, [1, 0, 1])
    values = model.loss_values({"label": LABELS, "learner": learners}, model(IMAGES, merged=False))
    assert not np.any(values[PART : 2 * PART]) and np.all(values[:PART])


def test_without_learners_the_whole_embedding_learns():
    model = make_model()
    values = model.loss_values({"label": LABELS, "learner": np.full(len(LABELS), -1)}, model(IMAGES, merged=False))
    np.testing.assert_allclose(values, model.loss.call(LABELS, model(IMAGES)), rtol=1e-5)


@pytest.mark.nightly
def test_plain_labels_train_the_whole_embedding_in_batches_of_any_size():
    model = make_model()
    model.compile("sgd", Triplet(mining="all"))
    rows = LEARNERS * PART - 2
    assert np.isfinite(model.fit(IMAGES[:rows], LABELS[:rows], batch_size=11, verbose=0).history["loss"][0])
    assert np.all(np.isfinite(model.evaluate(IMAGES[:rows], LABELS[:rows], batch_size=11, verbose=0)))
    assert model.learner_losses() == [(0.0, 0)] * LEARNERS


def test_a_part_of_another_learner_is_refused():
    with pytest.raises(ValueError, match="each of 3 equal parts of the batch, in order"):
        make_model().train_on_batch(IMAGES, {"label": LABELS, "learner": OF_PARTS[::-1].copy()})


@pytest.mark.nightly
def test_learners_losses_and_statistics_are_those_of_their_parts():
    model = make_model()
    model.fit(IMAGES, {"label": LABELS, "learner": OF_PARTS}, batch_size=len(LABELS), shuffle=False, verbose=0)
    alone = []
    for k in range(LEARNERS):
        rows, other = OF_PARTS == k, make_model(simultaneous=False)
        other.fit(IMAGES[rows], {"label": LABELS[rows], "learner": OF_PARTS[rows]}, batch_size=PART, verbose=0)
        alone.append((other.learner_losses()[k], other.loss_statistics()))
    for k, ((loss, batches), (expected, _)) in enumerate(zip(model.learner_losses(), alone, strict=True)):
        assert loss == pytest.approx(expected[0], rel=1e-4) and batches == 1, k
    found = model.loss_statistics()
    for k in range(LEARNERS):
        name = f"positive_distance_of_learner_{k}"
        assert found[name] == pytest.approx(alone[k][1][name], rel=1e-4)


def test_proportional_batches_are_refused():
    with pytest.raises(ValueError, match="simultaneous=True uses every cluster equally often.*'proportional'"):
        make_model(cluster_order="proportional")


@pytest.mark.parametrize("simultaneous", [True, False])
def test_batches_of_all_data_when_they_are_not_divided(simultaneous):
    """`data_split='none'`: learners learn in turn, or at once, and no cluster is made."""
    labels = np.repeat(np.arange(12), 4)
    model = make_model(simultaneous=simultaneous, data_split="none", cluster_order="round_robin")
    sampler = model.wrap_sampler(PxK(4, 2))
    sampler.bind(labels)
    watch = Recluster(np.zeros((len(labels), 12, 12, 3), np.float32), labels, sampler)
    watch.set_model(model)
    watch.on_train_begin()
    watch.on_epoch_begin(0)
    rows, learners = rows_and_learners(sampler, range(60))
    assert watch.finding() is None
    if simultaneous:
        np.testing.assert_array_equal(learners, np.tile(OF_PARTS, (60, 1)))
        learners = learners.reshape(-1, PART)[:, 0]
    np.testing.assert_array_equal(learners, np.arange(len(learners)) % LEARNERS)
    # Each learner sees all classes.
    for k in range(LEARNERS):
        assert set(labels[rows.reshape(-1, PART)[learners == k]].ravel()) == set(range(12))


class TestSampler:
    """`WithinClusters(at_once=...)`."""

    def bound(self, assignment, **options):
        sampler = WithinClusters(PxK(4, 2), shuffle=False, at_once=LEARNERS)
        sampler.bind(np.repeat(np.arange(24), 6))
        return sampler, sampler.assign(assignment, learners=LEARNERS, **options)

    def drawn(self, sampler, steps=40):
        rows, learners = rows_and_learners(sampler, range(steps))
        assert rows.shape == learners.shape == (steps, LEARNERS * PART) == (steps, sampler.batch_size)
        return rows, learners

    def test_each_part_is_of_its_cluster(self):
        assignment = np.array([0] * 9 + [1] * 8 + [2] * 7)[np.repeat(np.arange(24), 6)]
        rows, learners = self.drawn(self.bound(assignment)[0])
        np.testing.assert_array_equal(learners, np.tile(OF_PARTS, (40, 1)))
        np.testing.assert_array_equal(assignment[rows], learners)
        # The batches of a cluster are those that it has where clusters take turns.
        turns = WithinClusters(PxK(4, 2), shuffle=False)
        turns.bind(np.repeat(np.arange(24), 6))
        turns.assign(assignment)
        np.testing.assert_array_equal(rows.reshape(-1, PART), rows_and_learners(turns, range(40 * LEARNERS))[0])

    def test_a_learner_without_a_cluster_has_a_part_of_another(self):
        assignment = np.where(np.arange(24 * 6) < 60, 0, 2)
        sampler, found = self.bound(assignment)
        assert found["idle"] == [1]
        rows, learners = self.drawn(sampler)
        np.testing.assert_array_equal(learners, np.tile(np.where(OF_PARTS == 1, -1, OF_PARTS), (40, 1)))
        assert len(set(assignment[rows[0, PART : 2 * PART]])) == 1
        # The two parts of one cluster are different batches.
        parts = [tuple(part) for part in rows.reshape(-1, PART)]
        assert len(set(parts)) > 0.9 * len(parts)

    @pytest.mark.parametrize("assignment, turns", [(None, False), (np.arange(24 * 6) % 3, False)])
    def test_no_part_has_a_learner_where_the_whole_embedding_learns(self, assignment, turns):
        _, learners = self.drawn(self.bound(assignment, turns=turns)[0])
        assert set(learners.ravel()) == {-1}

    def test_it_needs_an_order(self):
        with pytest.raises(ValueError, match="Set shuffle=False"):
            WithinClusters(PxK(4, 2), at_once=2)

    def test_partners_stay_in_one_part(self):
        with pytest.raises(
            ValueError, match="Batches of Pairs are images followed by their partners.*simultaneous=False"
        ):
            WithinClusters(Pairs(4), shuffle=False, at_once=2)
