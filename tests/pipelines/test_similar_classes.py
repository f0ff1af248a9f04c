"""Groups of similar classes: folders in their order, validation by whole groups."""

import dataclasses

import numpy as np
import pytest

from pipelines.dataset import Dataset, Split
from pipelines.datasets import load

TABLE = "split,class,family,song\ntrain,wren,b,\ntrain,robin,b,x\ntrain,crow,a,x\ntest,finch,c,y\ntest,owl,a,y\n"
SPEC = "folder(class_groups='family')"


@pytest.fixture
def birds(tmp_path, write_images):
    names = ["train/wren/1.png", "train/robin/1.png", "train/crow/1.png", "test/finch/1.png", "test/owl/1.png"]
    folder = write_images(tmp_path / "birds", dict.fromkeys(names, (9, 9)))
    (folder / "classes.csv").write_text(TABLE)
    return folder


def test_classes_of_a_group_are_side_by_side_in_the_order_of_the_table(birds):
    dataset = load(SPEC, data_dir=birds)
    assert dataset.train.class_names == {0: "robin", 1: "wren", 2: "crow"}
    assert dataset.train.class_groups == {0: "b", 1: "b", 2: "a"}
    assert dataset.test.class_names == {3: "owl", 4: "finch"}
    assert [path.split("/")[-2] for path in dataset.train.images] == ["robin", "wren", "crow"]


def test_classes_of_an_undivided_folder_have_groups(birds):
    """`train` has a row for each of its class folders."""
    table = (birds / "classes.csv").read_text()
    (birds / "train" / "classes.csv").write_text(table)
    dataset = load("folder(class_groups='family', test_classes=0.34)", data_dir=birds / "train")
    groups = {name: dataset.train.class_groups[number] for number, name in dataset.train.class_names.items()}
    assert groups == {"crow": "a", "robin": "b", "wren": "b"}


@pytest.mark.parametrize(
    "table, column, message",
    [
        (None, "family", "class_groups='family' needs the table .*classes.csv, which does not exist"),
        (TABLE, "genus", "classes.csv has no column 'genus'. Received: split, class, family, song"),
        ("name,family\nwren,b\n", "family", "has no column 'class'"),
        ("", "family", "classes.csv has no column 'class'. Received: no columns"),
        ("class,family\ncrow,a,b\n", "family", "classes.csv, line 2, has 3 columns, but the header has 2"),
        (TABLE + "train,crow,b,x\n", "family", "the class 'crow' in two groups: 'a' in line 4 and 'b' in line 7"),
        (TABLE, "song", "no group for 1 of 3 classes: wren"),
        ("class,family\ncrow,a\nwren,b\n", "family", "no group for 1 of 3 classes: robin"),
    ],
)
def test_a_table_that_does_not_fit_is_named(birds, table, column, message):
    (birds / "classes.csv").unlink()
    if table is not None:
        (birds / "classes.csv").write_text(table)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load(f"folder(class_groups={column!r})", data_dir=birds)


def grouped(sizes):
    """A dataset whose training classes, of two images, are in groups of these sizes, and whose labels have gaps."""
    of_class = np.repeat(np.arange(len(sizes)), sizes)
    labels = np.repeat(10 * np.arange(len(of_class)), 2)
    paths = np.array([f"{number}.jpg" for number in range(len(labels))], dtype=object)
    groups = {10 * number: f"group {group}" for number, group in enumerate(of_class.tolist())}
    test = Split(np.array(["test.jpg"], dtype=object), np.array([10**6]))
    return Dataset("birds", Split(paths, labels, class_groups=groups), test)


def groups_in(split):
    return {split.class_groups[label] for label in split.labels.tolist()}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.8])
def test_whole_groups_are_held_out_as_near_to_the_fraction_as_the_order_allows(seed, fraction):
    dataset = grouped([4, 1, 3, 2, 5])
    train, validation = dataset.hold_out(fraction, seed)
    assert groups_in(train) | groups_in(validation) == {f"group {number}" for number in range(5)}
    assert not groups_in(train) & groups_in(validation)
    # Another group more or less is at most half of the largest group away from the fraction.
    assert abs(validation.num_classes - 15 * fraction) <= 2.5 + 0.5
    assert len(train) + len(validation) == 30


def test_other_seeds_hold_out_other_groups():
    dataset = grouped([1] * 6)
    assert len({frozenset(groups_in(dataset.hold_out(0.5, seed)[1])) for seed in range(10)}) > 3


def test_each_group_is_in_one_fold():
    dataset = grouped([4, 1, 3, 2, 5])
    held = [groups_in(dataset.fold(number, 2, seed=3)[1]) for number in range(2)]
    assert sorted(map(len, held)) == [2, 3] and not held[0] & held[1]


def test_too_few_groups_are_told():
    with pytest.raises(ValueError, match="2 to 3 folds, because the training classes form 3 groups"):
        grouped([2, 2, 2]).fold(0, 4, seed=0)
    with pytest.raises(ValueError, match="training classes of birds are in one group"):
        grouped([6]).hold_out(0.5, seed=0)


def test_groups_stay_with_their_classes():
    train = grouped([2, 1]).train
    kept = train.where(train.labels > 0).numbered()
    assert kept.class_groups == {0: "group 0", 1: "group 1"}
    assert dataclasses.replace(train, class_groups=None).numbered().class_groups is None
