import dataclasses

import numpy as np
import pytest

from pipelines.datasets import Dataset, Split


def split_of(labels, encoded=False, first=0):
    names = [f"{first + row}.jpg" for row in range(len(labels))]
    images = [name.encode() for name in names] if encoded else names
    return Split(np.array(images, dtype=object), np.array(labels, dtype=np.int64), {0: "wren", 1: "robin"})


def dataset_of(classes, per_class=3):
    return Dataset("some", split_of(np.repeat(np.arange(classes) * 5, per_class)), split_of([10**6], first=10**6))


def test_split():
    split = split_of([4, 4, 9, -1])
    assert len(split) == 4 and split.num_classes == 3
    assert not split.encoded and split.name_of(2) == "2.jpg"
    encoded = split_of([4, 4], encoded=True)
    assert encoded.encoded and encoded.name_of(1) == "image number 1"
    assert not split_of([]).encoded


@pytest.mark.parametrize("rows", [[3, 1], np.array([False, True, False, True])])
def test_where_keeps_rows_together_and_names(rows):
    split = split_of([4, 5, 6, 7]).where(rows)
    expected = [(name, label) for name, label in (("1.jpg", 5), ("3.jpg", 7))]
    assert sorted(zip(split.images, split.labels, strict=True)) == expected
    assert split.class_names == {0: "wren", 1: "robin"}


def test_one_label_an_image():
    with pytest.raises(ValueError, match="images must have one entry for each of the 3 labels .* Received: 2 entries"):
        Split(np.array(["a", "b"], dtype=object), np.arange(3))
    with pytest.raises(ValueError, match="cameras must have one entry for each of the 2 labels .* Received: 3 entries"):
        Split(np.array(["a", "b"], dtype=object), np.arange(2), cameras=np.arange(3))


def test_extras_stay_with_their_rows():
    extras = {
        "cameras": np.array([1, 2, 3, 4]),
        "groups": np.array([5, 6, 7, 8]),
        "boxes": np.arange(16).reshape(4, 4),
        "is_query": np.array([True, False, True, False]),
        "is_gallery": np.array([False, True, True, False]),
    }
    plain = split_of([9, 9, 2, 2])
    split = dataclasses.replace(plain, **extras)
    for name, column in extras.items():
        np.testing.assert_array_equal(getattr(split.where([3, 0]), name), column[[3, 0]])
        np.testing.assert_array_equal(getattr(split.where(split.labels == 2), name), column[2:])
        np.testing.assert_array_equal(getattr(split.numbered(), name), column)
        assert getattr(plain.where([3, 0]), name) is None
    with_test = Dataset("some", split, split_of([0], first=9))
    train, validation = with_test.hold_out(0.5, seed=0)
    assert sorted([*train.cameras, *validation.cameras]) == [1, 2, 3, 4]
    assert (validation.cameras - 1).tolist() == [int(name[0]) for name in validation.images]


@pytest.mark.parametrize("labels, first", [([3, 9, 5, 9], [3, 5]), ([7, 7], [7, 7]), ([1, 2, 3, 4, 4], [1, 2])])
def test_halves_are_by_class_and_in_order(labels, first):
    one, other = split_of(labels).halves()
    assert sorted(one.labels) == first
    assert sorted([*one.images, *other.images]) == [f"{row}.jpg" for row in range(len(labels))]


def test_classes_and_files_are_disjoint():
    with pytest.raises(ValueError, match="different classes; some has 2 in both: wren, 7"):
        Dataset("some", split_of([0, 1, 7]), split_of([7, 0, 8], first=9))
    with pytest.raises(ValueError, match="lists 2 images more than once, 1 of them both for training .*: '0.jpg'"):
        Dataset("some", split_of([0, 1]), split_of([2, 3, 4]).where([0, 2, 2]))
    with pytest.raises(ValueError, match="some has no training image"):
        Dataset("some", split_of([]), split_of([1]))
    # Equal bytes are two rows.
    Dataset("some", split_of([0], encoded=True), split_of([1], encoded=True))


@pytest.mark.parametrize("name, message", [("is_query", "no query"), ("is_gallery", "no gallery image")])
def test_a_test_split_that_marks_nothing_is_told(name, message):
    test = dataclasses.replace(split_of([5], first=1), **{name: np.array([False])})
    with pytest.raises(ValueError, match=f"The test split of some has {message}"):
        Dataset("some", split_of([0]), test)


@pytest.mark.parametrize("fraction, held", [(0.2, 2), (0.5, 5), (0.94, 9), (0.06, 1)])
def test_hold_out_takes_whole_classes(fraction, held):
    dataset = dataset_of(10)
    train, validation = dataset.hold_out(fraction, seed=3)
    assert validation.num_classes == held and train.num_classes == 10 - held
    assert not set(train.labels) & set(validation.labels)
    assert len(validation) == 3 * held
    assert sorted([*train.images, *validation.images]) == sorted(dataset.train.images)
    for part in (train, validation):
        for image, label in zip(part.images, part.labels, strict=True):
            assert int(image.removesuffix(".jpg")) // 3 * 5 == label


def test_hold_out_depends_on_the_seed_alone():
    chosen = [tuple(np.unique(dataset_of(20).hold_out(0.3, seed)[1].labels)) for seed in (0, 0, 1, 2, 3)]
    assert chosen[0] == chosen[1] and len(set(chosen)) == 4
    # Rows are no part of it: more images of the same classes give the same choice.
    more = dataset_of(20, per_class=7).hold_out(0.3, 0)[1]
    assert tuple(np.unique(more.labels)) == chosen[0]


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.99, 1.0, -0.5, 1.5])
def test_hold_out_leaves_classes_on_both_sides(fraction):
    with pytest.raises(ValueError, match=f"a fraction of {fraction} of the 10 training classes"):
        dataset_of(10).hold_out(fraction, seed=0)


@pytest.mark.parametrize("classes, folds, sizes", [(10, 5, [2] * 5), (10, 4, [2, 2, 3, 3]), (3, 3, [1, 1, 1])])
def test_every_class_validates_in_one_fold(classes, folds, sizes):
    dataset = dataset_of(classes)
    parts = [dataset.fold(number, folds, seed=1) for number in range(folds)]
    held = [sorted(set(validation.labels.tolist())) for _, validation in parts]
    assert sorted(sum(held, [])) == [5 * number for number in range(classes)]
    assert sorted(map(len, held)) == sizes
    for train, validation in parts:
        assert not set(train.labels) & set(validation.labels)
        assert sorted([*train.images, *validation.images]) == sorted(dataset.train.images)
    assert [set(dataset.fold(0, folds, seed=1)[1].labels.tolist())] == [set(held[0])]


def test_folds_depend_on_the_seed():
    chosen = [tuple(np.unique(dataset_of(20).fold(0, 4, seed)[1].labels)) for seed in (0, 0, 1, 2)]
    assert chosen[0] == chosen[1] and len(set(chosen)) == 3


@pytest.mark.parametrize("number, folds", [(0, 1), (0, 11), (4, 4), (-1, 4)])
def test_folds_that_do_not_work_are_told(number, folds):
    with pytest.raises(ValueError, match=f"Expected 2 to 10 folds.* Received: fold {number} of {folds}"):
        dataset_of(10).fold(number, folds, seed=0)


def test_numbered_closes_gaps_and_keeps_order_and_names():
    split = split_of([7, 1, 7, -2, 1]).numbered()
    assert split.labels.tolist() == [2, 1, 2, 0, 1] and split.labels.dtype == np.int64
    assert split.class_names == {1: "robin"} and list(split.images) == [f"{row}.jpg" for row in range(5)]
    assert len(split_of([]).numbered()) == 0
