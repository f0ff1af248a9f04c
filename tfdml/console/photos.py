"""Flags that follow from the data, where they are not given: of a folder of photos, and of stored features."""

from pathlib import Path

# What docs/choosing.md advises to begin with.
RECIPE = {
    "backbone": "keras_applications(name='MobileNetV2')",
    "initial_weights": "imagenet",
    "image_size": 128,
    "method": "multilevel",
    "embedding_size": 384,
    "initial_embedding": "auto",
    "loss": "n_pair(scale=20.0)",
    "sampler": "auto",
    "optimizer": "adam(learning_rate=0.0003)",
    "blend": True,
    "evaluate_on": "validation",
}
# Flags about images and depths of a network, which stored features do not have.
OF_IMAGES = ("image_size", "train_transform", "method")
TEST_CLASSES = 0.3
# Classes that validation holds out at least, where there are so many.
VALIDATION = 3
# Two of which train, and two of which choose the best model: with one class every neighbor is right.
FEWEST = 4


def complete(values, *, any_dataset=False):
    """Gives training flags the values of the recipe, where `--data_dir` is given and neither they nor `--dataset` are.

    Args:
        values: absl `FlagValues`.
        any_dataset: whether `--dataset` may be given.

    Returns:
        Texts `--name=value` of the flags that were given values.
    """
    given, named = values["data_dir"].value, values["dataset"].present
    if not given or (named and not any_dataset):
        return []
    if not Path(given).is_dir():
        if named:
            return []
        raise ValueError(
            f"--data_dir={given}: without --dataset that is a folder of photos, and there is no folder there. For a "
            "dataset that makes its files, such as toycars, give --dataset, too."
        )
    folders, train, divided = _classes(Path(given))
    if not (named or values["evaluate_on"].present or values["validation_classes"].present):
        _check_count(given, folders, train, divided)
    recipe = _fitting(_recipe(train, divided), values)
    missing = {name: value for name, value in recipe.items() if not values[name].present}
    for name, value in missing.items():
        values[name].value = value
    return [values[name].serialize() for name in missing]


def check_outside(values, name, folder):
    """Raises a ValueError if a folder that is written to would be read as images, such as one below `--data_dir=.`.

    Args:
        values: absl `FlagValues`.
        name: name of the flag that names it.
        folder: its path.
    """
    dataset, root = values["dataset"].value, Path(values["data_dir"].value).resolve()
    whole = dataset.startswith("photos") or "test_classes=" in dataset
    read = [root] if whole else [root / "train", root / "test"]
    if values["data_dir"].value and dataset.startswith(("folder", "photos")):
        if any(Path(folder).resolve().is_relative_to(each) for each in read):
            raise ValueError(
                f"--{name}={folder} is in --data_dir={values['data_dir'].value}, where all folders are read as images. "
                f"Give --{name}, a folder elsewhere."
            )


def without_network(values):
    """Gives `--backbone` the value identity, where it is not given and the dataset has vectors, not images.

    Args:
        values: absl `FlagValues`.

    Returns:
        Whether it did.
    """
    missing = _has_vectors(values) and not values["backbone"].present
    if missing and not values["initial_model"].value:
        values["backbone"].value = "identity"
    return missing


def _fitting(recipe, values):
    """The part of a recipe that fits flags that are given: to another network, or to features, which need none."""
    backbone = values["backbone"]
    left_out = set()
    if _has_vectors(values):
        left_out = {"backbone", "initial_weights", "blend", *OF_IMAGES}
    elif values["initial_model"].value:
        left_out = {"backbone", "initial_weights"}
    elif backbone.present and not backbone.value.startswith("keras_applications("):
        # Others bring their weights, or have none.
        left_out = {"initial_weights"}
    return {name: value for name, value in recipe.items() if name not in left_out}


def _has_vectors(values):
    return values["dataset"].value.startswith("embeddings(")


def _check_count(root, folders, train, divided):
    if 0 < folders and train < FEWEST:
        what = f"{FEWEST} class folders in {root}/train" if divided else "6 class folders"
        raise ValueError(
            f"{root} has {folders} class folders{' in train' if divided else ''}, too few to hold classes out that "
            f"choose the best model and others for the test. Expected {what} or more."
        )


def _classes(root):
    """Returns how many class folders there are, how many of them train, and whether they are divided."""
    divided = (root / "test").is_dir()
    folders = sum(each.is_dir() for each in (root / "train" if divided else root).glob("[!.]*"))
    return folders, folders if divided else folders - round(folders * TEST_CLASSES), divided


def _recipe(train, divided):
    few = {"validation_classes": round(min(0.5, VALIDATION / train), 2)} if 0 < train < VALIDATION / 0.2 else {}
    return {"dataset": "folder" if divided else f"folder(test_classes={TEST_CLASSES})", **few, **RECIPE}
