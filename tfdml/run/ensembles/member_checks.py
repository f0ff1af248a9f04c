"""Whether runs belong together, and which classes none of them was trained on."""

import numpy as np

from tfdml.run.experiment.experiment import trained, trained_model
from tfdml.run.experiment.run_comparison import check_alike
from tfdml.run.experiment.splits import validation_seed_of


def check_members(runs, changes):
    """Returns the `Experiment` that all runs are measured by; raises if they do not belong together.

    Args:
        runs: list of `RunDirectory`.
        changes: settings to replace, name to value.
    """
    read, prepared = {}, {}
    for run in runs:
        run.model_file("final")
        source = _source(run)
        known = [experiment for other, experiment in read.values() if other == source]
        if known:
            model = trained_model(run.path, "best", changes)
        else:
            experiment, model = trained(run.path, "best", changes)
            read[str(run.path)] = source, experiment
        prepared[str(run.path)] = model.preprocessing.get_config()
        del model
    check_alike({run_dir: experiment for run_dir, (_, experiment) in read.items()}, "Join")
    (first_dir, first), *others = prepared.items()
    for run_dir, other in others:
        different = [f"{name}={first[name]}, and {other[name]}" for name in first if first[name] != other[name]]
        if different:
            raise ValueError(
                f"{first_dir} and {run_dir} prepare images differently: {'; '.join(different)}. Join runs whose models "
                "take the same images."
            )
    return next(iter(read.values()))[1]


def held_out_by_all(runs, changes):
    """Returns the `Experiment` whose split of evaluation no run was trained on, or None, and why there is none.

    Args:
        runs: list of `RunDirectory`.
        changes: settings to replace, name to value.
    """
    read = {}
    for run in runs:
        settings = run.settings()
        if settings.evaluation.evaluate_on != "validation":
            return None, f"{run.path} holds none out: train with --evaluate_on=validation"
        source = *_source(run), *_held_out_by(settings)
        if source not in [other for other, _ in read.values()]:
            own = {**changes, "evaluate_on": "validation", "folds": settings.evaluation.folds}
            read[str(run.path)] = source, trained(run.path, "best", own, test_only=False)[0]
    (first_dir, (_, first)), *others = read.items()
    for run_dir, (_, other) in others:
        one, another = first.splits.evaluation, other.splits.evaluation
        if not np.array_equal(one.identities, another.identities):
            return None, f"{first_dir} and {run_dir} hold out different ones: train all with one --validation_seed"
    return first, None


def _source(run):
    """Returns the flags that decide which images a run is measured on."""
    data = run.settings().data
    return data.dataset, data.data_dir, data.ignore_images, run.recorded_dataset()


def _held_out_by(settings):
    """Returns the flags that decide which of the training classes are held out."""
    evaluation = settings.evaluation
    seed = validation_seed_of(evaluation, settings.run.seed)
    return evaluation.validation_classes, evaluation.folds, evaluation.fold, seed
