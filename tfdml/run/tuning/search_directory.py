"""The folder of a search: its trials, and what it has come to so far."""

import contextlib
import dataclasses
from pathlib import Path

from tfdml.files.checked_files import folder_in, read_manifest, write_manifest
from tfdml.files.folder_lock import LOCK, locked
from tfdml.run.tuning.plan import Cost, Plan

FILE, FORMAT, VERSION = "tune.json", "tfdml search of settings", 1
# The flag of the time that a search may take.
TIME = "minutes"
# What a folder may have before it is a search's: a kill may leave it.
BESIDE = (LOCK, f".writing-{FILE}")


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a trial has come to at the end of a rung.

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
    """What `tune.json` says.

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
        """Returns the state of the content of a file; a KeyError, TypeError or ValueError if it is none."""
        known = {field.name: content[field.name] for field in dataclasses.fields(cls)}
        costs = [each["cost"] and Cost(**each["cost"]) for each in known["measured"]]
        known["measured"] = [
            Measured(**{**each, "cost": cost}) for each, cost in zip(known["measured"], costs, strict=True)
        ]
        if known["plan"]:
            known["plan"] = Plan(tuple(map(int, known["plan"]["lengths"])), int(known["plan"]["drawn"]))
        known["failed"] = {int(number): str(reason) for number, reason in known["failed"].items()}
        known["seconds"] = float(known["seconds"])
        numbers = [number for rung in known["rungs"] for number in rung]
        flags = [known["flags"], *known["changes"]]
        if not all(map(_are_flags, flags)) or not set(numbers) <= {*range(len(known["changes"]))}:
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


class SearchDirectory:
    """`tune.json`, `best.flags` and `trials/` of a search.

    Args:
        path: the folder; it need not exist.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.best_flags = self.path / "best.flags"
        self._file = self.path / FILE

    def trial(self, number):
        """The run directory of a trial."""
        return folder_in(self.path, "trials", "search") / f"{number:03}"

    def log(self, number):
        """The file with what the processes of a trial print."""
        return self.trial(number).with_suffix(".log")

    @contextlib.contextmanager
    def claimed(self, flags):
        """A context in which the folder is this search's alone; gives the `SearchState`.

        Args:
            flags: `flags` of the state. A ValueError if the folder holds a search with others, or something else. The
                time may be another one until it has been planned.
        """
        if self.path.exists() and not self._file.exists() and self._holds_anything():
            raise ValueError(f"--tune_dir={self.path} exists and is no search of tfdml; give a new or empty folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path, "search"):
            state = self._read() if self._file.exists() else SearchState(flags)
            _check_same(self.path, state.flags, flags, () if state.plan else (TIME,))
            state.flags = flags
            (self.trial(0).parent).mkdir(exist_ok=True)
            self.write(state)
            yield state

    def write(self, state):
        """Writes the state in place of the one that is there."""
        write_manifest(self._file, FORMAT, VERSION, dataclasses.asdict(state))

    def _read(self):
        content = read_manifest(self._file, FORMAT, VERSION)
        try:
            return SearchState.of(content)
        except (KeyError, TypeError, ValueError, AttributeError):
            why = "an entry is missing or wrong. Give another --tune_dir."
            raise ValueError(f"{self._file} is damaged: {why}") from None

    def _holds_anything(self):
        return not self.path.is_dir() or any(entry.name not in BESIDE for entry in self.path.iterdir())


def _are_flags(value):
    return isinstance(value, dict) and all(isinstance(flag, str) for flag in value.values())


def _check_same(path, saved, flags, may_change):
    different = [
        f"{saved.get(name, 'none')} there, {line} now"
        for name, line in flags.items()
        if saved.get(name) != line and name not in may_change
    ]
    if different:
        raise ValueError(
            f"--tune_dir={path} holds a search with other flags ({'; '.join(different)}). Give the same flags to go on "
            "with it, or another --tune_dir."
        )
