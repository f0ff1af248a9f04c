"""The flags of a run on a folder of photos, for those that are not given."""

import os

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
    "evaluate_on": "validation",
}


def complete(values, *, any_dataset=False):
    """Gives training flags the values of the recipe, where `--data_dir` is given and neither they nor `--dataset` are.

    Args:
        values: absl `FlagValues`.
        any_dataset: whether `--dataset` may be given.

    Returns:
        Texts `--name=value` of the flags that were given values.
    """
    if not values["data_dir"].value or (values["dataset"].present and not any_dataset):
        return []
    divided = os.path.isdir(os.path.join(values["data_dir"].value, "test"))
    recipe = {"dataset": "folder" if divided else "folder(test_classes=0.3)", **RECIPE}
    missing = {name: value for name, value in recipe.items() if not values[name].present}
    for name, value in missing.items():
        values[name].value = value
    return [values[name].serialize() for name in missing]
