"""Toy cars whose classes fall into groups with deciding parts of their own."""

from collections import Counter

import numpy as np
import pytest

from pipelines.datasets.toycars import DECIDING_PARTS, MOST_CLASSES, Design, completed, grouped_designs, toycars
from pipelines.datasets.toycars_drawing import BODIES, PARTS


def test_every_body_has_deciding_parts_of_its_own():
    assert DECIDING_PARTS.keys() == BODIES.keys()
    assert len(set(DECIDING_PARTS.values())) == len(BODIES)


@pytest.mark.parametrize("classes", [2, 41, MOST_CLASSES])
def test_classes_differ_in_the_deciding_parts_alone(classes):
    chosen = grouped_designs(Design, classes, seed=3)
    assert len(set(chosen)) == len(chosen) == classes
    for design in chosen:
        assert {part for part in PARTS if getattr(design, part) is not None} == set(DECIDING_PARTS[design.body])


def test_groups_are_of_equal_size_and_side_by_side_in_each_half():
    bodies = [design.body for design in grouped_designs(Design, 200, seed=0)]
    assert set(Counter(bodies).values()) == {25}
    for half in (bodies[:100], bodies[100:]):
        assert set(Counter(half).values()) <= {12, 13}
        assert len([1 for one, next_one in zip(half, half[1:], strict=False) if one != next_one]) == 7


def test_other_parts_vary_and_deciding_ones_stay():
    design = grouped_designs(Design, 8, seed=0)[0]
    drawn = [completed(design, np.random.default_rng(seed)) for seed in range(200)]
    for part in PARTS:
        kinds = {getattr(each, part) for each in drawn}
        assert kinds == ({getattr(design, part)} if part in DECIDING_PARTS[design.body] else set(PARTS[part]))


def test_the_dataset_has_the_groups_and_pictures_of_its_own(tmp_path):
    size = {"classes": 16, "images_per_class": 2, "image_size": 16, "data_dir": tmp_path}
    dataset, plain = toycars(grouped=True, **size), toycars(**size)
    names = dataset.train.class_names
    assert dataset.train.class_groups == {label: name.split(", ")[0] for label, name in names.items()}
    assert plain.train.class_groups is None
    assert not set(dataset.train.images) & set(plain.train.images)
    # From the cache.
    np.testing.assert_array_equal(toycars(grouped=True, **size).test.images, dataset.test.images)


def test_too_many_classes_are_told(tmp_path):
    with pytest.raises(ValueError, match=f"at most {MOST_CLASSES} classes, received {MOST_CLASSES + 1}"):
        toycars(grouped=True, classes=MOST_CLASSES + 1, data_dir=tmp_path)
