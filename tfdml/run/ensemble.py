"""Joins complete runs to an ensemble: one model, and what it reaches."""

import gc
from typing import NamedTuple

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
from tfdml.run.run_directory import RunDirectory

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
    changes = _changes(runs[0].settings(), data_dir)
    experiment = check_members(runs, changes)
    weights, fitted = _fitted(runs, changes) if fit else (weights or [1.0] * len(runs), {})
    members = [Member(run, run.complete_result(), weight) for run, weight in zip(runs, weights, strict=True)]
    for member in members:
        if not member.weight:
            print(f"Left out {member.run.path}: its fitted weight is 0.")
    members = [member for member in members if member.weight]
    weights = [member.weight for member in members]
    final, best = (fuse(each, weights) for each in _test_embeddings(experiment, members, changes))
    costs = _save(members, out, changes)
    out.record_dataset(runs[0].recorded_dataset())
    if experiment.settings.projector:
        write_projector(experiment, final, out)
    test, protocol = experiment.splits.test, experiment.splits.protocol
    selection = _selection([member.result["best"] for member in members])
    result = {
        "members": [_about(member) for member in members],
        "asked": asked,
        "metrics": protocol(final, test),
        "best": {**protocol(best, test), **selection},
        "selected_on": selection["selected_on"],
        "step": max(member.result["step"] for member in members),
        **fitted,
        **_learners(best, test, protocol, weights),
        "cost": costs,
        "seconds": round(sum(member.result["seconds"] for member in members), 1),
    }
    out.write_result(result)
    return result


class Member(NamedTuple):
    """A run of an ensemble, its result, and its weight in the similarity."""

    run: RunDirectory
    result: dict
    weight: float


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


def _test_embeddings(experiment, members, changes):
    """Embeddings of the test split by the final model of each member, and by the best one."""
    test = experiment.splits.test
    finals = _embeddings(experiment, [member.run for member in members], "final", test, changes)
    # The last step's model is the best one, too, where no other is better.
    earlier = [place for place, (_, result, _) in enumerate(members) if result["best"]["step"] != result["step"]]
    bests = _embeddings(experiment, [members[place].run for place in earlier], "best", test, changes)
    replaced = dict(zip(earlier, bests, strict=True))
    return finals, [replaced.get(place, final) for place, final in enumerate(finals)]


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
    reached = {"equal_weights": measure(fuse(embeddings)), "fitted_weights": measure(fuse(embeddings, weights))}
    return weights.tolist(), {"fitted": {"metric": name, **reached, "weights": weights.tolist()}}


def _save(members, out, changes):
    """Saves the best and the final models of the members as one model each; returns their cost."""
    for which, path in (("final", out.final_model), ("best", out.model)):
        models = [trained_model(member.run.path, which, changes) for member in members]
        ensemble = MemberEnsemble(models, [member.weight for member in members])
        size = ensemble.preprocessing.image_size
        ensemble(keras.KerasTensor((None, size, size, 3)))
        save_model(ensemble, path)
    shape = (size, size, 3)
    return {**cost(ensemble, shape), "members": [cost(model, shape) for model in models]}


def _about(member):
    """What the result of an ensemble says of a member."""
    best = {name: value for name, value in member.result["best"].items() if isinstance(value, float | int)}
    return {"run_dir": str(member.run.path), "seed": member.run.settings().seed, "weight": member.weight, "best": best}


def _selection(bests):
    """How the best models of members were selected; the last step of all."""
    selected = {name: "/".join(sorted({best[name] for best in bests})) for name in ("selected_on", "selected_by")}
    return {"step": max(best["step"] for best in bests), **selected}


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
