"""Flags that were set and have no effect."""

from tfdml.console.settings import Settings


def unused_flags(settings):
    """Returns a sentence for each flag that has another value than its default, and no effect beside the others.

    Args:
        settings: `Settings`.
    """
    data, evaluation = settings.data, settings.evaluation
    # Name of a flag to whether it has an effect, and what would give it one. A flagfile may have --validation_seed for
    # those of its runs that validate.
    holds_out = evaluation.evaluate_on == "validation" and not evaluation.folds
    of_images = not data.dataset.startswith("embeddings(")
    images = dict.fromkeys(vars(settings.images).keys() - {"eval_batch_size"}, (of_images, "a dataset of images"))
    needs = {
        **images,
        "validation_classes": (holds_out, "--evaluate_on=validation without --folds"),
        "meta_classes_of": (data.meta_classes > 0, "--meta_classes"),
    }
    values, defaults = settings.values(), Settings().values()
    return [
        f"--{name}={values[name]} has no effect: it needs {need}."
        for name, (is_used, need) in needs.items()
        if not is_used and values[name] != defaults[name]
    ]
