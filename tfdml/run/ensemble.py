"""Joins complete runs to an ensemble: one model, and what it reaches."""

import gc

import keras
import numpy as np

from tfdml.evaluation import cost, diversity
from tfdml.evaluation.fusion import fit_weights, fuse
from tfdml.evaluation.metrics.unit_length import unit_length
from tfdml.methods.member_ensemble import MemberEnsemble
from tfdml.run.comparison import check_alike
from tfdml.run.experiment import trained, trained_model
from tfdml.run.model_files import save_model
from tfdml.run.result import print_table, write_projector

# TensorFlow is set up once for all runs.
COMMON = {"deterministic": True, "jit_compile": False}


def join(runs, out, *, asked, weights=None, fit=False, data_dir=""):
    """Joins the best and the final models of complete runs, measures them, and writes models and result.

    Args:
        runs: list of `RunDirectory`, the members.
        out: `RunDirectory` to write to.
        asked: number of members that there should be.
        weights: a positive number for each member, `alpha` of equation (1) of EDMS; None: 1 for all.
        fit: whether to fit the weights on the validation split that all runs have held out, instead.
        data_dir: folder of the dataset; empty: the runs' own.

    Returns:
        The result.
    """
    results = [run.complete_result() for run in runs]
    changes = _changes(runs[0].settings(), data_dir)
    experiment = check_members(runs, changes)
    weights, fitted = _fitted(runs, changes) if fit else (weights or [1.0] * len(runs), {})
    for run, weight in zip(runs, weights, strict=True):
        if not weight:
            print(f"Left out {run.path}: its fitted weight is 0.")
    chosen = [place for place, weight in enumerate(weights) if weight]
    kept = [(runs[place], results[place], weights[place]) for place in chosen]
    runs, results, weights = map(list, zip(*kept, strict=True))
    finals = _embeddings(experiment, runs, "final", experiment.splits.test, changes)
    # The last step's model is the best one, too, where no other is better.
    later = [place for place, result in enumerate(results) if result["best"]["step"] != result["step"]]
    others = _embeddings(experiment, [runs[place] for place in later], "best", experiment.splits.test, changes)
    bests = [dict(zip(later, others, strict=True)).get(place, final) for place, final in enumerate(finals)]
    test, protocol = experiment.splits.test, experiment.splits.protocol
    final, best = fuse(finals, weights), fuse(bests, weights)
    costs = _save(runs, weights, out, changes)
    out.record_dataset(runs[0].recorded_dataset())
    if experiment.settings.projector:
        write_projector(experiment, final, out)
    selected_on = {result["selected_on"] for result in results}
    result = {
        "members": [_member(*each) for each in zip(runs, results, weights, strict=True)],
        "asked": asked,
        "metrics": protocol(final, test),
        "best": {
            **protocol(best, test),
            "step": max(result["best"]["step"] for result in results),
            "selected_on": "/".join(sorted(selected_on)),
            "selected_by": results[0]["best"]["selected_by"],
        },
        "selected_on": "/".join(sorted(selected_on)),
        "step": max(result["step"] for result in results),
        **fitted,
        **_learners(best, test, protocol, weights),
        "cost": costs,
        "seconds": round(sum(result["seconds"] for result in results), 1),
    }
    out.write_result(result)
    return result


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


def _changes(settings, data_dir):
    """The settings of members that are replaced: all are measured as the first one says."""
    about = {name: getattr(settings, name) for name in ("protocol", "metrics", "select_by")}
    return {**COMMON, **about, **({"data_dir": data_dir} if data_dir else {})}


def _source(run):
    """What says which images a run is measured on."""
    settings = run.settings()
    return settings.dataset, settings.data_dir, settings.ignore_images, run.recorded_dataset()


def _embeddings(experiment, runs, which, split, changes):
    """Embeddings `[N, d]` of a split at unit length by the model of each run, of which one at a time is in memory."""
    found = []
    for run in runs:
        model = trained_model(run.path, which, changes)
        found.append(unit_length(experiment.embed(model, split)))
        del model
        gc.collect()
    return found


def _fitted(runs, changes):
    """Returns the weights that suit the validation split best, and what they reach there."""
    experiments = {}
    for run in runs:
        settings = run.settings()
        if settings.evaluate_on != "validation":
            raise ValueError(
                f"--fit_weights needs classes that no member was trained on, but {run.path} holds none out. Train with "
                "--evaluate_on=validation, or give --weights."
            )
        own = {**changes, "evaluate_on": "validation", "folds": settings.folds}
        experiments[str(run.path)] = trained(run.path, "best", own, test_only=False)[0]
    (first_dir, first), *others = experiments.items()
    split = first.splits.evaluation
    for run_dir, other in others:
        if not np.array_equal(split.images, other.splits.evaluation.images):
            raise ValueError(
                f"{first_dir} and {run_dir} hold out different classes, so --fit_weights has no images on which no "
                "member was trained. Train all with one --validation_seed, or give --weights."
            )
    protocol = first.splits.protocol
    name = protocol.selecting(first.settings.select_by)
    metric = [metric for metric in protocol.metrics if metric.name == name]
    embeddings = _embeddings(first, runs, "best", split, changes)

    def measure(fused):
        return protocol(fused, split, metric)[name]

    weights = fit_weights(embeddings, measure)
    equal = measure(fuse(embeddings))
    reached = measure(fuse(embeddings, weights))
    return weights.tolist(), {
        "fitted": {"metric": name, "weights_1": equal, "fitted": reached, "weights": weights.tolist()}
    }


def _save(runs, weights, out, changes):
    """Saves the best and the final models of the runs as one model each; returns their cost."""
    for which, path in (("final", out.final_model), ("best", out.model)):
        members = [trained_model(run.path, which, changes) for run in runs]
        ensemble = MemberEnsemble(members, weights)
        size = ensemble.preprocessing.image_size
        ensemble(keras.KerasTensor((None, size, size, 3)))
        save_model(ensemble, path)
    shape = (size, size, 3)
    return {**cost(ensemble, shape), "members": [cost(member, shape) for member in members]}


def _member(run, result, weight):
    """What the result of an ensemble says of a member."""
    best = {name: value for name, value in result["best"].items() if isinstance(value, float | int)}
    return {"run_dir": str(run.path), "seed": run.settings().seed, "weight": weight, "best": best}


def _learners(embeddings, test, protocol, weights):
    """How members differ, and the first m of them together (Figure 4 of EDMS); of one member nothing."""
    if len(weights) == 1:
        return {}
    found = diversity(
        embeddings,
        test.labels,
        len(weights),
        measure=lambda each: protocol(each, test),
        measure_together=lambda each: protocol(each, test, protocol.while_training),
        weights=weights,
    )
    return {"learners": found}


def print_ensemble(result, run):
    """Prints the table of an ensemble.

    Args:
        result: what `join` returns.
        run: its `RunDirectory`.
    """
    count, members = len(result["members"]), result["members"]
    alone = result["learners"]["alone"] if "learners" in result else [result["best"]]
    rows = {each["run_dir"]: metrics for each, metrics in zip(members, alone, strict=True)}
    of = f"{count} members" if count == result["asked"] else f"{count} of {result['asked']} members"
    print_table("", {**rows, f"best of {of}": result["best"], f"final of {of}": result["metrics"]})
    print(f"\nRun directory: {run.path}")
