"""The recipe of a folder of photos takes the place of flags that are not given."""

from pathlib import Path

import pytest
from absl import flags

from tfdml.console import flags as flags_module
from tfdml.console.flags import define_training, settings_of
from tfdml.console.settings import Settings


def completed(*given, **about):
    """The settings of flags with the recipe, and the flags that it set."""
    values = flags.FlagValues()
    names = define_training(values)
    values(["train", *given])
    recipe = flags_module.complete(values, **about)
    return settings_of(names, values), recipe


def folders(root, count):
    for number in range(count):
        (root / f"class{number:02}").mkdir(parents=True)
    return root


@pytest.mark.parametrize(
    "count, held_out", [(60, 0.2), (30, 0.2), (10, 0.43), (6, 0.5)], ids=["many", "30", "ten", "six"]
)
def test_a_folder_of_classes_is_divided(tmp_path, count, held_out):
    settings, recipe = completed(f"--data_dir={folders(tmp_path, count)}")
    assert settings.data.dataset == "folder(test_classes=0.3)"
    assert settings.evaluation.validation_classes == held_out
    assert {name: settings.values()[name] for name in flags_module.RECIPE} == flags_module.RECIPE
    assert len(recipe) == len(flags_module.RECIPE) + 1 + (held_out != 0.2)
    assert "--sampler=auto" in recipe


def test_the_recipe_is_part_of_the_flags_that_a_run_stores(tmp_path):
    given = [f"--data_dir={folders(tmp_path, 60)}"]
    settings, _ = completed(*given)
    stored, _ = flags_module.parse("\n".join(flags_module.resolve(given).values()))
    assert stored == settings


def test_a_folder_that_is_divided_stays_so(tmp_path):
    folders(tmp_path / "train", 40)
    (tmp_path / "test").mkdir()
    settings, _ = completed(f"--data_dir={tmp_path}")
    assert settings.data.dataset == "folder" and settings.evaluation.validation_classes == 0.2


@pytest.mark.parametrize("count", [1, 3, 5])
def test_too_few_classes_to_hold_some_out(tmp_path, count):
    data = f"--data_dir={folders(tmp_path, count)}"
    with pytest.raises(
        ValueError, match=f"has {count} class folders, which are too few .*Expected 6 class folders or more"
    ):
        completed(data)
    completed(data, "--evaluate_on=test")


def test_too_few_classes_beside_a_test(tmp_path):
    folders(tmp_path / "train", 3)
    (tmp_path / "test").mkdir()
    with pytest.raises(
        ValueError, match="has 3 class folders in train, which are too few .*Expected 4 class folders in .*train"
    ):
        completed(f"--data_dir={tmp_path}")


@pytest.mark.parametrize(
    "dataset, folder, inside",
    [
        ("folder(test_classes=0.3)", "runs/a", True),
        ("photos", "deep/runs/a", True),
        ("folder", "train/run", True),
        ("folder", "runs/a", False),
        ("csv(path='all.csv')", "runs/a", False),
        ("photos", "../runs/a", False),
    ],
)
def test_runs_are_not_among_the_images(tmp_path, monkeypatch, dataset, folder, inside):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path / "photos")
    values = flags.FlagValues()
    define_training(values)
    values(["train", "--data_dir=.", f"--dataset={dataset}"])
    if not inside:
        flags_module.check_outside(values, "run_dir", folder)
        return
    with pytest.raises(ValueError, match=f"--run_dir={folder} is inside --data_dir=.*, where all folders are read as"):
        flags_module.check_outside(values, "run_dir", folder)


def test_what_is_given_stays(tmp_path):
    settings, recipe = completed(f"--data_dir={folders(tmp_path, 60)}", "--image_size=96", "--method=single")
    assert settings.images.image_size == 96 and settings.network.method == "single"
    assert not any(flag.startswith(("--image_size", "--method")) for flag in recipe)


def test_a_missing_folder_is_no_folder_of_photos(tmp_path):
    with pytest.raises(ValueError, match="photos does not exist. Without --dataset, it must be a folder of photos"):
        completed(f"--data_dir={tmp_path / 'photos'}")


@pytest.mark.parametrize("given", ["", "--dataset=toycars --data_dir={}", "--dataset=toycars --data_dir={}/missing"])
def test_without_a_folder_or_with_a_dataset_nothing_changes(tmp_path, given):
    settings, recipe = completed(*given.format(tmp_path).split())
    assert recipe == [] and settings.batches.sampler == "pxk(classes=32, per_class=4)"


def test_the_flagfile_of_photos_is_the_recipe(tmp_path):
    data = f"--data_dir={folders(tmp_path, 60)}"
    settings, recipe = completed(f"--flagfile={Path(__file__).parents[2] / 'configs/photos.flags'}", data)
    assert recipe == [] and settings == completed(data)[0]


def test_another_dataset_has_the_recipe_where_it_is_asked_for(tmp_path):
    given = ["--dataset=csv(path='all.csv')", f"--data_dir={folders(tmp_path, 60)}"]
    settings, recipe = completed(*given, any_dataset=True)
    assert settings.data.dataset == "csv(path='all.csv')" and len(recipe) == len(flags_module.RECIPE)
    assert settings.optimization.optimizer == flags_module.RECIPE["optimizer"]


@pytest.mark.parametrize(
    "given, left_out",
    [
        (["--initial_model=a.keras"], {"backbone", "initial_weights"}),
        (["--backbone=keras_hub(preset='dino_vits8')"], {"backbone", "initial_weights"}),
        (["--backbone=keras_applications(name='ResNet50')"], {"backbone"}),
    ],
)
def test_weights_come_with_the_network_that_is_given(tmp_path, given, left_out):
    settings, recipe = completed(f"--data_dir={folders(tmp_path, 60)}", *given)
    names = {each.removeprefix("--").partition("=")[0] for each in recipe}
    assert set(flags_module.RECIPE) - names == left_out
    assert settings.network.initial_weights == ("" if "initial_weights" in left_out else "imagenet")


def test_of_stored_features_there_is_no_network_to_choose(tmp_path):
    settings, recipe = completed(f"--data_dir={tmp_path}", "--dataset=embeddings(path='features')", any_dataset=True)
    assert settings.values() == {**Settings().values(), **settings.values(), **dict.fromkeys(["blend"], False)}
    assert not {"backbone", "initial_weights", "image_size", "method"} & {each[2:].partition("=")[0] for each in recipe}
