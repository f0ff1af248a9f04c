import warnings

import numpy as np
import pytest
import tensorflow as tf

from pipelines.datasets import Split
from pipelines.sampling import PxK, Uniform, group_by_class
from tfdml import registry


def batches(sampler, steps, seed=3):
    """Rows `[steps, batch_size]`."""
    steps = tf.convert_to_tensor(steps, tf.int64)
    return sampler.rows(tf.constant(seed, tf.int64), steps, sampler.tables()).numpy()


def labels_of(sizes, seed=0):
    """Shuffled labels of classes of these sizes; class numbers have gaps and are negative, too."""
    classes = np.arange(len(sizes)) * 1000 - 5
    return np.random.default_rng(seed).permutation(np.repeat(classes, sizes))


def bound(sampler, labels):
    sampler.bind(labels)
    return sampler


@pytest.mark.parametrize("classes, per_class", [(8, 4), (3, 5), (12, 2), (1, 3), (7, 8)])
def test_pxk_batches_are_balanced(classes, per_class):
    sizes = np.random.default_rng(per_class).integers(2, 13, 12)
    sizes[:4] = 2, 3, 4, 5
    labels = labels_of(sizes)
    sampler = bound(PxK(classes, per_class), labels)
    of_class, of_row = dict.fromkeys(np.unique(labels), 0), np.zeros(len(labels), int)
    for rows in batches(sampler, range(150)).reshape(150, classes, per_class):
        assert np.all(labels[rows] == labels[rows][:, :1]), "rows of a class stand together"
        chosen = labels[rows][:, 0]
        assert len(set(chosen)) == classes
        for label, group in zip(chosen, rows, strict=True):
            size, times = np.sum(labels == label), np.unique(group, return_counts=True)[1]
            # A class with enough images repeats none; a smaller one repeats all evenly.
            assert len(times) == min(size, per_class) and times.max() <= -(-per_class // size)
            np.add.at(of_row, group, 1)
            assert np.ptp(of_row[labels == label]) <= 1
            of_class[label] += 1
        assert max(of_class.values()) - min(of_class.values()) <= 1
    assert of_row.min() > 0


def test_pxk_says_that_most_images_of_a_batch_are_repeats():
    with pytest.warns(UserWarning, match=r"85% of the images.*pxk\(per_class=40\).*have 6 images.*per_class=6 or"):
        bound(PxK(3, 40), labels_of([6] * 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        # As in Stanford Online Products, of whose classes some are small.
        bound(PxK(3, 4), labels_of([1, 2, 2, 3, 9]))


def test_pxk_leaves_single_images_out_and_says_so(caplog):
    caplog.set_level("INFO")
    labels = labels_of([1, 3, 1, 2, 4])
    rows = batches(bound(PxK(3, 2), labels), range(50))
    assert set(labels[rows].ravel()) == {995, 2995, 3995}
    assert caplog.messages == ["pxk skips 2 of 5 classes, because they have a single image."]
    bound(PxK(2, 2), labels_of([2, 2]))
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: bound(PxK(4, 2), labels_of([3, 1, 2, 2])), r"pxk\(classes=4\).*have 3\. Lower classes"),
        (lambda: bound(Uniform(9), np.zeros(8)), r"uniform\(batch_size=9\).*Received: 8"),
    ],
)
def test_what_cannot_be_is_told(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# A small spec of each registered sampler.
SPECS = {
    "given": "given(count=3)",
    "hard_neighbors": "hard_neighbors(pairs=3, neighbors=2)",
    "corpus_negatives": "corpus_negatives(pairs=3, neighbors=2)",
    "pairs": "pairs(images=6)",
    "proportional_pxk": "proportional_pxk(groups=5)",
    "pxk": "pxk(classes=3, per_class=4)",
    "triplets": "triplets(triplets=5)",
    "uniform": "uniform(batch_size=7)",
    "views": "views(images=6)",
}


def test_every_registered_sampler_has_a_spec_here():
    assert sorted(SPECS) == registry.names("sampler")


@pytest.mark.parametrize("name", SPECS)
class TestEverySampler:
    @pytest.fixture
    def bound_sampler(self, name):
        labels, sampler = labels_of([3, 4, 9, 2, 5, 30]), registry.create("sampler", SPECS[name])
        pairs = np.array([[row, row + 1, -1] for row in range(0, 52, 2)])
        images = np.array([f"{row}.jpg" for row in range(53)], dtype=object)
        sampler.bind_split(Split(images, np.arange(53), relations=pairs) if name == "given" else Split(images, labels))
        if sampler.refresh_every:
            sampler.refresh(np.random.default_rng(0).normal(size=(53, 3)).astype(np.float32))
        return sampler

    @pytest.mark.few_by_day(4)
    def test_a_batch_does_not_depend_on_those_beside_it(self, bound_sampler):
        together = batches(bound_sampler, range(64))
        for step in (0, 1, 33, 63):
            np.testing.assert_array_equal(batches(bound_sampler, [step])[0], together[step])
        np.testing.assert_array_equal(batches(bound_sampler, [40, 3, 3]), together[[40, 3, 3]])

    @pytest.mark.few_by_day(4)
    def test_graphs_give_the_same(self, bound_sampler):
        function = tf.function(
            lambda steps: bound_sampler.rows(tf.constant(3, tf.int64), steps, bound_sampler.tables())
        )
        np.testing.assert_array_equal(function(tf.range(9, dtype=tf.int64)), batches(bound_sampler, range(9)))

    def test_steps_and_seeds_give_other_batches(self, bound_sampler):
        drawn = batches(bound_sampler, range(50))
        assert drawn.shape == (50, bound_sampler.batch_size) and len({tuple(rows) for rows in drawn}) > 45
        assert np.mean(np.all(drawn == batches(bound_sampler, range(50), seed=4), axis=1)) < 0.1
        rows = batches(bound_sampler, [10**9, 10**12])
        assert rows.min() >= 0 and rows.max() < 53 and np.any(rows[0] != rows[1])


# Of pairs and triplets the first part; one row is alone in its class. Of views the first half.
ONCE = {"uniform(batch_size=7)": 7, "views(images=7)": 7, "pairs(images=4)": 4, "triplets(triplets=4)": 4}


@pytest.mark.parametrize("spec", [*ONCE, "uniform(batch_size=24)", "views(images=23)"])
def test_each_row_comes_once_before_any_comes_twice(spec):
    labels = np.repeat([0, 1, 2, 3], [6, 2, 15, 1])
    sampler = bound(registry.create("sampler", spec), labels)
    first = ONCE.get(spec, sampler.batch_size if spec.startswith("uniform") else sampler.batch_size // 2)
    drawn = labels != 3 if spec.startswith(("pairs", "triplets")) else labels >= 0
    counts = np.zeros(24, int)
    for rows in batches(sampler, range(100))[:, :first]:
        assert len(set(rows)) == first
        counts[rows] += 1
        assert np.ptp(counts[drawn]) <= 1 and not counts[~drawn].any()


def test_group_by_class():
    rows, starts, sizes = group_by_class([7, -1, 7, 3, -1, 7])
    np.testing.assert_array_equal(rows, [1, 4, 3, 0, 2, 5])
    np.testing.assert_array_equal(starts, [0, 2, 3])
    np.testing.assert_array_equal(sizes, [2, 1, 3])
    assert {array.dtype for array in (rows, starts, sizes)} == {np.dtype("int64")}
