"""Searches that are replayed on recorded learning curves, each with the same budget of steps."""

import functools
import random
from types import SimpleNamespace
from typing import NamedTuple

from benchmarks.studies.rows.tuning import CHOICES, EVERY, FIRST
from tfdml.run.tuning.halving import Halving
from tfdml.run.tuning.plan import ETA, Cost
from tfdml.run.tuning.search_directory import Measured, SearchState

# Flags by which settings differ.
NAMES = (*CHOICES, "lr_multipliers")


class Curve(NamedTuple):
    """The learning curve of a setting.

    Args:
        flags: name to `--name=value`.
        values: steps to what it reached on validation classes.
        test: what its best model reaches on the test.
    """

    flags: dict
    values: dict
    test: float

    @property
    def key(self):
        """What tells the setting from others."""
        return key_of(self.flags)

    def best(self, steps):
        """The best value up to a number of steps, of those at which a search looks."""
        return max(self.values[each] for each in steps)


def key_of(flags):
    """Returns what tells a setting from others."""
    return tuple(flags.get(name, f"--{name}=") for name in NAMES)


def recipe(curves, budget, start, seed):
    """The recipe, without a search."""
    return curves[key_of(FIRST)]


def random_search(curves, budget, start, seed):
    """The recipe and random settings, each trained to its end, as many as the budget has."""
    first, *others = _in_order(curves, seed)
    longest = max(first.values)
    count = int(budget // (longest + start))
    return max([first, *others[: max(0, count - 1)]], key=lambda curve: max(curve.values.values()))


def halving(curves, budget, start, seed):
    """The search of `tfdml.tune`; a budget too small for one leaves the recipe."""
    ordered = _in_order(curves, seed)
    longest, clock, taken = max(ordered[0].values), SimpleNamespace(now=0), {}

    def train(number, steps):
        rungs = taken.setdefault(number, [0])
        clock.now += start + steps - rungs[-1]
        rungs.append(steps)
        return Measured(number, steps, ordered[number].best(rungs), None, Cost(start, 1))

    state = SearchState({})
    drawn = [{"number": str(number)} for number in range(1, len(ordered))]
    silent = SimpleNamespace(say=lambda *given: None, trained=lambda *given: None)
    about = {"seconds": budget, "drawn": drawn, "epoch": EVERY, "longest": longest, "progress": silent}
    try:
        Halving(state, lambda: None, train, clock=lambda: clock.now, **about).run()
    except ValueError:
        return ordered[0]
    return ordered[state.ranked()[0].trial]


def optuna_search(curves, budget, start, seed, pruner):
    """Optuna's default sampler, which begins with the recipe, with one of its pruners.

    Args:
        pruner: function of Optuna, the steps of the first rung and those of the last that makes the pruner.
    """
    # Only here, because it is an extra.
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    longest = max(curves[key_of(FIRST)].values)
    rungs = [longest // ETA**rung // EVERY * EVERY for rung in (2, 1, 0)]
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner(optuna, rungs[0], longest))
    study.enqueue_trial({name: _place_of_first(name) for name in CHOICES})
    spent, chosen = 0, {}
    while spent < budget:
        trial = study.ask()
        flags = dict(FIRST)
        for name, choices in CHOICES.items():
            choice = choices[trial.suggest_categorical(name, list(range(len(choices))))]
            flags |= {flag: f"--{flag}={value}" for flag, value in choice.items()}
        spent += start
        spent, value = _train_and_prune(trial, curves[key_of(flags)], rungs, spent, budget)
        study.tell(trial, value, state=None if value is not None else optuna.trial.TrialState.PRUNED)
        if value is not None:
            chosen[trial.number] = curves[key_of(flags)], value
    return max(chosen.values(), key=lambda each: each[1])[0] if chosen else curves[key_of(FIRST)]


def _train_and_prune(trial, curve, rungs, spent, budget):
    """What is spent after a trial, and its value; None where it was pruned, or the budget is spent."""
    before = 0
    for place, length in enumerate(rungs):
        spent, before = spent + length - before, length
        if spent > budget:
            return spent, None
        trial.report(curve.best([0, *rungs[: place + 1]]), length)
        if length < rungs[-1] and trial.should_prune():
            return spent, None
    return spent, curve.best([0, *rungs])


def _place_of_first(name):
    return next(place for place, choice in enumerate(CHOICES[name]) if f"--{name}={choice[name]}" == FIRST[name])


def _in_order(curves, seed):
    """The recipe, and the others in random order."""
    first = key_of(FIRST)
    others = [curve for key, curve in sorted(curves.items()) if key != first]
    random.Random(seed).shuffle(others)
    return [curves[first], *others]


def _successive_halving(optuna, shortest, longest):
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=shortest, reduction_factor=ETA)


def _hyperband(optuna, shortest, longest):
    return optuna.pruners.HyperbandPruner(min_resource=shortest, max_resource=longest, reduction_factor=ETA)


# Name of a search to a function of the curves, the budget in steps, what the start of a process is worth, and a seed,
# which returns the `Curve` that it has chosen.
SEARCHES = {
    "the recipe": recipe,
    "random search": random_search,
    "tfdml.tune": halving,
    "Optuna, SuccessiveHalvingPruner": functools.partial(optuna_search, pruner=_successive_halving),
    "Optuna, HyperbandPruner": functools.partial(optuna_search, pruner=_hyperband),
}
