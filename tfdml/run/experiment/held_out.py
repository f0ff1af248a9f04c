"""The classes that a run has held out for validation, to embed them again."""

from tfdml.run.directory.run_directory import RunDirectory


def on_validation(changes, run_dir, otherwise):
    """Returns settings that evaluate on the validation classes of a run.

    Args:
        changes: settings to use instead of the run's, name to value.
        run_dir: folder of the run.
        otherwise: flag to give where a run has none, for the error.
    """
    settings = RunDirectory(run_dir).settings().evaluation
    if settings.evaluate_on != "validation":
        raise ValueError(
            f"The run in {run_dir} has held out no classes for validation. Train with --evaluate_on=validation, or "
            f"give {otherwise}."
        )
    return {**changes, "evaluate_on": "validation", "folds": settings.folds}
