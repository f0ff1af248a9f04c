"""Every registered sampler draws from clusters, and so does a user's own, unless it says that it cannot."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling import Pairs, Sampler, WithinClusters
from tests.pipelines.sampling.in_graph import rows_and_learners
from tfdml import registry

CLASSES, PER_CLASS, LEARNERS = 120, 5, 3
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(CLASSES), PER_CLASS))
# Classes stay together but for the last ones, of which each cluster has a part.
ASSIGNMENT = np.where(LABELS < 114, LABELS % LEARNERS, np.arange(len(LABELS)) % LEARNERS)
STEPS = 24


class Windows(Sampler):
    """A user's sampler: rows that follow each other in a random order, and a table of numbers that are no rows."""

    batch_size = 16

    def tables_of(self, labels):
        if len(labels) < self.batch_size:
            raise ValueError(f"windows need 16 rows, there are {len(labels)}")
        order = np.random.default_rng(0).permutation(len(labels))
        return [order, np.float32(len(labels)), np.tile(np.arange(len(labels))[:, None], 2)]

    def draw_rows(self, seed, steps, order, count, twice):
        start = tf.cast(count, tf.int64) // 2 + seed % 7 + 5 * steps
        place = (start[:, None] + tf.range(self.batch_size, dtype=tf.int64)) % tf.size(order, tf.int64)
        return tf.gather(twice[:, 1], tf.gather(order, place))


SAMPLERS = {name: lambda name=name: registry.create("sampler", name) for name in registry.names("sampler")}
WITHIN = {name: make for name, make in SAMPLERS.items() if not make().not_within_clusters} | {"own": Windows}


# Which draw as others do: classes as `pxk`, and anchors with one other image as `triplets`.
ALIKE = ("proportional_pxk", "pairs")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow, pytest.mark.nightly] if name in ALIKE else []) for name in WITHIN
    ],
)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def divided(name):
    """The sampler within three clusters."""
    sampler = WithinClusters(WITHIN[name]())
    sampler.bind(LABELS)
    found = sampler.assign(ASSIGNMENT)
    assert found["small"] == found["idle"] == []
    return sampler


@pytest.fixture(scope="module")
def drawn(divided):
    """Function from steps and tables to their rows and learners; traced once, as in a dataset."""

    @tf.function(autograph=False, reduce_retracing=True)
    def both(steps, tables):
        return divided.rows(3, steps, tables), divided.learners(3, steps, tables)

    def arrays(steps):
        return [part.numpy() for part in both(tf.constant(steps, tf.int64), divided.tables())]

    return arrays


@pytest.mark.few_by_day(2)
def test_a_batch_is_of_its_learners_cluster_alone(divided, drawn):
    rows, learners = drawn(range(STEPS))
    assert rows.shape == (STEPS, divided.batch_size)
    np.testing.assert_array_equal(ASSIGNMENT[rows], np.repeat(learners[:, None], divided.batch_size, axis=1))
    np.testing.assert_array_equal(np.bincount(learners), [STEPS // LEARNERS] * LEARNERS)
    assert len({tuple(np.sort(batch)) for batch in rows}) > STEPS // 2


def test_what_is_declared_of_a_batch_is_so(name, divided):
    plain = WITHIN[name]()
    assert (divided.parts, divided.several_per_class) == (plain.parts, plain.several_per_class)
    plain.bind(LABELS)
    counts = [np.unique(LABELS[batch], return_counts=True)[1] for batch in plain.rows(3, np.arange(STEPS)).numpy()]
    assert plain.batch_size % plain.parts == 0
    assert (plain.several_per_class or plain.several_views) == all(np.all(count > 1) for count in counts)


def test_any_order_of_steps_gives_the_same(drawn):
    rows, learners = drawn(range(STEPS))
    order = np.random.default_rng(1).permutation(STEPS)
    for together, found in zip((rows, learners), drawn(order), strict=True):
        np.testing.assert_array_equal(found, together[order])


def test_a_cluster_is_drawn_like_a_dataset_of_its_own(name, divided, drawn):
    """Whatever holds of a sampler's batches then holds in a cluster: here, how many classes they have."""
    rows, learners = drawn(range(STEPS))
    alone = WITHIN[name]()
    members = np.flatnonzero(ASSIGNMENT == 1)
    alone.bind(LABELS[members])
    expected = members[alone.rows(5, np.arange(STEPS)).numpy()]

    def classes_and_rows(batches):
        return np.mean([[len(set(LABELS[batch])), len(set(batch))] for batch in batches], axis=0)

    np.testing.assert_allclose(classes_and_rows(rows[learners == 1]), classes_and_rows(expected), rtol=0.1)


@pytest.mark.few_by_day(2)
def test_new_clusters_are_drawn_from_and_old_ones_again(divided, drawn):
    before = drawn(range(STEPS))
    others = (ASSIGNMENT + 1) % 2
    divided.assign(others)
    rows, learners = drawn(range(STEPS))
    np.testing.assert_array_equal(others[rows], np.repeat(learners[:, None], divided.batch_size, axis=1))
    divided.assign(ASSIGNMENT)
    for first, again in zip(before, drawn(range(STEPS)), strict=True):
        np.testing.assert_array_equal(first, again)


def test_undivided_they_are_those_of_the_sampler(name, divided, drawn):
    plain = WITHIN[name]()
    plain.bind(LABELS)
    divided.assign(None)
    rows, learners = drawn(range(STEPS))
    divided.assign(ASSIGNMENT)
    np.testing.assert_array_equal(rows, plain.rows(3, np.arange(STEPS)))
    assert set(learners) == {-1}


@pytest.mark.few_by_day(2)
def test_a_learner_waits_whose_cluster_fills_no_batch(name, divided, drawn):
    # One row of each of two classes: no sampler draws a pair of a class from it, and few fill a batch.
    few = np.where(ASSIGNMENT == 2, 0, ASSIGNMENT)
    few[[np.flatnonzero(LABELS == label)[0] for label in (0, 1)]] = 2
    found = divided.assign(few, learners=4)
    rows, learners = drawn(range(STEPS))
    divided.assign(ASSIGNMENT)
    if name == "uniform":
        assert found["small"] == [2] and found["idle"] == [3] and set(learners) == {0, 1, 2}
    else:
        assert found["idle"] == [2, 3] and set(learners) == {0, 1} and found["left_out"] >= 2
    np.testing.assert_array_equal(few[rows], np.repeat(learners[:, None], divided.batch_size, axis=1))


def test_clusters_without_any_batch_are_told_with_what_the_sampler_says_of_the_largest():
    sampler = WithinClusters(Windows())
    sampler.bind(LABELS)
    assignment = np.arange(len(LABELS)) // 10
    assignment[10:13] = 0
    with pytest.raises(ValueError, match="windows need 16 rows, there are 13"):
        sampler.assign(assignment)


def test_pairs_of_a_small_and_a_large_cluster_are_as_random():
    """Only a draw from a small cluster is in the order of classes, and has to be shuffled."""
    labels = np.repeat(np.arange(34), [2, 2, 3, *[4] * 31])
    sampler = WithinClusters(Pairs(images=6))
    sampler.bind(labels)
    sampler.assign(np.minimum(labels // 3, 1))
    rows, learners = rows_and_learners(sampler, range(600))
    first = labels[rows[learners == 0][:, :3]].ravel()
    np.testing.assert_allclose(np.bincount(first) / len(first), np.array([2, 2, 3]) / 7, atol=0.05)


def test_a_sampler_may_say_that_it_cannot():
    class Whole(Windows):
        not_within_clusters = "it needs all rows"

    with pytest.raises(
        ValueError, match=r"^The sampler Whole does not work within clusters, because it needs all rows\.$"
    ):
        WithinClusters(Whole())
    with pytest.raises(
        ValueError, match="WithinClusters does not work within clusters, because its batches are already"
    ):
        WithinClusters(WithinClusters(Windows()))


def test_missing_methods_are_told():
    class Nothing(Sampler):
        batch_size = 4

    with pytest.raises(NotImplementedError, match=r"The sampler Nothing must implement tables_of\(labels\)"):
        Nothing().bind(LABELS)
    with pytest.raises(
        NotImplementedError, match=r"The sampler Nothing must implement draw_rows\(seed, steps, \*tables\)"
    ):
        Nothing().rows(0, [1], [])
