"""The state of a search on disk, its plan, and the settings that it tries."""

import contextlib
import dataclasses
import itertools
import math
import random
from pathlib import Path

from tfdml.console.flags import RECIPE
from tfdml.files.checked import LOCK, damaged, folder_in, locked, read_manifest, write_manifest

# Of the trials of a rung one in so many goes on to the next, which is so many times as long.
ETA = 3
# Epochs of the first rung at least: the first has the time that TensorFlow takes to begin in it.
EPOCHS = 2
# Part of the time that is planned: trials differ in what a step takes.
PLANNED = 0.95
# Rungs, and the fewest trials beside the first that are worth so many: `python -m benchmarks.studies.searchers` finds
# more by many short trials than by few long ones.
SHAPES = ((3, 40), (2, 2))


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds of a trial: of each step, and to start, which means imports, the dataset and evaluation."""

    start: float
    step: float

    def of(self, steps):
        """Returns the seconds of a process that takes so many steps; none if there is nothing to do."""
        return self.start + steps * self.step if steps > 0 else 0.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """Rungs of successive halving.

    `lengths` are the steps that trials have taken at the end of each rung. `drawn` trials begin, and with them the
    first one, the recipe, which climbs all rungs.
    """

    lengths: tuple[int, ...]
    drawn: int

    @classmethod
    def of(cls, rungs, first, drawn):
        """Returns the plan of so many rungs, the first of which ends after so many steps."""
        return cls(tuple(first * ETA**rung for rung in range(rungs)), drawn)

    def seconds(self, cost, begun=0):
        """Returns what all of it takes at a `Cost`, if the first trial has taken `begun` steps already."""
        first = cost.of(self.lengths[0] - begun)
        return first + self.drawn * cost.of(self.lengths[0]) + self.seconds_after(0, self.drawn, cost)

    def seconds_after(self, rung, drawn, cost):
        """Returns what the rungs after one take in which so many trials other than the first were trained."""
        total = 0.0
        for number in range(rung + 1, len(self.lengths)):
            drawn = going_on(drawn)
            total += (1 + drawn) * cost.of(self.lengths[number] - self.lengths[number - 1])
        return total

    def counts(self):
        """Returns the number of trials other than the first of each rung."""
        rungs = range(len(self.lengths) - 1)
        return list(itertools.accumulate(rungs, lambda drawn, _: going_on(drawn), initial=self.drawn))

    def steps(self):
        rungs = zip(self.counts(), self.lengths, (0, *self.lengths), strict=False)
        return sum((1 + drawn) * (length - shorter) for drawn, length, shorter in rungs)

    def in_words(self):
        counts = ["all of them", *(f"the best {drawn}" for drawn in self.counts()[1:])]
        rungs = [f"{count} for {length:,} steps" for count, length in zip(counts, self.lengths, strict=True)]
        alternatives = f"{self.drawn} alternative{'s' * (self.drawn > 1)}"
        return f"the default settings for {self.lengths[-1]:,} steps, and {alternatives}: {', '.join(rungs)}"


def going_on(drawn):
    """Returns how many of so many trials of a rung go on to the next."""
    return max(1, drawn // ETA)


def shortest(epoch):
    """Returns the fewest steps of the first rung."""
    return EPOCHS * epoch


def make_plan(left, cost, epoch, longest, most):
    """Returns the `Plan` with as many trials as fit into the time, or, if all of them fit, with longer trials.

    Their first rung takes about as long as a process needs to start, if that is longer than the shortest. `left`
    seconds are left after the first `shortest(epoch)` steps of the first trial, which had this `Cost`. Lengths are
    multiples of `epoch`, and at most `longest`; `most` trials can be drawn. Raises `TooShort` if the smallest plan
    takes longer.
    """

    def fits(plan):
        return plan.seconds(cost, shortest(epoch)) <= PLANNED * left

    # Of a single one there is nothing to halve.
    for rungs, fewest in SHAPES if most > 1 else ((1, 1),):
        lengths = range(shortest(epoch), longest // ETA ** (rungs - 1) + 1, epoch)
        smallest = [Plan.of(rungs, first, fewest) for first in lengths if fewest <= most]
        if fitting := [plan for plan in smallest if fits(plan)]:
            wanted = cost.start / max(cost.step, 1e-9)
            first = next((plan for plan in fitting if plan.lengths[0] >= wanted), fitting[-1])
            plan = _last_that(fits, [dataclasses.replace(first, drawn=drawn) for drawn in range(fewest, most + 1)])
            longer = [Plan.of(rungs, length, most) for length in lengths if length >= plan.lengths[0]]
            return _last_that(fits, longer) if plan.drawn == most else plan
    raise TooShort(smallest[0], smallest[0].seconds(cost, shortest(epoch)) / PLANNED)


def _last_that(fits, plans):
    """Returns the last plan that fits; each takes longer than the one before, and the first one fits."""
    return list(itertools.takewhile(fits, plans))[-1]


class TooShort(Exception):
    """There is no time for a search: the smallest `Plan` takes the seconds `needed`."""

    def __init__(self, plan, needed):
        super().__init__(plan, needed)
        self.plan, self.needed = plan, needed


# Proxies begin at random, and have to learn faster than a pretrained network.
FASTER = {"lr_multipliers": "loss=100"}
# Flag to its alternatives, each with the other flags that it needs.
SPACE = {
    "loss": [
        {"loss": "n_pair(scale=20.0)"},
        {"loss": "triplet(margin=0.1)"},
        {"loss": "multi_similarity"},
        {"loss": "ranked_list(margin=0.4, negative_temperature=20.0)"},
        {"loss": "proxy_nca(scale=16.0)", **FASTER},
        {"loss": "soft_triple(per_class=2, scale=10.0)", **FASTER},
    ],
    "optimizer": [{"optimizer": f"adam(learning_rate={rate})"} for rate in ("0.0001", "0.0003", "0.001")],
    "method": [{"method": method} for method in (RECIPE["method"], "single")],
    "image_size": [{"image_size": side} for side in (96, 128, 160)],
    "train_transform": [
        {"train_transform": f"random_resized_crop(area=({smallest}, 1.0))|flip"} for smallest in (0.3, 0.5, 0.8)
    ],
}


def draw(first, fixed, seed, space=None):
    """Returns what trials change in the flags of the first one, in random order, each once: `{name: "--name=value"}`.

    `first` are the flags of the first trial, and flags named in `fixed` stay as they are. The default space is `SPACE`.
    """
    choices = [alternatives for name, alternatives in (space or SPACE).items() if name not in fixed]
    different = {}
    for chosen in itertools.product(*choices):
        flags = {name: f"--{name}={value}" for one in chosen for name, value in one.items() if name not in fixed}
        changes = {name: flag for name, flag in flags.items() if flag != first[name]}
        different[tuple(changes.items())] = changes
    drawn = [changes for changes in different.values() if changes]
    random.Random(seed).shuffle(drawn)
    return drawn


# All flags that a trial may change.
NAMES = {name for choices in SPACE.values() for choice in choices for name in choice}


@dataclasses.dataclass(frozen=True)
class RungScore:
    """The score of a trial, numbered from 0, after so many steps, at the end of a rung.

    It is the metric that selects, on the classes that are held out, with its 95% interval over classes, if there is
    one. `cost` belongs to the process that took the last steps; None if it is unknown.
    """

    trial: int
    steps: int
    score: float
    interval: list[float] | None
    cost: Cost | None


@dataclasses.dataclass
class SearchState:
    """The content of `tune.json`.

    Args:
        flags: flags of the first trial and of the search, `{name: "--name=value"}`, by which it is recognized.
        seconds: time that it has taken.
        metric: name of the metric that selects; empty until the first trial is measured.
        changes: for each trial, what it changes in the flags of the first.
        plan: `Plan`; None before the first trial is measured.
        rungs: for each rung that has begun, the numbers of its trials, in their order.
        measured: list of `RungScore`.
        failed: number of a trial to why it failed.
    """

    flags: dict[str, str]
    seconds: float = 0.0
    metric: str = ""
    changes: list[dict[str, str]] = dataclasses.field(default_factory=lambda: [{}])
    plan: Plan | None = None
    rungs: list[list[int]] = dataclasses.field(default_factory=list)
    measured: list[RungScore] = dataclasses.field(default_factory=list)
    failed: dict[int, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, content):
        """Returns the state of a file's content; raises a KeyError, TypeError, ValueError or the like for others."""
        state = cls(**{field.name: content[field.name] for field in dataclasses.fields(cls)})
        state.measured = [_measured(each) for each in state.measured]
        state.failed = {int(number): str(reason) for number, reason in state.failed.items()}
        if state.plan is not None:
            state.plan = _plan(state.plan)
        trials = range(len(state.changes))
        numbers = [*(each.trial for each in state.measured), *state.failed, *sum(state.rungs, [])]
        sound = (
            all(isinstance(line, str) for line in state.flags.values())
            and _is_number(state.seconds)
            and isinstance(state.metric, str)
            and all(map(_may_change, state.changes))
            and all(number in trials for number in numbers)
            and len(state.rungs) <= len(state.plan.lengths if state.plan else ())
        )
        if not sound:
            raise ValueError
        return state

    def at(self, trial, steps):
        """Returns the `RungScore` of a trial after so many steps, or None."""
        return next((each for each in self.measured if (each.trial, each.steps) == (trial, steps)), None)

    def last(self, trial):
        """Returns the last `RungScore` of a trial, or None."""
        of_trial = [each for each in self.measured if each.trial == trial]
        return max(of_trial, key=lambda each: each.steps, default=None)

    def ranked(self):
        """Returns the last `RungScore` of each trial, best first: the longer one, then the higher score."""
        scores = [last for number in range(len(self.changes)) if (last := self.last(number))]
        return sorted(scores, key=lambda each: (-each.steps, -each.score, each.trial))


def _measured(each):
    interval, cost = each["interval"], each["cost"]
    cost = None if cost is None else Cost(**cost)
    numbers = [each["score"], *(interval or ()), *(dataclasses.astuple(cost) if cost else ())]
    if not (all(map(_is_number, numbers)) and isinstance(each["steps"], int) and len(interval or (0, 0)) == 2):
        raise ValueError
    return RungScore(**{**each, "cost": cost})


def _plan(content):
    plan = Plan(tuple(content["lengths"]), content["drawn"])
    numbers = [*plan.lengths, plan.drawn]
    if not plan.lengths or not all(isinstance(number, int) and number > 0 for number in numbers):
        raise ValueError
    return plan


def _is_number(value):
    return isinstance(value, int | float) and math.isfinite(value)


def _may_change(changes):
    """Whether these are flags of the space: others, such as modules to import, could run anybody's code."""
    return all(
        name in NAMES and line.startswith(f"--{name}=") and len(line.splitlines()) == 1
        for name, line in changes.items()
    )


FILE, FORMAT, VERSION = "tune.json", "tfdml search of settings", 1
TIME = "minutes"
# Letters of a flag in an error.
LONGEST = 200
# What a folder may have before it is a search's: a kill may leave it.
BESIDE = (LOCK, f".writing-{FILE}")


class SearchDirectory:
    """`tune.json`, `best.flags` and `trials/` of a search, in a folder that need not exist."""

    def __init__(self, path):
        self.path = Path(path)
        self.best_flags = self.path / "best.flags"
        self._file = self.path / FILE

    def trial(self, number):
        """Returns the run directory of a trial."""
        return folder_in(self.path, "trials", "search") / f"{number:03}"

    def log(self, number):
        return self.trial(number).with_suffix(".log")

    @contextlib.contextmanager
    def claimed(self, flags):
        """A context in which the folder is this search's alone; gives the `SearchState`.

        Raises a ValueError if the folder holds a search with other flags, or something else. The time may change until
        it has been planned.
        """
        is_new = self.path.is_dir() and all(entry.name in BESIDE for entry in self.path.iterdir())
        if self.path.exists() and not self._file.exists() and not is_new:
            raise ValueError(f"--tune_dir={self.path} exists and is no search of tfdml; give a new or empty folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path, "search"):
            state = self._read() if self._file.exists() else SearchState(flags)
            different = [
                f"{' '.join(state.flags.get(name, 'none').split())[:LONGEST]} there, {line} now"
                for name, line in flags.items()
                if state.flags.get(name) != line and (state.plan or name != TIME)
            ]
            if different:
                raise ValueError(
                    f"--tune_dir={self.path} holds a search with other flags ({'; '.join(different)}). Give the same "
                    "flags to go on with it, or another --tune_dir."
                )
            state.flags = flags
            self.trial(0).parent.mkdir(exist_ok=True)
            self.write(state)
            yield state

    def write(self, state):
        write_manifest(self._file, FORMAT, VERSION, dataclasses.asdict(state))

    def _read(self):
        advice = "Give another --tune_dir."
        content = read_manifest(self._file, FORMAT, VERSION, {}, advice)
        try:
            return SearchState.of(content)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise damaged(self._file, "an entry is missing or wrong", advice) from None
