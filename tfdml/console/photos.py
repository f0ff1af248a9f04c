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
    recipe = _fitting(_recipe(Path(given)), values)
    missing = {name: value for name, value in recipe.items() if not values[name].present}
    for name, value in missing.items():
        values[name].value = value
    return [values[name].serialize() for name in missing]


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


def _recipe(root):
    divided = (root / "test").is_dir()
    folders = sum(each.is_dir() for each in (root / "train" if divided else root).glob("[!.]*"))
    train = folders if divided else folders * (1 - TEST_CLASSES)
    few = {"validation_classes": round(min(0.5, VALIDATION / train), 2)} if 0 < train < VALIDATION / 0.2 else {}
    return {"dataset": "folder" if divided else f"folder(test_classes={TEST_CLASSES})", **few, **RECIPE}
