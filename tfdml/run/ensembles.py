"""Trains the members of an ensemble, and joins complete runs to one model."""

import gc
import itertools
import logging
import subprocess
import sys
from typing import NamedTuple

import keras
import numpy as np

from tfdml.console import flags
from tfdml.evaluation import cost
from tfdml.evaluation.evaluate import fit_weights, fuse, unit_length
from tfdml.files.checked import whole_folder
from tfdml.methods.ensembles import MemberEnsemble
from tfdml.run.directory.model_files import save_model
from tfdml.run.directory.run_directory import ENDING, RunDirectory
from tfdml.run.experiment.comparison import check_alike
from tfdml.run.experiment.experiment import AMONG_RUNS, trained, trained_model
from tfdml.run.experiment.splits import on_validation, validation_seed_of
from tfdml.run.loggers import check_client, log_result, write_hparams
from tfdml.run.training.result import diversity_of, write_projector
from tfdml.run.training.run_training import train
from tfdml.run.training.training_process import ERROR, status_of_training


def check_members(runs, changes):
    """Returns the `Experiment` that all runs are measured by; raises if they do not belong together."""
    read, prepared = {}, {}
    for run in runs:
        run.model_file("final")
        source = _images_of(run)
        if any(other == source for other, _ in read.values()):
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
    """Returns the `Experiment` whose split of evaluation no run was trained on, or None, and why there is none."""
    read = {}
    for run in runs:
        settings = run.settings()
        if settings.evaluation.evaluate_on != "validation":
            return None, f"{run.path} holds none out: train with --evaluate_on=validation"
        on_held_out = on_validation(changes, run.path)
        seed = validation_seed_of(settings.evaluation, settings.run.seed)
        source = (*_images_of(run), {**on_held_out, "validation_seed": seed})
        if source not in [other for other, _ in read.values()]:
            read[str(run.path)] = source, trained(run.path, "best", on_held_out, test_only=False)[0]
    (first_dir, (_, first)), *others = read.items()
    for run_dir, (_, other) in others:
        one, another = first.splits.evaluation, other.splits.evaluation
        if not np.array_equal(one.identities, another.identities):
            return None, f"{first_dir} and {run_dir} hold out different ones: train all with one --validation_seed"
    return first, None


def _images_of(run):
    """Returns what decides which images a run is measured on."""
    data = run.settings().data
    return data.dataset, data.data_dir, data.ignore_images, run.recorded_dataset()


def join(runs, out, *, asked, weights=None, fit=False, changes=()):
    """Joins the best and the final models of complete runs, measures them, and writes models and result to `out`.

    There should be `asked` members. Their weights, `alpha` of equation (1) of EDMS, are positive, and 1 if None; with
    `fit`, they are fitted on the validation split that all runs have held out. `changes` replaces settings, see
    `trained`.
    """
    # All are measured as the first one is.
    first = runs[0].settings().evaluation
    measuring = {"protocol": first.protocol, "metrics": first.metrics, "select_by": first.select_by}
    changes = {**AMONG_RUNS, **measuring, **dict(changes)}
    experiment = check_members(runs, changes)
    held_out, why_none = held_out_by_all(runs, changes)
    if fit and held_out is None:
        raise ValueError(f"--fit_weights needs classes that no member was trained on. {why_none}, or give --weights.")
    results = [run.complete_result() for run in runs]
    watched = held_out and _embedded(held_out, held_out.splits.evaluation, runs, results, changes)
    weights, fitted = _fitted(held_out, watched) if fit else (weights or [1.0] * len(runs), {})
    for run, weight in zip(runs, weights, strict=True):
        if not weight:
            LOGGER.info("Left out %s: its fitted weight is 0.", run.path)
    chosen = [place for place, weight in enumerate(weights) if weight]
    members, results, weights = ([each[place] for place in chosen] for each in (runs, results, weights))
    count = len(members)
    test, protocol = experiment.splits.test, experiment.splits.protocol
    embedded = _embedded(experiment, test, members, results, changes).fused(range(count), weights)
    costs = _save(members, weights, out, changes)
    out.record_dataset(runs[0].recorded_dataset())
    if experiment.settings.evaluation.projector:
        write_projector(experiment, embedded.final, out, count)
    bests = [result["best"] for result in results]
    selected = {name: "/".join(sorted({best[name] for best in bests})) for name in ("selected_on", "selected_by")}
    joined = {
        "members": [
            {
                "run_dir": str(run.path),
                "seed": run.settings().run.seed,
                "weight": weight,
                "best": {name: value for name, value in best.items() if isinstance(value, float | int)},
            }
            for run, weight, best in zip(members, weights, bests, strict=True)
        ],
        "asked": asked,
        "metrics": protocol(embedded.final, test),
        "best": {**protocol(embedded.best, test), "step": max(best["step"] for best in bests), **selected},
        **({"validation": _watched(held_out, watched.fused(chosen, weights))} if held_out else {}),
        "selected_on": selected["selected_on"],
        "step": max(result["step"] for result in results),
        **fitted,
        # Also of the first m of them together, Figure 4 of EDMS.
        **({"learners": diversity_of(experiment, embedded.best, count, weights=weights)} if count > 1 else {}),
        "cost": costs,
        "seconds": round(sum(result["seconds"] for result in results), 1),
    }
    out.write_result(joined)
    return joined


def join_aside(runs, out, **options):
    """Joins runs in the folder `out`, which is whole or not there; returns the result, and its `RunDirectory`."""
    with whole_folder(out, "ensemble") as folder:
        unfinished = RunDirectory(folder)
        modules = dict.fromkeys(module for run in runs for module in run.settings().run.import_modules)
        changes = flags.written({"members": len(runs), "import_modules": list(modules)})
        unfinished.claim({**runs[0].serialized(), **changes})
        result = join(runs, unfinished, **options)
    joined = RunDirectory(out)
    write_hparams(joined, result)
    return result, joined


class Embedded(NamedTuple):
    """Embeddings of a split by the final and the best models: of each member in a list, or of all together."""

    final: object
    best: object

    def fused(self, places, weights):
        return Embedded(*(fuse([each[place] for place in places], weights) for each in self))


def _embeddings(experiment, runs, which, split, changes):
    """Returns embeddings `[N, d]` at unit length by the model of each run, one of which is in memory at a time."""
    embeddings = []
    for run in runs:
        model = trained_model(run.path, which, changes)
        embeddings.append(unit_length(experiment.embed(model, split)))
        del model
        gc.collect()
    return embeddings


def _embedded(experiment, split, runs, results, changes):
    finals = _embeddings(experiment, runs, "final", split, changes)
    # If no other model is better, the last step's is the best one too.
    others = [result["best"]["step"] != result["step"] or "blend" in result["best"] for result in results]
    bests = iter(_embeddings(experiment, list(itertools.compress(runs, others)), "best", split, changes))
    return Embedded(finals, [next(bests) if other else final for final, other in zip(finals, others, strict=True)])


def _fitted(held_out, watched):
    """Returns the weights that suit the validation classes best, and what they reach there."""
    split, protocol = held_out.splits.evaluation, held_out.splits.protocol
    name = held_out.monitor
    metric = [metric for metric in protocol.metrics if metric.name == name]

    def measure(fused):
        return protocol(fused, split, metric)[name]

    weights = fit_weights(watched.best, measure)
    reached = {"equal_weights": measure(fuse(watched.best)), "fitted_weights": measure(fuse(watched.best, weights))}
    return weights.tolist(), {"fitted": {"metric": name, **reached, "weights": weights.tolist()}}


def _watched(held_out, embedded):
    """Returns the metrics of the final and the best models together on the validation classes."""
    split, protocol = held_out.splits.evaluation, held_out.splits.protocol
    return {
        "metrics": protocol(embedded.final, split, protocol.while_training),
        "best": protocol(embedded.best, split, protocol.while_training),
    }


def _save(runs, weights, out, changes):
    """Saves the best and the final models of the members as one model each; returns their cost."""
    for which, path in (("final", out.final_model), ("best", out.model)):
        models = [trained_model(run.path, which, changes) for run in runs]
        ensemble = MemberEnsemble(models, weights)
        shape = ensemble.preprocessing.image_shape
        ensemble(keras.KerasTensor((None, *shape)))
        save_model(ensemble, path)
    return {**cost(ensemble, shape), "members": [cost(model, shape) for model in models]}


def ensemble_tables(result):
    """Returns the tables of the result of an ensemble: title to rows, which are name to metrics."""
    count, members = len(result["members"]), result["members"]
    alone = result["learners"]["alone"] if "learners" in result else [result["best"]]
    rows = {member["run_dir"]: metrics for member, metrics in zip(members, alone, strict=True)}
    of = f"{count} members" if count == result["asked"] else f"{count} of {result['asked']} members"
    together = [(f"best of {of}", "best"), (f"final of {of}", "metrics")]
    test = {**rows, **{name: result[kind] for name, kind in together}}
    if "validation" not in result:
        return {"": test}
    return {"validation": {name: result["validation"][kind] for name, kind in together}, "test": test}


LOGGER = logging.getLogger(__name__)


def seed_of(seed, number):
    """Returns the seed of a member; in an ensemble of another seed the same number has another one."""
    # Not their sum: ensembles of neighboring seeds would share all members but one.
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0]) >> 1


def member_flags(settings, serialized, number):
    """Returns the flags of a member, an ordinary run: its seed, and the validation classes that all share."""
    seed = settings.run.seed
    shared = validation_seed_of(settings.evaluation, seed)
    changes = {"members": 0, "seed": seed_of(seed, number), "validation_seed": shared}
    return {**serialized, **flags.written(changes)}


def train_member(settings, run, serialized, number):
    """Trains or resumes one member in this process; returns its result, of several workers to the first."""
    count = settings.run.members
    if not 0 <= number < count:
        raise ValueError(f"--members={count} expects --member from 0 to {count - 1}, received {number}.")
    run.check_members(serialized, lambda each: member_flags(settings, serialized, each))
    of_member = member_flags(settings, serialized, number)
    return train(flags.parse("\n".join(of_member.values()))[0], run.member(number), of_member)


def train_ensemble(settings, run, serialized, more=()):
    """Trains the members that are not complete one after another, each in a process, and joins those that are.

    `run` is an `EnsembleDirectory`, and `more` are other flags for each process. Returns the result of the ensemble, or
    None if no member is complete, and a sentence on members that failed, or `""`.
    """
    if settings.run.devices == "workers":
        raise ValueError("--devices=workers trains one member at a time: give --member=0, then --member=1, and so on.")
    count = settings.run.members
    check_client(settings.run.logger)
    run.check_members(serialized, lambda each: member_flags(settings, serialized, each))
    result = run.joined(count)
    if result is not None:
        LOGGER.info("The ensemble in %s is complete; give another --run_dir to train again.", run.path)
        return result, ""
    failed = _train_missing(settings, run, serialized, more)
    complete = [run.member(number) for number in range(count) if number not in failed]
    if complete:
        run.claim(serialized)
        result = join(complete, run, asked=count, changes={"import_modules": settings.run.import_modules})
        log_result(run, result)
    if not failed:
        return result, ""
    reasons = "; ".join(f"{run.member(number).path}: {reason}" for number, reason in failed.items())
    return result, (
        f"{len(failed)} of {count} members failed: {reasons.rstrip('.')}. Give the same command with "
        f"--member={next(iter(failed))} to train it alone, or without to train all that are missing."
    )


def _train_missing(settings, run, serialized, more):
    """Trains the members that are not complete; returns number to reason of those that failed."""
    failed, count = {}, settings.run.members
    for number in range(count):
        member = run.member(number)
        try:
            is_complete = member.result() is not None
        except ValueError:
            # Its own process says how its file is damaged.
            is_complete = False
        if is_complete:
            LOGGER.info("Member %d of %d is complete: %s", number + 1, count, member.path)
            continue
        LOGGER.info("Member %d of %d: %s", number + 1, count, member.path)
        of_member = member_flags(settings, serialized, number)
        try:
            # The process of a command that was killed may be ending.
            member.check_free(ENDING)
        except ValueError as taken:
            reason = str(taken)
        else:
            reason = run_member([*of_member.values(), f"--run_dir={member.path}", *more])
        if reason and not run.members():
            # The flags do not work together, for no member.
            raise ValueError(reason)
        if reason:
            failed[number] = reason
            LOGGER.warning("Member %d of %d failed: %s", number + 1, count, reason)
    return failed


def run_member(arguments):
    """Trains in a process of its own; returns why it failed, or None. SIGTERM and Ctrl-C stop it, and then this one."""
    last = ""

    def follow(process):
        nonlocal last
        for line in process.stderr:
            last = line.strip() or last
            # Its error is printed with the name of the member.
            if not line.startswith(ERROR):
                sys.stderr.write(line)

    streams = {"stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    status = status_of_training(arguments, follow, "The ensemble stopped with this member.", **streams)
    if not status:
        return None
    return last.removeprefix(ERROR) if status > 0 and last else f"It ended by signal {-status}."
