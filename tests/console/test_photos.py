"""Flags that a folder of photos is given."""

import pytest
from absl import flags as absl_flags

from tfdml.console import flags
from tfdml.console.photos import RECIPE, complete


def completed(*arguments, **about):
    values = absl_flags.FlagValues()
    flags.define_training(values)
    values(["train", *arguments])
    return complete(values, **about), values


@pytest.mark.parametrize("divided", [False, True])
def test_flags_that_are_not_given_are_those_of_the_recipe(tmp_path, divided):
    if divided:
        (tmp_path / "test").mkdir()
    told, values = completed(f"--data_dir={tmp_path}", "--loss=circle")
    dataset = "folder" if divided else "folder(test_classes=0.3)"
    assert values["dataset"].value == dataset and f"--dataset={dataset}" in told
    assert values["loss"].value == "circle" and values["method"].value == RECIPE["method"]
    assert len(told) == len(RECIPE) and not any(each.startswith("--loss") for each in told)


def test_another_dataset_has_no_recipe_but_where_it_is_asked_for(tmp_path):
    given = ["--dataset=csv(path='all.csv')", f"--data_dir={tmp_path}"]
    assert completed(*given)[0] == [] == completed()[0]
    told, values = completed(*given, any_dataset=True)
    assert values["dataset"].value == "csv(path='all.csv')" and len(told) == len(RECIPE)
    assert values["optimizer"].value == RECIPE["optimizer"]
