"""Successive halving, and the outcome of a search with its confidence intervals."""

import dataclasses
import statistics
import time

from tfdml.console import flags as tfdml_flags
from tfdml.console import scores
from tfdml.console.command import aligned
from tfdml.files.checked import write_atomically
from tfdml.run.directory.run_directory import MOST_GROUPS, TAKEN
from tfdml.run.experiment.comparison import compare_runs
from tfdml.run.tuning.state import SHAPES, Cost, TooShort, going_on, make_plan, shortest
from tfdml.run.tuning.trials import KILLED, TrialFailed

# The number of the trial with the default settings, except for the flags that the user has set.
FIRST = 0


class Halving:
    """A search, which resumes from its `SearchState`.

    `save` writes the state. `train` accepts the number of a trial and a number of steps, trains the trial up to that
    step, and returns its `RungScore` or raises `TrialFailed`. `drawn` are the alternatives from `draw`. Lengths are
    multiples of `epoch` steps and at most `longest`. Unless it `halves`, all trials have the same length. `clock`
    returns the time in seconds.
    """

    def __init__(
        self, state, save, train, *, seconds, drawn, epoch, longest, progress, halves=True, clock=time.monotonic
    ):
        self.shapes = SHAPES if halves else ((1, len(drawn)),)
        self.state, self._save, self._train = state, save, train
        self.seconds, self.drawn, self.epoch, self.longest = seconds, drawn, epoch, longest
        self.progress, self._clock = progress, clock
        self._seen = clock()

    def tick(self):
        """Counts and saves the time, so that it is not lost if the search is killed."""
        now = self._clock()
        self.state.seconds += now - self._seen
        self._seen = now
        self._save()

    def run(self):
        if self.state.measured:
            self.progress.say(f"Resuming after {self.state.seconds / 60:.1f} of {self.seconds / 60:g} minutes.")
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
        """Makes the current rung retry trials of an earlier process that were killed."""
        rung, failed = self.state.rungs[-1] if self.state.rungs else [], self.state.failed
        killed = [number for number in rung if failed.get(number, "").startswith((KILLED, TAKEN))]
        for number in killed:
            del failed[number]
        # Retry them last, so that they take no time from the others. The first trial is always trained.
        rung.sort(key=lambda number: number in killed and number != FIRST)

    def _begin(self):
        """Trains the first trial to the end of the shortest rung, and plans the search by the time that this needs."""
        length = shortest(self.epoch)
        if not self.state.at(FIRST, length):
            self._take(FIRST, length)
        if FIRST in self.state.failed:
            raise ValueError(self.state.failed[FIRST])
        left, cost = self.seconds - self.state.seconds, self._cost()
        try:
            self.state.plan = make_plan(left, cost, self.epoch, self.longest, len(self.drawn), self.shapes)
        except TooShort as short:
            raise ValueError(
                f"--minutes={self.seconds / 60:g} is too short for a search. The first {length} steps took "
                f"{cost.step * length:,.0f} seconds, and starting and evaluating took {cost.start:,.0f} seconds. The "
                f"smallest search trains {short.plan.in_words()}. Set --minutes="
                f"{-(-(self.state.seconds + short.needed) // 60):.0f} or more."
            ) from None
        self.state.changes += self.drawn[: self.state.plan.drawn]
        self.tick()
        planned = self.state.seconds + self.state.plan.seconds(cost, length)
        self.progress.say(f"The search trains {self.state.plan.in_words()}. It takes about {planned / 60:.0f} minutes.")

    def _chosen(self, rung):
        """Returns the numbers of the alternatives that a rung trains, best first."""
        if rung == 0:
            return list(range(1, len(self.state.changes)))
        before = self.state.plan.lengths[rung - 1]
        scores = [self.state.at(number, before) for number in self.state.rungs[rung - 1] if number != FIRST]
        scores = sorted(filter(None, scores), key=lambda each: -each.score)
        return [each.trial for each in scores[: going_on(len(scores))]]

    def _climb(self, rung, length):
        """Trains the trials of a rung, one after another, and drops those that no longer fit into the time."""
        numbers = self.state.rungs[rung]
        for place, number in enumerate(numbers):
            if self.state.at(number, length) or number in self.state.failed:
                continue
            # The first trial is never dropped, because all others are compared with it.
            if number != FIRST and not self._fits(rung, number, place):
                self.progress.say(f"No time is left for {len(numbers) - place} of the trials with {length:,} steps.")
                self.state.rungs[rung] = numbers[:place]
                self.tick()
                break
            self._take(number, length)

    def _fits(self, rung, number, place):
        plan, last, cost = self.state.plan, self.state.last(number), self._cost()
        needed = ((last and last.cost) or cost).of(plan.lengths[rung] - (last.steps if last else 0))
        return self.state.seconds + needed + plan.seconds_after(rung, place, cost) <= self.seconds

    def _take(self, number, length):
        last = self.state.last(number)
        try:
            self.state.measured.append(self._train(number, length))
            # It may have failed before, for example because weights could not be downloaded.
            self.state.failed.pop(number, None)
        except TrialFailed as failed:
            self.state.failed[number] = str(failed)
        self.tick()
        self.progress.trained(self.state, number, length, length - (last.steps if last else 0))

    def _cost(self):
        """Returns the typical `Cost` of a trial."""
        seen = [each.cost for each in self.state.measured if each.cost]
        if not seen:
            # All trials were complete when the search resumed.
            return Cost(0.0, 0.0)
        return Cost(statistics.median(each.start for each in seen), statistics.fmean(each.step for each in seen))


RECIPE = "the default settings"
CAUTION = (
    "These scores are measured on the same validation classes that selected the best trial, so expect smaller "
    "improvements on new classes. Evaluate on the test set only once, at the end."
)


@dataclasses.dataclass(frozen=True)
class Lead:
    """How much better the best trial is than another trial, in the metric that selects.

    The 95% confidence interval over classes is corrected for the choice among all finalists.
    """

    name: str
    difference: float
    interval: list[float]

    @property
    def better(self):
        """Whether the whole interval is above 0."""
        return self.interval[0] > 0

    def in_words(self, metric):
        chance = "" if self.better else " The interval contains 0, so the difference may be due to chance."
        ci = f"95% CI {scores.interval(metric, self.interval, sign='+')}"
        lead = f"{scores.difference(metric, self.difference)} ({ci})"
        return f"{scores.titled(metric)} compared with {self.name}: {lead}.{chance}"


def finalists(state):
    """Returns the `RungScore` of the trials that were trained longest, best first."""
    ranked = state.ranked()
    return [each for each in ranked if each.steps == ranked[0].steps]


def leads(state, folder, changes, named=None):
    """Returns the `Lead` of the best trial over others, `named` as pairs of a name and a trial number.

    If `named` is None, the others are the default settings and the second-best trial.

    The best of many equal trials is ahead by chance. So all finalists are compared with each other, with simultaneous
    intervals that hold whichever trial is the best. `changes` replaces settings of the runs that are measured.
    """
    winner, *others = finalists(state)
    # There is no interval for a single class, or for a metric that is not a mean over queries.
    if not others or not winner.interval:
        return []
    if named is None:
        recipe = [(RECIPE, FIRST) for each in others if each.trial == FIRST]
        named = recipe + [("the second-best trial", each.trial) for each in others[:1] if each.trial != FIRST]
    asked = {trial: place for place, (_, trial) in enumerate(named)}
    # The last place is for the winner. If there are too many finalists, the worst are dropped, but never a named trial.
    rest = sorted(others, key=lambda each: asked.get(each.trial, len(asked)))[: MOST_GROUPS - 1]
    runs = [[str(folder.trial(each.trial))] for each in (*rest, winner)]
    compared = compare_runs(runs, metrics=[state.metric], bootstrap="classes", changes=changes)["metrics"][state.metric]
    pairs = compared.get("pairs", [compared])
    # The winner is the last run, the second of its pairs, which are in the order of the others.
    of_winner = [pair for pair in pairs if pair.get("second") == pairs[-1].get("second")]
    by_trial = {each.trial: pair for each, pair in zip(rest, of_winner, strict=True)}
    return [
        Lead(name, by_trial[trial]["difference"], by_trial[trial]["interval"])
        for name, trial in named
        if trial in by_trial
    ]


def table(state):
    """Returns a table of all trials, best first."""
    heads = ["rank", "trial", "steps", scores.titled(state.metric), "95% CI", "flags"]
    rows = []
    for rank, each in enumerate(state.ranked(), 1):
        interval = scores.interval(state.metric, each.interval) if each.interval else ""
        score = scores.score(state.metric, each.score)
        numbers = [str(rank), f"{each.trial:03}", f"{each.steps:,}", score, interval]
        rows.append([*numbers, _changes(state, each.trial)])
    failed = [f"Failed: trial {number:03}, {_changes(state, number)}: {why}" for number, why in state.failed.items()]
    return "\n".join([aligned([heads, *rows], left=[5]), *failed])


def sentences(state, found):
    """Returns sentences about the best trial and its `leads`."""
    winner, *others = finalists(state)
    best = f"trial {winner.trial:03}, {_changes(state, winner.trial)}."
    if winner.trial == FIRST:
        best = f"{RECIPE}. {_alternatives(state, others)}"
    lines = [f"Best of {len(state.ranked())} trials: {best}", *(lead.in_words(state.metric) for lead in found)]
    if len(others) > 1 and found:
        lines.append(f"The intervals are corrected for the choice among the {len(others) + 1} longest trials.")
    if others and not found:
        name = scores.titled(state.metric)
        lines.append(f"No confidence interval can be computed for {name} here, so the lead may be due to chance.")
    return [*lines, CAUTION]


def _alternatives(state, others):
    """Returns sentences about the other trials if the first trial is the best; perhaps none of them is as long."""
    shorter = state.ranked()[1:]
    if others or not shorter:
        return "No alternative was better."
    best, then = shorter[0], state.at(FIRST, shorter[0].steps)
    compared = f", compared with {scores.score(state.metric, then.score)} for {RECIPE}" if then else ""
    return (
        f"No time was left to train an alternative for the same number of steps. After {best.steps:,} steps, trial "
        f"{best.trial:03}, {_changes(state, best.trial)}, had {scores.titled(state.metric)} "
        f"{scores.score(state.metric, best.score)}{compared}. Set a larger --minutes to train it longer."
    )


def write_best(state, folder, serialized, longest, epoch=1):
    """Writes a flagfile that trains with the settings of the best trial on all images; returns its `RungScore`.

    `serialized` are the flags of the first trial, and `longest` is the value of `--steps` or 0. All lengths are
    multiples of `epoch` steps.
    """
    winner = finalists(state)[0]
    flags = {**serialized, **state.changes[winner.trial]}
    flags["steps"] = f"--steps={longest or length_of(flags, winner.steps, epoch)}"
    defaults = tfdml_flags.resolve([])
    lines = [line for name, line in flags.items() if line != defaults[name]]
    heads = [
        f"# Best of {len(state.ranked())} trials of python -m tfdml.tune: {_changes(state, winner.trial)}.",
        f"# {state.metric}: {winner.score:.3f} after {winner.steps:,} steps, on training classes that were held out.",
    ]
    write_atomically(folder.best_flags, "\n".join([*heads, *lines, ""]).encode())
    return winner


def length_of(flags, steps, epoch=1):
    """Returns the number of steps with which a run sees each image as often as a trial with `steps` steps.

    A run that holds out the same classes for validation has the same images; a run that trains on all classes has more.
    The result is a multiple of `epoch`, because a prime number of steps could not be divided into epochs.
    """
    evaluation = tfdml_flags.parse("\n".join(flags.values()))[0].evaluation
    if evaluation.evaluate_on == "validation":
        return steps
    return round(steps / (1 - evaluation.validation_classes) / epoch) * epoch


def _changes(state, number):
    return " ".join(state.changes[number].values()) or RECIPE
