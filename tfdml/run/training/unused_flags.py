"""Flags that were set and have no effect."""

from tfdml.console import flags


def unused_flags(settings):
    """Returns a sentence for each flag that has another value than its default, and no effect beside the others.

    Args:
        settings: namespace with the flags' values.
    """
    validates, folds = settings.evaluate_on == "validation", settings.folds > 0
    # Name of a flag to whether it has an effect, and what would give it one. A flagfile may have --validation_seed for
    # those of its runs that validate.
    needs = {
        "validation_classes": (validates and not folds, "--evaluate_on=validation without --folds"),
        "meta_classes_of": (settings.meta_classes > 0, "--meta_classes"),
    }
    defaults, _ = flags.parse("")
    return [
        f"--{name}={getattr(settings, name)} has no effect: it needs {need}."
        for name, (is_used, need) in needs.items()
        if not is_used and getattr(settings, name) != getattr(defaults, name)
    ]
