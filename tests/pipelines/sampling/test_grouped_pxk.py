import numpy as np
import pytest

from pipelines.datasets import Split
from pipelines.sampling import PxK
from tests.pipelines.sampling.test_sampling import batches

SIZES = [4, 3, 5, 2, 4, 4, 3, 2, 2, 6, 2, 4]
GROUPS = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 0]


def split_of(sizes=SIZES, groups=GROUPS, by_levels=True):
    order = np.random.default_rng(0).permutation(sum(sizes))
    labels = np.repeat(np.arange(len(sizes)), sizes)[order]
    images = np.array([str(row) for row in range(len(labels))], dtype=object)
    if by_levels:
        hierarchy = np.stack([np.array(groups)[labels], labels], axis=1)
        return Split(images, labels, hierarchy=hierarchy, level_names=("category", "class"))
    return Split(images, labels, class_groups={label: f"g{group}" for label, group in enumerate(groups)})


@pytest.mark.parametrize("by_levels", [True, False])
@pytest.mark.parametrize("classes, groups", [(4, 2), (6, 3), (3, 1), (6, 2)])
def test_classes_of_a_batch_are_of_few_categories(classes, groups, by_levels):
    split, sampler = split_of(by_levels=by_levels), PxK(classes, 2, groups=groups)
    sampler.bind_split(split)
    of_group, of_class = {}, np.zeros(len(SIZES), int)
    for rows in batches(sampler, range(120)).reshape(120, classes, 2):
        chosen = split.labels[rows][:, 0]
        assert np.all(split.labels[rows] == chosen[:, None]) and len(set(chosen)) == classes
        assert all(len(set(pair)) == 2 for pair in rows)
        categories, counts = np.unique(np.array(GROUPS)[chosen], return_counts=True)
        assert len(categories) == groups and set(counts) == {classes // groups}
        np.add.at(of_class, chosen, 1)
        for category in categories:
            of_group[category] = of_group.get(category, 0) + 1
    # A category of one class is left out.
    assert set(of_group) == {group for group in range(3) if GROUPS.count(group) >= classes // groups}
    assert max(of_group.values()) - min(of_group.values()) <= 1
    for group in of_group:
        assert np.ptp(of_class[np.array(GROUPS) == group]) <= 1


def test_rows_of_a_class_come_equally_often():
    sampler, split = PxK(4, 2, groups=2), split_of()
    sampler.bind_split(split)
    times = np.bincount(batches(sampler, range(200)).ravel(), minlength=len(split))
    for label in range(len(SIZES)):
        assert np.ptp(times[split.labels == label]) <= 1


def test_without_groups_nothing_changes():
    split, bare, grouped = split_of(), PxK(4, 2), PxK(4, 2, groups=None)
    bare.bind(split.labels)
    grouped.bind_split(split)
    np.testing.assert_array_equal(batches(bare, range(9)), batches(grouped, range(9)))


@pytest.mark.parametrize(
    "make, split, message",
    [
        (lambda: PxK(5, 2, groups=2), split_of(), "classes must be a multiple of .*. Received: classes=5"),
        (
            lambda: PxK(9, 2, groups=1),
            split_of(),
            "needs 1 categories with at least 9 classes .*Received: 0 such categories of 4",
        ),
        (
            lambda: PxK(4, 2, groups=2),
            Split(split_of().images, split_of().labels),
            "these classes have none. Use a dataset with class_groups or with levels",
        ),
    ],
)
def test_what_does_not_fit_is_told(make, split, message):
    with pytest.raises(ValueError, match=message):
        make().bind_split(split)
