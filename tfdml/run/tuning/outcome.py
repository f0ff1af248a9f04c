"""Successive halving, and the outcome of a search with how certain it is."""

import dataclasses
import statistics
import time

from tfdml.console import flags as tfdml_flags
from tfdml.console.command import aligned
from tfdml.files.checked import write_atomically
from tfdml.run.directory.run_directory import MOST_GROUPS, TAKEN
from tfdml.run.experiment.comparison import compare_runs
from tfdml.run.tuning.state import Cost, TooShort, going_on, make_plan, shortest
from tfdml.run.tuning.trials import KILLED, TrialFailed

# The recipe: the flags as they were given.
FIRST = 0


class Halving:
    """A search, which goes on from its state.

    Args:
        state: `SearchState`.
        save: function without arguments that writes the state.
        train: function of the number of a trial and of steps; it trains the trial to so many steps, or goes on with it,
            and returns its `RungScore`, or raises `TrialFailed`.
        seconds: time that the search may take.
        drawn: what trials beside the first change, as `draw` returns it.
        epoch: number of steps of which lengths are multiples.
        longest: steps of the longest trial at most.
        progress: `SearchProgress`.
        clock: function that gives the time in seconds.
    """

    def __init__(self, state, save, train, *, seconds, drawn, epoch, longest, progress, clock=time.monotonic):
        self.state, self._save, self._train = state, save, train
        self.seconds, self.drawn, self.epoch, self.longest = seconds, drawn, epoch, longest
        self.progress, self._clock = progress, clock
        self._seen = clock()

    def tick(self):
        """Counts the time, and saves it: a search that is killed has spent it."""
        now = self._clock()
        self.state.seconds += now - self._seen
        self._seen = now
        self._save()

    def run(self):
        """Trains what is missing."""
        if self.state.measured:
            self.progress.say(f"Going on after {self.state.seconds / 60:.1f} of {self.seconds / 60:g} minutes.")
        self._forget_kills()
        if self.state.plan is None:
            self._begin()
        plan, rungs = self.state.plan, self.state.rungs
        for rung, length in enumerate(plan.lengths):
            if rung == len(rungs):
                rungs.append([FIRST, *self._chosen(rung)])
                self.tick()
            self._climb(rung, length)

    def _forget_kills(self):
        """Lets the current rung train trials again that failed by no error of their own, before this process began."""
        rung, failed = self.state.rungs[-1] if self.state.rungs else [], self.state.failed
        killed = [number for number in rung if failed.get(number, "").startswith((KILLED, TAKEN))]
        for number in killed:
            del failed[number]
        # After those that are measured: what follows a trial needs time. The first one is trained in any case.
        rung.sort(key=lambda number: number in killed and number != FIRST)

    def _begin(self):
        """Trains the first trial as long as the shortest rung is, and plans by what that takes."""
        length = shortest(self.epoch)
        if not self.state.at(FIRST, length):
            self._take(FIRST, length)
        if FIRST in self.state.failed:
            raise ValueError(self.state.failed[FIRST])
        left, cost = self.seconds - self.state.seconds, self._cost()
        try:
            self.state.plan = make_plan(left, cost, self.epoch, self.longest, len(self.drawn))
        except TooShort as short:
            raise ValueError(_too_short(self.seconds, self.state.seconds, length, cost, short)) from None
        self.state.changes += self.drawn[: self.state.plan.drawn]
        self.tick()
        planned = self.state.seconds + self.state.plan.seconds(cost, length)
        self.progress.say(f"The search trains {self.state.plan.told()}: about {planned / 60:.0f} minutes in all.")

    def _chosen(self, rung):
        """The numbers of the trials beside the first that a rung trains, best first."""
        if rung == 0:
            return list(range(1, len(self.state.changes)))
        before = self.state.plan.lengths[rung - 1]
        found = [self.state.at(number, before) for number in self.state.rungs[rung - 1] if number != FIRST]
        found = sorted((each for each in found if each), key=lambda each: -each.score)
        return [each.trial for each in found[: going_on(len(found))]]

    def _climb(self, rung, length):
        """Trains the trials of a rung, one after another; those that no longer fit into the time are left out."""
        numbers = self.state.rungs[rung]
        for place, number in enumerate(numbers):
            if self.state.at(number, length) or number in self.state.failed:
                continue
            # The first one is never left out: everything is compared with it.
            if number != FIRST and not self._fits(rung, number, place):
                self.progress.say(f"No time is left for {len(numbers) - place} of the trials of {length:,} steps.")
                self.state.rungs[rung] = numbers[:place]
                self.tick()
                break
            self._take(number, length)

    def _fits(self, rung, number, place):
        lengths, cost = self.state.plan.lengths, self._cost()
        last = self.state.last(number)
        own = (last and last.cost) or cost
        needed = own.of(lengths[rung] - (last.steps if last else 0))
        return self.state.seconds + needed + self.state.plan.seconds_after(rung, place, cost) <= self.seconds

    def _take(self, number, length):
        last = self.state.last(number)
        try:
            self.state.measured.append(self._train(number, length))
            # It may have failed before, for want of its weights.
            self.state.failed.pop(number, None)
        except TrialFailed as failed:
            self.state.failed[number] = str(failed)
        self.tick()
        self.progress.trained(self.state, number, length, length - (last.steps if last else 0))

    def _cost(self):
        """The `Cost` of a trial by those that were trained."""
        seen = [each.cost for each in self.state.measured if each.cost]
        if not seen:
            # They were complete when the search was stopped.
            return Cost(0.0, 0.0)
        return Cost(statistics.median(each.start for each in seen), statistics.fmean(each.step for each in seen))


def _too_short(seconds, spent, length, cost, short):
    needed = -(-(spent + short.needed) // 60)
    return (
        f"--minutes={seconds / 60:g} are too few: the first {length} steps took {cost.step * length:,.0f} seconds, and "
        f"to start and to measure {cost.start:,.0f} more. The smallest search trains {short.plan.told()}; give "
        f"--minutes={needed:.0f} or more."
    )


RECIPE = "the recipe"
# What a search does not tell.
CAUTION = (
    "The leads are measured on the classes that chose: on other classes expect less. Measure the test once, at the end."
)


@dataclasses.dataclass(frozen=True)
class Lead:
    """How much better the trial that won is than another one.

    Args:
        name: which one the other is, in words.
        difference: of the metric that selects.
        interval: its 95% interval over classes, `[low, high]`, corrected for the choice among all finalists.
    """

    name: str
    difference: float
    interval: list[float]

    @property
    def better(self):
        """Whether the interval is above 0, so that it is sure."""
        return self.interval[0] > 0

    def told(self, metric):
        """Returns a sentence that tells it."""
        low, high = self.interval
        sure = "" if self.better else ", not sure: the interval contains 0"
        how = f"{self.difference:+.3f} (95% interval {low:+.3f} to {high:+.3f}){sure}"
        return f"Its {metric} beside that of {self.name}: {how}."


def finalists(state):
    """Returns the `RungScore` of the trials that were trained longest, best first."""
    ranked = state.ranked()
    return [each for each in ranked if each.steps == ranked[0].steps]


def leads(state, folder, changes):
    """Returns the `Lead` of the trial that won over the recipe, and over the second one.

    The best of many equal trials is ahead by chance. So all finalists are compared with each other, and the intervals
    of all pairs hold together, whichever trial won.

    Args:
        state: `SearchState`.
        folder: `SearchDirectory`.
        changes: settings to replace where runs are measured, name to value.
    """
    winner, *others = finalists(state)
    recipe = [each for each in others if each.trial == FIRST]
    second = [each for each in others[:1] if each not in recipe]
    # Of a metric that is no mean over queries, and of a single class, there is no interval.
    if not others or not winner.interval:
        return []
    # One place is left for the winner. Of more finalists the last ones matter least, but the recipe is always compared.
    rest = [*recipe, *(each for each in others if each not in recipe)][: MOST_GROUPS - 1]
    runs = [[str(folder.trial(each.trial))] for each in (*rest, winner)]
    found = compare_runs(runs, metrics=[state.metric], bootstrap="classes", changes=changes)["metrics"][state.metric]
    several = found.get("pairs", [found])
    # The winner is the last run, the second of its pairs, which are in the order of the others.
    of_winner = [pair for pair in several if pair.get("second") == several[-1].get("second")]
    pairs = {each.trial: pair for each, pair in zip(rest, of_winner, strict=True)}
    named = {RECIPE: recipe, "the second": second}
    found = {name: pairs[each.trial] for name, trials in named.items() for each in trials}
    return [Lead(name, pair["difference"], pair["interval"]) for name, pair in found.items()]


def table(state):
    """Returns a table of all trials, best first."""
    heads = ["rank", "trial", "steps", state.metric.replace("recall_at_", "Recall@"), "95% interval", "flags"]
    rows = [
        [
            str(rank),
            f"{each.trial:03}",
            f"{each.steps:,}",
            f"{each.score:.3f}",
            "{:.3f} to {:.3f}".format(*each.interval) if each.interval else "",
            _about(state, each.trial),
        ]
        for rank, each in enumerate(state.ranked(), 1)
    ]
    failed = [f"Failed: trial {number:03}, {_about(state, number)}: {why}" for number, why in state.failed.items()]
    return "\n".join([aligned([heads, *rows], left=[5]), *failed])


def sentences(state, found):
    """Returns what a search has found, in sentences.

    Args:
        state: `SearchState`.
        found: what `leads` returns.
    """
    winner, *others = finalists(state)
    won = RECIPE if winner.trial == FIRST else f"trial {winner.trial:03}"
    lines = [f"Best of {len(state.ranked())} trials: {won}, {_about(state, winner.trial)}."]
    if won == RECIPE:
        lines = [f"Best of {len(state.ranked())} trials: {RECIPE}; {_beside_recipe(state, others)}."]
    lines += [lead.told(state.metric) for lead in found]
    if len(others) > 1 and found:
        lines.append(f"The intervals are corrected for the choice among the {len(others) + 1} longest trials.")
    if others and not found:
        lines.append(f"How sure that is nobody knows: {state.metric} has no interval here.")
    return [*lines, CAUTION]


def _beside_recipe(state, others):
    """Says what the others were that were not better than the recipe, of which none may be as long."""
    shorter = state.ranked()[1:]
    if others or not shorter:
        return "no other one was better"
    best, then = shorter[0], state.at(FIRST, shorter[0].steps)
    beside = f" beside its {then.score:.3f}" if then else ""
    return (
        f"no time was left to train another one as long. After {best.steps:,} steps trial {best.trial:03}, "
        f"{_about(state, best.trial)}, had {best.score:.3f}{beside}: give more --minutes"
    )


def write_best(state, folder, serialized, longest, epoch=1):
    """Writes the flagfile that trains what won on the real dataset; returns the winner's `RungScore`.

    Args:
        state: `SearchState`.
        folder: `SearchDirectory`.
        serialized: flags of the first trial as they were given, `{name: "--name=value"}`.
        longest: `--steps` as it was given, or 0.
        epoch: number of steps of which all lengths are multiples.
    """
    winner = finalists(state)[0]
    flags = {**serialized, **state.changes[winner.trial]}
    flags["steps"] = f"--steps={longest or length_of(flags, winner.steps, epoch)}"
    defaults = tfdml_flags.resolve([])
    lines = [line for name, line in flags.items() if line != defaults[name]]
    about = f"# Best of {len(state.ranked())} trials of python -m tfdml.tune: {_about(state, winner.trial)}."
    score = (
        f"# {state.metric}: {winner.score:.3f} after {winner.steps:,} steps, on training classes that were held out."
    )
    write_atomically(folder.best_flags, "\n".join([about, score, *lines, ""]).encode())
    return winner


def length_of(flags, steps, epoch=1):
    """Returns the steps of a run that passes over its images as often as a trial of so many steps.

    A run that holds out the same classes for validation has the same images; one that trains on all has more.

    Args:
        flags: flags of the run, `{name: "--name=value"}`.
        steps: steps of the trial.
        epoch: number of which the result is a multiple: of a prime number of steps there would be no epochs.
    """
    evaluation = tfdml_flags.parse("\n".join(flags.values()))[0].evaluation
    if evaluation.evaluate_on == "validation":
        return steps
    return round(steps / (1 - evaluation.validation_classes) / epoch) * epoch


def _about(state, number):
    return " ".join(state.changes[number].values()) or RECIPE
