import numpy as np
import pytest

from pipelines.datasets import Dataset, Split


def split_of(labels, encoded=False, first=0):
    names = [f"{first + row}.jpg" for row in range(len(labels))]
    images = [name.encode() for name in names] if encoded else names
    return Split(np.array(images, dtype=object), np.array(labels, dtype=np.int64), {0: "wren", 1: "robin"})


def dataset_of(classes, per_class=3):
    return Dataset("some", split_of(np.repeat(np.arange(classes) * 5, per_class)), split_of([10**6]))


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
    with pytest.raises(ValueError, match="received 2 images, 3 labels"):
        Split(np.array(["a", "b"], dtype=object), np.arange(3))


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
    with pytest.raises(ValueError, match=f"Holding out {fraction} of 10 training classes"):
        dataset_of(10).hold_out(fraction, seed=0)


def test_numbered_closes_gaps_and_keeps_order_and_names():
    split = split_of([7, 1, 7, -2, 1]).numbered()
    assert split.labels.tolist() == [2, 1, 2, 0, 1] and split.labels.dtype == np.int64
    assert split.class_names == {1: "robin"} and list(split.images) == [f"{row}.jpg" for row in range(5)]
    assert len(split_of([]).numbered()) == 0
