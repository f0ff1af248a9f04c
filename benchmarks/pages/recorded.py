"""Reads a study from its records, without training and without models."""

import functools
import importlib
import json
import statistics
from pathlib import Path

from benchmarks.pages.contrasts import contrast
from benchmarks.pages.seed_variance import SeedVariances, read_once
from tfdml.evaluation.statistics import all_pairs
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.study.driver import SEED, Search, reached, trials_of
from tfdml.run.study.records import FILE, PATHS, recalls
from tfdml.run.study.runs import resolved, runs_of
from tfdml.run.study.study import text_of

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs/records"
FIRST_RUNS = RECORDS / "first_runs.jsonl"


class MissingRun(ValueError):
    """A run that the records do not have, for example because its study is not complete."""


@functools.cache
def seed_variances():
    """Returns the `SeedVariances` of all records."""
    return SeedVariances(RECORDS)


class Recorded:
    """The runs of a study in a file of records.

    Args:
        source: The `Source`.
        folder: Folder in which it writes the files that the columns of the tables read.
    """

    def __init__(self, source, folder):
        self.source, self._folder = source, Path(folder)
        self.study = importlib.import_module(f"benchmarks.studies.rows.{source.study}").STUDY
        self._checked, self._intervals, self._trials = {}, {}, {}
        self._records = read_once(RECORDS / f"{source.records}.jsonl")
        flags = {name: [*self.study.flags(name), *source.flags] for name in source.rows or self.study.rows}
        self.search = self._search(flags) if self.study.settings else None
        self._flags = {name: [*row, *self._setting(name)] for name, row in flags.items()}

    @property
    def rows(self):
        """Names of the rows that have a record for every seed."""
        return [
            name
            for name, flags in self._flags.items()
            if all(_name(flags, seed) in self._records for seed in self.seeds)
        ]

    @property
    def seeds(self):
        return self.source.seeds

    def records(self, name, seeds=()):
        """Returns the records of a row, one for each seed."""
        return [self._record(self._flags[name], seed) for seed in seeds or self.seeds]

    def results(self, name):
        """Returns the results of a row, one for each seed."""
        return [record["result"] for record in self.records(name)]

    def untrained(self, name):
        """Returns Recall@1 of a row before training, the mean over seeds.

        An ensemble has no such result, but a single member of its search, which starts from the same weights.
        """
        results = [each for each in self.results(name) if "untrained" in each]
        results = results or [self.trials(name)[-1]["result"]]
        return statistics.mean(each["untrained"]["recall_at_1"] for each in results)

    def trials(self, name):
        """Returns the records of the runs of a row's search, one for each setting."""
        return self._trials[self.study.follow.get(name, name)]

    def cell(self, name, head):
        """Returns the text of a table cell."""
        return text_of(self.study.columns[head](self.results(name), self.run_dirs(name)))

    def difference(self, first, second, seeds=(), on=""):
        """Returns Recall@1 of the second row minus the first, in percentage points.

        `on` is the name of another dataset on which the study measured its models; see `Study`.

        Returns:
            The difference, the ends of its 95% confidence interval and its degrees of freedom. With one seed, the
            interval has the variance between seeds of other rows; see `SeedVariances`.
        """
        key = first, second, tuple(seeds), on
        if key not in self._intervals:
            of_rows = self.recalls((first, second), seeds, on)
            found = all_pairs(*of_rows).interval(1, 0)
            degrees = contrast((-1, 1), *of_rows).degrees
            self._intervals[key] = (*(100 * float(each) for each in found), degrees)
        return self._intervals[key]

    def recalls(self, names, seeds=(), on=""):
        """Returns the mean Recall@1 of rows and their errors; see `tfdml.run.study.records.recalls`."""
        variance = seed_variances().of(_measured(self.records(names[0], seeds)[0], on), self.source.records)
        return recalls([self.run_dirs(name, seeds, on) for name in names], variance=variance)

    def names(self, rows):
        """Returns the names of the runs of rows, without their seeds."""
        return [self.records(row)[0]["run"].rpartition("-seed")[0] for row in rows]

    def run_dirs(self, name, seeds=(), on=""):
        """Returns a folder for each seed, with the learning curve of the run and its measurements, `on` a dataset."""
        return [self._directory(record, on) for record in self.records(name, seeds)]

    def _directory(self, record, on):
        path = self._folder / on / record["run"]
        if not path.exists():
            path.mkdir(parents=True)
            lines = "".join(json.dumps(event) + "\n" for event in record["curve"])
            RunDirectory(path).metrics.write_text(lines, encoding="utf-8")
            (path / FILE).write_text(json.dumps(_measured(record, on)), encoding="utf-8")
        return path

    def _search(self, flags):
        names = dict.fromkeys(self.study.follow.get(name, name) for name in flags)
        searched = {name: [*self.study.flags(name), *self.source.flags] for name in names}
        tried = {name: [] for name in searched}
        for name, setting, trial in trials_of(searched, self.study.settings, self.study.searching):
            record = self._record(trial, SEED)
            self._trials.setdefault(name, []).append(record)
            tried[name].append((setting, reached(record["result"], self.study.which)))
        return Search(tried, list(self.study.searching))

    def _setting(self, name):
        return self.search.setting(self.study.follow.get(name, name)) if self.search else []

    def _record(self, flags, seed):
        """Returns the record of a run, and raises an error if its flagfile has changed since."""
        name = _name(flags, seed)
        if name not in self._checked:
            if name not in self._records:
                raise MissingRun(f"docs/records/{self.source.records}.jsonl has no run {name}.")
            now = resolved([*flags, f"--seed={seed}"]).values()
            for flag in self._records[name]["flags"]:
                if not flag.startswith(PATHS) and flag not in now:
                    raise ValueError(f"The run {name} was recorded with {flag}, but its row no longer has this flag.")
            self._checked[name] = self._records[name]
        return self._checked[name]


def _measured(record, on):
    """Returns what a record has measured on the test images of its own dataset, or `on` another one."""
    return record["measured"]["elsewhere"][on] if on else record["measured"]


def _name(flags, seed):
    """Returns the name of a run, which is also the name of its folder."""
    (run,) = runs_of(flags, [seed], "")
    return run.path.name
