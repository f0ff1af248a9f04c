"""Searches that can be replayed on recorded learning curves with the same budget of steps."""

import functools
import math
import random
from types import SimpleNamespace
from typing import NamedTuple

from tfdml.run.tuning.outcome import Halving
from tfdml.run.tuning.state import EPOCHS, ETA, Cost, RungScore, SearchState

# Flags that Optuna's sampler selects itself, if each combination of their values was recorded.
CHOSEN = ("loss", "optimizer", "method", "image_size")


class Curve(NamedTuple):
    """The learning curve of a setting.

    Args:
        flags: Dictionary from names of flags to `--name=value`.
        values: Dictionary from steps to the result on validation classes.
        test: Result of the best model on the test classes.
    """

    flags: dict
    values: dict
    test: float

    @property
    def length(self):
        """The number of steps of the whole curve."""
        return max(self.values)

    def best(self, steps):
        """Returns the best value at several steps, each the result of the last evaluation until then."""
        return max(self.values[max(at for at in self.values if at <= step)] for step in steps)


def in_order(curves, seed):
    """Returns the first curve, of the default configuration, and the others in random order."""
    first, *others = curves
    random.Random(seed).shuffle(others)
    return [first, *others]


def recipe(curves, budget, start, seed):
    """Returns the default configuration, without a search."""
    return curves[0]


def random_search(curves, budget, start, seed):
    """Trains the default configuration and random settings to the end, as many as the budget allows."""
    count = int(budget // (curves[0].length + start))
    return max(in_order(curves, seed)[: max(1, count)], key=lambda curve: max(curve.values.values()))


def halving(curves, budget, start, seed):
    """Runs the search of `tfdml.tune`. If the budget is too small, returns the default configuration."""
    ordered, clock, taken = in_order(curves, seed), SimpleNamespace(now=0), {}

    def train(number, steps):
        rungs = taken.setdefault(number, [0])
        clock.now += start + steps - rungs[-1]
        rungs.append(steps)
        return RungScore(number, steps, ordered[number].best(rungs), None, Cost(start, 1))

    state = SearchState({})
    drawn = [{"number": str(number)} for number in range(1, len(ordered))]
    silent = SimpleNamespace(say=lambda *given: None, trained=lambda *given: None)
    # The first rung is at the first evaluation or later.
    epoch = min(at for at in curves[0].values if at) // EPOCHS
    about = {"drawn": drawn, "epoch": epoch, "longest": curves[0].length, "progress": silent}
    try:
        Halving(state, lambda: None, train, seconds=budget, clock=lambda: clock.now, **about).run()
    except ValueError:
        return ordered[0]
    return ordered[state.ranked()[0].trial]


def optuna_search(curves, budget, start, seed, pruner):
    """Runs Optuna with one of its pruners, starting with the default configuration.

    If each combination of the flags in `CHOSEN` is among the curves, Optuna's default sampler draws the settings.
    Otherwise, they are drawn in random order.

    Args:
        pruner: Function that creates the pruner from Optuna and the steps of the first and the last rung.
    """
    # Imported here, because Optuna is part of an extra.
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    length = curves[0].length
    at = min(each for each in curves[0].values if each)
    rungs = [max(at, length // ETA**rung // at * at) for rung in (2, 1, 0)]
    sampler = optuna.samplers.TPESampler(seed=seed)
    pruner = pruner(optuna, rungs[0], length)
    # Hyperband assigns trials to brackets by the name of the study, which would be random.
    study = optuna.create_study(study_name=f"{seed}", direction="maximize", sampler=sampler, pruner=pruner)
    draw = _sampled(study, curves) or _one_by_one(in_order(curves, seed))
    spent, reached = 0, []
    while spent < budget:
        trial = study.ask()
        curve = draw(trial)
        if curve is None:
            break
        spent, value = _train_and_prune(trial, curve, rungs, spent + start, budget)
        study.tell(trial, value, state=optuna.trial.TrialState.PRUNED if value is None else None)
        reached += [(value, curve)] if value is not None else []
    return max(reached, key=lambda each: each[0])[1] if reached else curves[0]


def _one_by_one(ordered):
    """Returns a function from a trial to the next curve, or `None` at the end."""
    left = iter(ordered)
    return lambda trial: next(left, None)


def _sampled(study, curves):
    """Returns a function from a trial to the curve that the sampler suggests, or `None` if curves are missing."""
    keys = {tuple(curve.flags[name] for name in CHOSEN): curve for curve in curves}
    choices = {name: sorted({key[place] for key in keys}) for place, name in enumerate(CHOSEN)}
    if not len(keys) == len(curves) == math.prod(map(len, choices.values())):
        return None
    study.enqueue_trial({name: curves[0].flags[name] for name in CHOSEN})
    return lambda trial: keys[tuple(trial.suggest_categorical(*choice) for choice in choices.items())]


def _train_and_prune(trial, curve, rungs, spent, budget):
    """Trains a trial, and returns the steps spent so far and its value, or `None` if it was not completed."""
    before = 0
    for place, length in enumerate(rungs):
        spent, before = spent + length - before, length
        if spent > budget:
            return spent, None
        trial.report(curve.best([0, *rungs[: place + 1]]), length)
        if length < rungs[-1] and trial.should_prune():
            return spent, None
    return spent, curve.best([0, *rungs])


def _successive_halving(optuna, shortest, longest):
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=shortest, reduction_factor=ETA)


def _hyperband(optuna, shortest, longest):
    return optuna.pruners.HyperbandPruner(min_resource=shortest, max_resource=longest, reduction_factor=ETA)


# The arguments of a search are the curves, starting with the default configuration, the budget in steps, the number of
# steps that count for the start of a process, and a seed. It returns the `Curve` that it selects.
SEARCHES = {
    "default configuration": recipe,
    "random search": random_search,
    "`tfdml.tune`": halving,
    "Optuna, `SuccessiveHalvingPruner`": functools.partial(optuna_search, pruner=_successive_halving),
    "Optuna, `HyperbandPruner`": functools.partial(optuna_search, pruner=_hyperband),
}
