"""Tables of studies: columns, cells, and formats."""

import csv
import io
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfdml.run.study.records import measured
from tfdml.run.study.runs import curve
from tfdml.run.study.study import Flags, Number, Spread, numbers_of, text_of


@dataclass(frozen=True)
class Table:
    """A table, which `tfdml.run.study.driver` writes.

    Args:
        name: its name in JSON, and in the names of CSV files.
        heads: heads of the columns, texts.
        rows: lists of cells, see `tfdml.run.study.study`.
        caption: sentence above it.
        note: sentence below it.
    """

    name: str
    heads: list
    rows: list
    caption: str = ""
    note: str = ""


@dataclass(frozen=True)
class MetricOf:
    """Column of a metric of the models that results have under `best`, or of the last ones, `metrics`.

    One that was not measured is an error, or, if it is not `required`, an empty cell.
    """

    which: str
    name: str = "recall_at_1"
    required: bool = True

    def __call__(self, results, run_dirs):
        if not self.required and not any(self.name in result[self.which] for result in results):
            return ""
        return spread_of([result[self.which] for result in results], self.name)


def spread_of(scores, name):
    """Returns the cell of a metric: a value for each seed; empty where a seed has none, as of pairs that are not there.

    Args:
        scores: for each seed the values of metrics by name.
        name: name of the metric.
    """
    missing = [each for each in scores if name not in each]
    if missing:
        names = ", ".join(each for each, value in missing[0].items() if isinstance(value, float))
        raise ValueError(f"Expected a metric that the runs have measured, {names}; received {name}.")
    values = [each[name] for each in scores]
    return "" if None in values else Spread(values)


def measured_learners(run_dirs):
    """Returns the measures of the learners of each run."""
    return [measured(run_dir)["learners"] for run_dir in run_dirs]


def recall_of_learners(learners):
    """Mean Recall@1 of the learners of each run alone, of what their results have under `learners`."""
    return Spread([statistics.mean(one["recall_at_1"] for one in each["alone"]) for each in learners])


def recall_of_measured(results, run_dirs):
    """Column of the Recall@1 of learners alone, as they were measured."""
    return recall_of_learners(measured_learners(run_dirs))


def recall_alone(results, run_dirs):
    """Column of the Recall@1 of learners alone, of results that have any."""
    learners = learners_of(results)
    return recall_of_learners(learners) if learners else ""


def learners_of(results):
    """Returns the entry `learners` of each result that has one."""
    return [result["learners"] for result in results if "learners" in result]


def correlation(results, run_dirs):
    """Column of how much learners correlate."""
    return Number(statistics.mean(each["correlation"] for each in measured_learners(run_dirs)), ".3f")


def gained_late(results, run_dirs):
    """Column of how much Recall@1 gained in the last quarter of the steps, near 0 where it has flattened."""
    return Spread([gain_of(curve(path)) for path in run_dirs])


def gain_of(values):
    """How much the values of a learning curve gain in its last quarter."""
    end = max(values)
    # Between two evaluations as if it rose evenly.
    return values[end] - np.interp(0.75 * end, list(values), list(values.values()))


def steps_to_best(results, run_dirs):
    """Column of the steps after which runs had their best model: mean ± standard deviation."""
    return Spread([result["best"]["step"] for result in results], scale=1, form=",.0f")


# Of a study on validation classes: the best model there beside the last one, and whether the run was finished.
BEST_AND_LAST = {"Recall@1": MetricOf("best"), "of the last model": MetricOf("metrics")}
FINISHED = {"steps to the best": steps_to_best, "gain in the last quarter": gained_late}


# What has a meaning in LaTeX, to what writes it.
LATEX = {each: f"\\{each}" for each in "&%$#_{}"}
LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
# Two of them would be one longer stroke.
LATEX |= {"-": "{-}"}


def write_tables(tables, form, out):
    """Writes tables to a file.

    Args:
        tables: list of `Table`.
        form: name of one of `FORMATS`.
        out: path of the file. As CSV the first table is in it, and each other one in a file beside it, which has its
            name.
    """
    path = Path(out)
    files = {path: tables}
    if form == "csv":
        files = {path.with_stem(f"{path.stem}-{table.name}"): [table] for table in tables[1:]}
        files[path] = tables[:1]
    for each, held in files.items():
        each.write_text(FORMATS[form](held), encoding="utf-8")


def as_markdown(tables):
    """Returns tables as Markdown, with their sentences."""
    return (
        "\n\n".join(part for table in tables for part in (table.caption, _markdown(table), table.note) if part) + "\n"
    )


def as_latex(tables):
    """Returns tables as LaTeX, for the package booktabs."""
    return "\n".join(_latex(table) for table in tables)


def as_csv(tables):
    """Returns tables as CSV, with an empty line between two: what is a number and more has a column for each."""
    return "\n".join(_csv(table) for table in tables)


def as_json(tables):
    """Returns tables as JSON: name of the table to its rows, objects by the heads, and its sentences."""
    return json.dumps({table.name: _object(table) for table in tables}, indent=1, ensure_ascii=False) + "\n"


FORMATS = {"markdown": as_markdown, "csv": as_csv, "latex": as_latex, "json": as_json}


def _markdown(table):
    rows = [[_of_markdown(cell) for cell in row] for row in table.rows]
    heads = [head.replace("|", "\\|") for head in table.heads]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def _of_markdown(cell):
    if isinstance(cell, Flags) and cell.flags:
        cell = " ".join(f"`{flag}`" for flag in cell.flags)
    return text_of(cell).replace("|", "\\|")


def _latex(table):
    def line(cells):
        return " & ".join(map(_escaped, cells)) + r" \\"

    columns = zip(*table.rows, strict=True)
    sides = ["l" if all(isinstance(cell, str | Flags) for cell in column) else "r" for column in columns]
    comments = [f"% {sentence}" for sentence in (table.caption, table.note) if sentence]
    rows = [line(map(text_of, row)) for row in table.rows]
    begin = rf"\begin{{tabular}}{{{''.join(sides)}}}"
    body = [begin, r"\toprule", line(table.heads), r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join([*comments, *body])


def _escaped(text):
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))


def _csv(table):
    rows = [dict(pair for named in _named(table, row) for pair in _flat(*named)) for row in table.rows]
    # In the order of the heads, whichever row has a number first: a seed alone has no deviation.
    columns = zip(table.heads, *table.rows, strict=True)
    names = dict.fromkeys(name for head, *cells in columns for cell in cells for name, _ in _flat(head, cell))
    file = io.StringIO()
    writer = csv.DictWriter(file, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _named(table, row):
    return zip(table.heads, row, strict=True)


def _flat(head, cell):
    """Pairs of names and values of a cell: none if it is empty, one, or one for each number of several."""
    value = numbers_of(cell)
    if isinstance(value, dict):
        return [(f"{head} {name}", each) for name, each in value.items() if not isinstance(each, list)]
    return [(head, " ".join(value) if isinstance(value, list) else value)] * (value != "")


def _object(table):
    rows = [{head: numbers_of(cell) for head, cell in _named(table, row)} for row in table.rows]
    sentences = {name: each for name, each in (("caption", table.caption), ("note", table.note)) if each}
    return {**sentences, "rows": rows}
