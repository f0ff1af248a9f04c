"""The state of a search, which goes on from it."""

import dataclasses
import math

from tfdml.run.tuning.plan import Cost, Plan
from tfdml.run.tuning.space import SPACE

# All flags that a trial may change.
NAMES = {name for choices in SPACE.values() for choice in choices for name in choice}


@dataclasses.dataclass(frozen=True)
class Measured:
    """The score of a trial at the end of a rung.

    Args:
        trial: number of the trial, from 0.
        steps: steps that it has taken.
        score: the metric that selects, on the classes that are held out.
        interval: its 95% interval over classes, `[low, high]`; None where there is none.
        cost: `Cost` of the process that took the last of them; None if nobody has seen it.
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
        flags: flags of the first trial and of the search, `{name: "--name=value"}`: they tell it from others.
        seconds: time that it has taken.
        metric: name of the metric that selects; empty until the first trial is measured.
        changes: of each trial what it changes in the flags of the first.
        plan: `Plan`; None before the first trial is measured.
        rungs: of each rung that has begun the numbers of its trials, in their order.
        measured: list of `Measured`.
        failed: number of a trial to why it failed.
    """

    flags: dict[str, str]
    seconds: float = 0.0
    metric: str = ""
    changes: list[dict[str, str]] = dataclasses.field(default_factory=lambda: [{}])
    plan: Plan | None = None
    rungs: list[list[int]] = dataclasses.field(default_factory=list)
    measured: list[Measured] = dataclasses.field(default_factory=list)
    failed: dict[int, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, content):
        """Returns the state of the content of a file; a KeyError, TypeError, ValueError or the like if it is none."""
        known = {field.name: content[field.name] for field in dataclasses.fields(cls)}
        trials = range(len(known["changes"]))
        known["measured"] = [_measured(each) for each in known["measured"]]
        known["failed"] = {int(number): str(reason) for number, reason in known["failed"].items()}
        if known["plan"] is not None:
            known["plan"] = _plan(known["plan"])
        numbers = [*(each.trial for each in known["measured"]), *known["failed"], *sum(known["rungs"], [])]
        sound = {
            "flags": all(isinstance(line, str) for line in known["flags"].values()),
            "seconds": _is_number(known["seconds"]),
            "metric": isinstance(known["metric"], str),
            "changes": all(map(_may_change, known["changes"])),
            "trials": all(number in trials for number in numbers),
            "rungs": len(known["rungs"]) <= len(known["plan"].lengths if known["plan"] else ()),
        }
        if not all(sound.values()):
            raise ValueError
        return cls(**known)

    def at(self, trial, steps):
        """Returns the `Measured` of a trial after so many steps, or None."""
        return next((each for each in self.measured if (each.trial, each.steps) == (trial, steps)), None)

    def last(self, trial):
        """Returns the last `Measured` of a trial, or None."""
        of_trial = [each for each in self.measured if each.trial == trial]
        return max(of_trial, key=lambda each: each.steps, default=None)

    def ranked(self):
        """Returns the last `Measured` of each trial, best first: the longer one, then the higher score."""
        found = [last for number in range(len(self.changes)) if (last := self.last(number))]
        return sorted(found, key=lambda each: (-each.steps, -each.score, each.trial))


def _measured(each):
    interval, cost = each["interval"], each["cost"]
    cost = None if cost is None else Cost(**cost)
    numbers = [each["score"], *(interval or ()), *(dataclasses.astuple(cost) if cost else ())]
    if not (all(map(_is_number, numbers)) and isinstance(each["steps"], int) and len(interval or (0, 0)) == 2):
        raise ValueError
    return Measured(**{**each, "cost": cost})


def _plan(content):
    plan = Plan(tuple(content["lengths"]), content["drawn"])
    numbers = [*plan.lengths, plan.drawn]
    if not plan.lengths or not all(isinstance(number, int) and number > 0 for number in numbers):
        raise ValueError
    return plan


def _is_number(value):
    return isinstance(value, int | float) and math.isfinite(value)


def _may_change(changes):
    """Whether these are flags of the space: others, such as modules to import, would run code of somebody else."""
    return all(
        name in NAMES and line.startswith(f"--{name}=") and len(line.splitlines()) == 1
        for name, line in changes.items()
    )
