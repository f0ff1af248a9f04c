"""The state of a search on disk, its plan, and its search space."""

import contextlib
import dataclasses
import itertools
import math
import random
from pathlib import Path

from tfdml.console.flags import RECIPE
from tfdml.files.checked import LOCK, damaged, folder_in, locked, read_manifest, write_manifest

# Successive halving: one in this many trials reaches the next rung, which is this many times as long.
ETA = 3
# Minimum number of epochs in the first rung, because the first epoch includes the startup of TensorFlow.
EPOCHS = 2
# Fraction of the time to plan for, because trials differ in the duration of a step.
PLANNED = 0.95
# Numbers of rungs, each with the minimum number of alternatives for it: many short trials find better settings than a
# few long ones, see `python -m benchmarks.studies.searchers`.
SHAPES = ((3, 40), (2, 2))


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds that a trial needs: per step, and to start, which includes imports, the dataset and evaluation."""

    start: float
    step: float

    def of(self, steps):
        """Returns the seconds that a process with this many steps needs, or 0 if there is nothing to do."""
        return self.start + steps * self.step if steps > 0 else 0.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """Rungs of successive halving.

    `lengths` are the total steps at the end of each rung, and `drawn` is the number of alternatives. The first trial,
    which has the default settings, is trained in all rungs as well.
    """

    lengths: tuple[int, ...]
    drawn: int

    @classmethod
    def of(cls, rungs, first, drawn):
        """Returns a plan with this number of rungs; the first one ends after `first` steps."""
        return cls(tuple(first * ETA**rung for rung in range(rungs)), drawn)

    def seconds(self, cost, begun=0):
        """Returns the seconds of the whole plan at a `Cost` if the first trial has done some steps already."""
        first = cost.of(self.lengths[0] - begun)
        return first + self.drawn * cost.of(self.lengths[0]) + self.seconds_after(0, self.drawn, cost)

    def seconds_after(self, rung, drawn, cost):
        """Returns the seconds of all rungs after `rung`, in which `drawn` alternatives were trained."""
        total = 0.0
        for number in range(rung + 1, len(self.lengths)):
            drawn = going_on(drawn)
            total += (1 + drawn) * cost.of(self.lengths[number] - self.lengths[number - 1])
        return total

    def counts(self):
        """Returns the number of alternatives in each rung."""
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
    """Returns how many of the alternatives of a rung are trained in the next one."""
    return max(1, drawn // ETA)


def shortest(epoch):
    """Returns the minimum number of steps in the first rung."""
    return EPOCHS * epoch


def make_plan(left, cost, epoch, longest, most, shapes=SHAPES):
    """Returns the `Plan` with the most trials that fit into the time or, if all of them fit, with longer trials.

    The first rung takes at least about as long as a process needs to start. Raises `TooShort` if even the smallest plan
    takes too long.

    Args:
        left: Seconds left after the first `shortest(epoch)` steps of the first trial.
        cost: `Cost` of that trial.
        epoch: Steps per epoch; all lengths are multiples of it.
        longest: Maximum number of steps.
        most: Number of available alternatives.
        shapes: Pairs of a number of rungs and the minimum number of alternatives for it.
    """

    def fits(plan):
        return plan.seconds(cost, shortest(epoch)) <= PLANNED * left

    # With a single alternative, there is nothing to halve.
    for rungs, fewest in shapes if most > 1 else ((1, 1),):
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
    """Returns the last plan that fits. The plans are sorted by duration, and the first one fits."""
    return list(itertools.takewhile(fits, plans))[-1]


class TooShort(Exception):
    """Raised if the time is too short for a search. The smallest `Plan` needs `needed` seconds."""

    def __init__(self, plan, needed):
        super().__init__(plan, needed)
        self.plan, self.needed = plan, needed


# Proxies start from random values and must learn faster than a pretrained network.
FASTER = {"lr_multipliers": "loss=100"}
# Alternatives for each flag, with the other flags that they need.
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
    """Returns the different alternatives to the first trial in random order, as `{name: "--name=value"}`.

    `first` are the flags of the first trial. Flags named in `fixed` do not change. The default space is `SPACE`.
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


# The start of all flags that a trial may change. Among datasets, only stored features can be compared.
STARTS = {name: f"--{name}=" for choices in SPACE.values() for choice in choices for name in choice}
STARTS |= {"initial_embedding": "--initial_embedding=", "dataset": "--dataset=embeddings("}


@dataclasses.dataclass(frozen=True)
class RungScore:
    """The score of a trial at the end of a rung.

    It is the metric that selects, measured on held-out classes, with its 95% confidence interval over classes or None.
    `trial` is the number of the trial from 0, and `steps` is its length so far. `cost` is the cost of the last process,
    or None if it is unknown.
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
        flags: Flags of the first trial and of the search, `{name: "--name=value"}`, which identify the search.
        seconds: Time that the search has taken so far.
        metric: Name of the metric that selects. Empty until the first trial is measured.
        changes: For each trial, the flags in which it differs from the first one.
        plan: `Plan`, or None before the first trial is measured.
        rungs: For each rung that has started, the numbers of its trials, in order.
        measured: List of `RungScore`.
        failed: Reasons why trials failed, by their numbers.
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
        """Returns the state from the content of a file; raises a KeyError, TypeError or ValueError if it is invalid."""
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
        """Returns the `RungScore` of a trial after this number of steps, or None."""
        return next((each for each in self.measured if (each.trial, each.steps) == (trial, steps)), None)

    def last(self, trial):
        """Returns the last `RungScore` of a trial, or None."""
        of_trial = [each for each in self.measured if each.trial == trial]
        return max(of_trial, key=lambda each: each.steps, default=None)

    def ranked(self):
        """Returns the last `RungScore` of each trial, sorted by length and then by score, best first."""
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
    """Whether these flags are in the search space. Others, such as --import_modules, could run malicious code."""
    return all(
        name in STARTS and line.startswith(STARTS[name]) and len(line.splitlines()) == 1
        for name, line in changes.items()
    )


FILE, FORMAT, VERSION = "tune.json", "tfdml search of settings", 1
TIME = "minutes"
# Maximum length of a flag in an error message.
LONGEST = 200
# Files that an interrupted search may leave in an otherwise empty folder.
BESIDE = (LOCK, f".writing-{FILE}")


class SearchDirectory:
    """The directory of a search, with `tune.json`, `best.flags` and `trials/`; it need not exist yet."""

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
        """Returns a context with the `SearchState` in which no other process uses the directory.

        Raises a ValueError if the directory contains a search with other flags or something else. `--minutes` may
        change until the search is planned.
        """
        is_new = self.path.is_dir() and all(entry.name in BESIDE for entry in self.path.iterdir())
        if self.path.exists() and not self._file.exists() and not is_new:
            raise ValueError(
                f"--tune_dir={self.path} exists but is not a tfdml search directory. Use a new or empty folder."
            )
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
                    f"--tune_dir={self.path} contains a search with other flags ({'; '.join(different)}). Use the same "
                    "flags to resume it, or another --tune_dir."
                )
            state.flags = flags
            # First, because a folder with trials alone is not recognized as a search.
            self.write(state)
            self.trial(0).parent.mkdir(exist_ok=True)
            yield state

    def write(self, state):
        write_manifest(self._file, FORMAT, VERSION, dataclasses.asdict(state))

    def _read(self):
        advice = "Use another --tune_dir."
        content = read_manifest(self._file, FORMAT, VERSION, {}, advice)
        try:
            return SearchState.of(content)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise damaged(self._file, "an entry is missing or wrong", advice) from None
