"""Trains the members of an ensemble and joins complete runs to one model."""

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
    """Returns the `Experiment` that measures all runs. Raises an error if they do not belong together."""
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
        different = [f"{name}={first[name]} and {other[name]}" for name in first if first[name] != other[name]]
        if different:
            raise ValueError(
                f"{first_dir} and {run_dir} preprocess images differently: {'; '.join(different)}. Only join runs with "
                "the same preprocessing."
            )
    return next(iter(read.values()))[1]


def held_out_by_all(runs, changes):
    """Returns the `Experiment` with an evaluation split that no run was trained on, or None and the reason."""
    read = {}
    for run in runs:
        settings = run.settings()
        if settings.evaluation.evaluate_on != "validation":
            return None, f"{run.path} has no validation classes: train with --evaluate_on=validation"
        on_held_out = on_validation(changes, run.path)
        seed = validation_seed_of(settings.evaluation, settings.run.seed)
        source = (*_images_of(run), {**on_held_out, "validation_seed": seed})
        if source not in [other for other, _ in read.values()]:
            read[str(run.path)] = source, trained(run.path, "best", on_held_out, test_only=False)[0]
    (first_dir, (_, first)), *others = read.items()
    for run_dir, (_, other) in others:
        one, another = first.splits.evaluation, other.splits.evaluation
        if not np.array_equal(one.identities, another.identities):
            return (
                None,
                f"{first_dir} and {run_dir} have different ones: train all runs with the same --validation_seed",
            )
    return first, None


def _images_of(run):
    """Returns the settings and the record that determine which images a run is measured on."""
    data = run.settings().data
    return data.dataset, data.data_dir, data.ignore_images, run.recorded_dataset()


def join(runs, out, *, asked, weights=None, fit=False, changes=()):
    """Joins the best and the final models of complete runs, and stores models and result in `out`.

    Args:
        runs: run directories of the members.
        out: run directory of the ensemble.
        asked: number of members that there should be.
        weights: positive weights of the members, `alpha` in equation (1) of EDMS. If None, all are 1.
        fit: whether to fit the weights on the validation split of all runs.
        changes: settings to replace; see `trained`.
    """
    # All runs are measured with the settings of the first run.
    first = runs[0].settings().evaluation
    measuring = {"protocol": first.protocol, "metrics": first.metrics, "select_by": first.select_by}
    changes = {**AMONG_RUNS, **measuring, **dict(changes)}
    experiment = check_members(runs, changes)
    held_out, why_none = held_out_by_all(runs, changes)
    if fit and held_out is None:
        raise ValueError(f"--fit_weights needs classes that no member was trained on. {why_none}, or set --weights.")
    results = [run.complete_result() for run in runs]
    watched = held_out and _embedded(held_out, held_out.splits.evaluation, runs, results, changes)
    weights, fitted = _fitted(held_out, watched) if fit else (weights or [1.0] * len(runs), {})
    for run, weight in zip(runs, weights, strict=True):
        if not weight:
            LOGGER.info("Skipped %s, because its fitted weight is 0.", run.path)
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
        # This includes the first m members together, as in Figure 4 of EDMS.
        **({"learners": diversity_of(experiment, embedded.best, count, weights=weights)} if count > 1 else {}),
        "cost": costs,
        "seconds": round(sum(result["seconds"] for result in results), 1),
        **{name: results[0][name] for name in ("environment", "initial_weights") if name in results[0]},
    }
    out.write_result(joined)
    return joined


def join_aside(runs, out, **options):
    """Joins runs in the folder `out`, which exists only once it is complete; returns result and `RunDirectory`."""
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
    """Embeddings of a split by the final and the best models: lists of each member's or the ensemble's."""

    final: object
    best: object

    def fused(self, places, weights):
        return Embedded(*(fuse([each[place] for place in places], weights) for each in self))


def _embeddings(experiment, runs, which, split, changes):
    """Returns L2-normalized embeddings `[N, d]` by each run's model. Only one model is in memory at a time."""
    embeddings = []
    for run in runs:
        model = trained_model(run.path, which, changes)
        embeddings.append(unit_length(experiment.embed(model, split)))
        del model
        gc.collect()
    return embeddings


def _embedded(experiment, split, runs, results, changes):
    finals = _embeddings(experiment, runs, "final", split, changes)
    # If no other model is better, the final model is also the best one.
    others = [result["best"]["step"] != result["step"] or "blend" in result["best"] for result in results]
    bests = iter(_embeddings(experiment, list(itertools.compress(runs, others)), "best", split, changes))
    return Embedded(finals, [next(bests) if other else final for final, other in zip(finals, others, strict=True)])


def _fitted(held_out, watched):
    """Returns the weights with the best score on the validation classes, and a record of that score."""
    split, protocol = held_out.splits.evaluation, held_out.splits.protocol
    name = held_out.monitor
    metric = [metric for metric in protocol.metrics if metric.name == name]

    def measure(fused):
        return protocol(fused, split, metric)[name]

    weights = fit_weights(watched.best, measure)
    reached = {"equal_weights": measure(fuse(watched.best)), "fitted_weights": measure(fuse(watched.best, weights))}
    return weights.tolist(), {"fitted": {"metric": name, **reached, "weights": weights.tolist()}}


def _watched(held_out, embedded):
    """Returns the metrics of the joined final models and of the joined best models on the validation classes."""
    split, protocol = held_out.splits.evaluation, held_out.splits.protocol
    return {
        "metrics": protocol(embedded.final, split, protocol.while_training),
        "best": protocol(embedded.best, split, protocol.while_training),
    }


def _save(runs, weights, out, changes):
    """Saves the joined best models and the joined final models; returns their cost."""
    for which, path in (("final", out.final_model), ("best", out.model)):
        models = [trained_model(run.path, which, changes) for run in runs]
        ensemble = MemberEnsemble(models, weights)
        shape = ensemble.preprocessing.image_shape
        ensemble(keras.KerasTensor((None, *shape)))
        save_model(ensemble, path)
    return {**cost(ensemble, shape), "members": [cost(model, shape) for model in models]}


def ensemble_tables(result):
    """Returns the tables of an ensemble's result: a dictionary from title to rows, which map names to metrics."""
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
    """Returns the seed of a member, which differs between ensembles with different seeds."""
    # With sums of seed and number, ensembles with neighboring seeds would share all members except one.
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0]) >> 1


def member_flags(settings, serialized, number):
    """Returns the flags of a member, which is a run with its own seed and the ensemble's validation classes."""
    seed = settings.run.seed
    shared = validation_seed_of(settings.evaluation, seed)
    changes = {"members": 0, "seed": seed_of(seed, number), "validation_seed": shared}
    return {**serialized, **flags.written(changes)}


def train_member(settings, run, serialized, number, open_exported=None):
    """Trains or resumes one member in this process and returns its result, as `train` does."""
    count = settings.run.members
    if not 0 <= number < count:
        raise ValueError(f"--member must be from 0 to {count - 1} with --members={count}. Received: --member={number}.")
    run.check_members(serialized, lambda each: member_flags(settings, serialized, each))
    of_member = member_flags(settings, serialized, number)
    return train(flags.parse("\n".join(of_member.values()))[0], run.member(number), of_member, open_exported)


def train_ensemble(settings, run, serialized, more=()):
    """Trains the incomplete members one by one in their own processes. Joins all complete members.

    `run` is an `EnsembleDirectory`, and `more` are additional flags for each process. Returns the result of the
    ensemble, or None if no member is complete, and a sentence about members that failed, or `""`.
    """
    if settings.run.devices == "workers":
        raise ValueError("--devices=workers trains one member per command. Set --member=0, then --member=1, and so on.")
    count = settings.run.members
    check_client(settings.run.logger)
    run.check_members(serialized, lambda each: member_flags(settings, serialized, each))
    result = run.joined(count)
    if result is not None:
        LOGGER.info("The ensemble in %s is complete. To train again, use another --run_dir.", run.path)
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
        f"{len(failed)} of {count} members failed: {reasons.rstrip('.')}. Repeat the command to train all missing "
        f"members, or add --member={next(iter(failed))} to train only that one."
    )


def _train_missing(settings, run, serialized, more):
    """Trains the incomplete members; returns a dictionary from number to reason of the members that failed."""
    failed, count = {}, settings.run.members
    for number in range(count):
        member = run.member(number)
        try:
            is_complete = member.result() is not None
        except ValueError:
            # The member's own process explains how its file is damaged.
            is_complete = False
        if is_complete:
            LOGGER.info("Member %d of %d is complete: %s", number + 1, count, member.path)
            continue
        LOGGER.info("Member %d of %d: %s", number + 1, count, member.path)
        of_member = member_flags(settings, serialized, number)
        try:
            # The training process of a killed command may still be ending.
            member.check_free(ENDING)
        except ValueError as taken:
            reason = str(taken)
        else:
            reason = run_member([*of_member.values(), f"--run_dir={member.path}", *more])
        if reason and not run.members():
            # The flags are invalid, so all members would fail.
            raise ValueError(reason)
        if reason:
            failed[number] = reason
            LOGGER.warning("Member %d of %d failed: %s", number + 1, count, reason)
    return failed


def run_member(arguments):
    """Trains in a new process; returns why it failed, or None. SIGTERM and Ctrl-C stop that process, then this one."""
    last = ""

    def follow(process):
        nonlocal last
        for line in process.stderr:
            last = line.strip() or last
            # An error is not printed here, because it is logged with the number of the member.
            if not line.startswith(ERROR):
                sys.stderr.write(line)

    streams = {"stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    status = status_of_training(arguments, follow, "The ensemble stopped with this member.", **streams)
    if not status:
        return None
    return last.removeprefix(ERROR) if status > 0 and last else f"It ended by signal {-status}."
