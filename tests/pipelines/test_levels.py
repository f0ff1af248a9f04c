"""Levels of classes: where datasets have them, and what makes no hierarchy."""

import numpy as np
import pytest

from pipelines.dataset import Dataset
from pipelines.datasets import Split, load
from pipelines.datasets.cars196 import car_levels
from pipelines.labels import with_levels
from tests.pipelines import tiny_datasets as tiny
from tests.pipelines.tiny_datasets import read

LEVELS = {
    "make": {3: "Audi", 5: "Audi", 6: "BMW"},
    "body": {3: "Sedan", 5: "Coupe", 6: "Sedan"},
    "series": {3: "A", 5: "A"},
}


@pytest.fixture
def dataset():
    labels = np.array([3, 3, 5, 6, 6])
    images = np.array([f"{row}.jpg" for row in range(5)], dtype=object)
    test = Split(images, labels, {3: "S4", 5: "S5", 6: "M3"}, levels=LEVELS)
    return Dataset("cars", None, test)


def test_each_row_has_its_categories_from_coarse_to_fine(dataset):
    found = with_levels(dataset, ("make", "class")).test
    assert found.hierarchy.tolist() == [[0, 0], [0, 0], [0, 1], [1, 2], [1, 2]]
    assert found.level_names == ("make", "class")
    assert found.where(np.array([3, 0])).hierarchy.tolist() == [[1, 2], [0, 0]]
    numbered = found.numbered()
    assert numbered.levels["make"] == {0: "Audi", 1: "Audi", 2: "BMW"}
    np.testing.assert_array_equal(numbered.hierarchy, found.hierarchy)


@pytest.mark.parametrize(
    "names, message",
    [
        (("body", "make"), "form a tree, but make 'Audi' is in several categories of body: Coupe, Sedan"),
        (("class", "make"), "make 'Audi' is in several categories of class: S4, S5"),
        (("series", "class"), "1 classes have no series or several, for example M3"),
        (("make", "wheels"), "Expected levels of the dataset cars.*It has class, make, body, series"),
        (("make", "make"), "each once"),
    ],
)
def test_what_is_no_hierarchy_is_told(dataset, names, message):
    with pytest.raises(ValueError, match=message):
        with_levels(dataset, names)


def test_makes_and_bodies_of_cars():
    names = ["AM General Hummer SUV 2000", "Audi S4 Sedan 2012", "Dodge Ram Pickup 3500 Crew Cab 2010"]
    names += ["Land Rover LR2 SUV 2012", "Hyundai Veloster Hatchback 2012", "Acura Integra Type R 2001"]
    found = car_levels(dict(enumerate(names)))
    assert list(found["make"].values()) == ["AM General", "Audi", "Dodge", "Land Rover", "Hyundai", "Acura"]
    assert list(found["body"].values()) == ["SUV", "Sedan", "Pickup", "SUV", "Hatchback", "Other"]
    assert found["model"][1] == "Audi S4 Sedan 2012"


def test_published_datasets_have_levels(tmp_path):
    tiny.write_sop(tmp_path / "sop")
    assert read("sop", tmp_path / "sop").train.levels == {"category": {1: "chair", 2: "chair", 3: "chair"}}
    tiny.write_cars_one_folder(tmp_path / "cars")
    levels = read("cars196", tmp_path / "cars").test.levels
    assert levels["make"] == {1: "Car", 2: "Car", 3: "Car", 4: "Car"} and levels["model"][3] == "Car C"


def test_columns_of_a_table_are_levels(tmp_path, write_images):
    files = {
        f"{part}/{name}/{n}.jpg": (8, 8)
        for part, name in (("train", "wren"), ("train", "crow"), ("test", "owl"))
        for n in "ab"
    }
    folder = write_images(tmp_path / "birds", files)
    (folder / "classes.csv").write_text("class,family,size\nwren,a,small\ncrow,b,large\nowl,b,large\ncrow,b,small\n")
    dataset = load("folder", data_dir=folder)
    assert dataset.train.levels["family"] == {0: "b", 1: "a"}
    assert with_levels(dataset, ("family", "class")).train.hierarchy.tolist() == [[1, 0]] * 2 + [[0, 1]] * 2
    with pytest.raises(ValueError, match="have no size or several, for example crow"):
        with_levels(dataset, ("size", "class"))
    # A table of another kind is nobody's business.
    (folder / "classes.csv").write_text("name,price\nwren,3\n")
    assert load("folder", data_dir=folder).train.levels is None
