"""Tables of studies: columns, cells and formats."""

import csv
import io
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfdml.run.study.records import measured
from tfdml.run.study.runs import curve, curve_of
from tfdml.run.study.study import Flags, Number, Spread, numbers_of, text_of


@dataclass(frozen=True)
class Table:
    """A table with headings and rows of cells; see `tfdml.run.study.study`.

    JSON and the names of CSV files use its `name`. The caption is a sentence above the table, the note a sentence
    below it.
    """

    name: str
    heads: list
    rows: list
    caption: str = ""
    note: str = ""


@dataclass(frozen=True)
class MetricOf:
    """Column with a metric of the `best` models or of the final models (`metrics`).

    A metric that was not measured is an error if it is `required`, else an empty cell.
    """

    which: str
    name: str = "recall_at_1"
    required: bool = True

    def __call__(self, results, run_dirs):
        if not self.required and not any(self.name in result[self.which] for result in results):
            return ""
        return spread_of([result[self.which] for result in results], self.name)


def spread_of(scores, name):
    """Returns the cell of a metric from the scores of each seed. It is empty if a seed has no value."""
    missing = [each for each in scores if name not in each]
    if missing:
        names = ", ".join(each for each, value in missing[0].items() if isinstance(value, float))
        raise ValueError(f"The runs have not measured the metric {name}. Use one of: {names}.")
    values = [each[name] for each in scores]
    return "" if None in values else Spread(values)


def measured_learners(run_dirs):
    """Returns the measures of the learners of each run."""
    return [measured(run_dir)["learners"] for run_dir in run_dirs]


def recall_of_learners(learners):
    """Returns the mean Recall@1 of the single learners of each run, from the entries `learners` of results."""
    return Spread([statistics.mean(one["recall_at_1"] for one in each["alone"]) for each in learners])


def recall_of_measured(results, run_dirs):
    """Column with the mean Recall@1 of single learners, from the measures of runs."""
    return recall_of_learners(measured_learners(run_dirs))


def recall_alone(results, run_dirs):
    """Column with the mean Recall@1 of single learners, from results with learners."""
    learners = learners_of(results)
    return recall_of_learners(learners) if learners else ""


def learners_of(results):
    """Returns the entry `learners` of all results with such an entry."""
    return [result["learners"] for result in results if "learners" in result]


def correlation(results, run_dirs):
    """Column with the mean correlation of learners."""
    return Number(statistics.mean(each["correlation"] for each in measured_learners(run_dirs)), ".3f")


def gained_late(results, run_dirs):
    """Column with the gain of Recall@1 in the last quarter of the steps, which is near 0 if the curve is flat.

    The gain of an ensemble is the mean gain of its members. The column is empty if a run has no learning curve.
    """
    curves = [curves_of(result, path) for result, path in zip(results, run_dirs, strict=True)]
    # Rows without training have an evaluation before and one after their single step.
    if not all(len(values) > 2 for of_run in curves for values in of_run):
        return ""
    return Spread([np.mean([gain_of(values) for values in of_run]) for of_run in curves])


def curves_of(result, run_dir):
    """Returns the learning curves of a run, or of each member of an ensemble."""
    # A restored ensemble has the curves of its members, but not their folders.
    members = [
        curve_of(member["curve"]) if "curve" in member else curve(member["run_dir"])
        for member in result.get("members", ())
    ]
    return members or [curve(run_dir)]


def gain_of(values):
    """Returns the gain of a learning curve in its last quarter."""
    end = max(values)
    # Values between two evaluations are interpolated.
    return values[end] - np.interp(0.75 * end, list(values), list(values.values()))


def steps_to_best(results, run_dirs):
    """Column with the steps of the best models: mean ± standard deviation."""
    return Spread([result["best"]["step"] for result in results], scale=1, form=",.0f")


# Columns of a study on validation classes: the best and the final model, and whether training was long enough.
BEST_AND_LAST = {"Recall@1": MetricOf("best"), "of the last model": MetricOf("metrics")}
FINISHED = {"steps to the best": steps_to_best, "gain in the last quarter": gained_late}


# Characters with a meaning in LaTeX, and how to write them.
LATEX = {each: f"\\{each}" for each in "&%$#_{}"}
LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
# Without braces, LaTeX would join two hyphens to a dash.
LATEX |= {"-": "{-}"}


def as_markdown(tables):
    """Returns tables as Markdown, with their captions and notes."""
    parts = [part for table in tables for part in (table.caption, _markdown(table), table.note) if part]
    return "\n\n".join(parts) + "\n"


def _markdown(table):
    def cell_of(value):
        if isinstance(value, Flags) and value.flags:
            value = " ".join(f"`{flag}`" for flag in value.flags)
        return text_of(value).replace("|", "\\|")

    rows = [[cell_of(value) for value in row] for row in (table.heads, ["---"] * len(table.heads), *table.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def as_latex(tables):
    """Returns tables as LaTeX for the package booktabs."""
    return "\n".join(_latex(table) for table in tables)


def _latex(table):
    def line(cells):
        escaped = ("".join(LATEX.get(letter, letter) for letter in " ".join(cell.split())) for cell in cells)
        return " & ".join(escaped) + r" \\"

    columns = zip(*table.rows, strict=True)
    sides = ["l" if all(isinstance(cell, str | Flags) for cell in column) else "r" for column in columns]
    comments = [f"% {sentence}" for sentence in (table.caption, table.note) if sentence]
    rows = [line(map(text_of, row)) for row in table.rows]
    begin = rf"\begin{{tabular}}{{{''.join(sides)}}}"
    body = [begin, r"\toprule", line(table.heads), r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join([*comments, *body])


def as_csv(tables):
    """Returns tables as CSV, separated by empty lines. A cell with several numbers has a column for each of them."""
    return "\n".join(_csv(table) for table in tables)


def _csv(table):
    by_head = [zip(table.heads, row, strict=True) for row in table.rows]
    rows = [dict(pair for head, cell in cells for pair in _flat(head, cell)) for cells in by_head]
    # Columns keep the order of the headings even if the first row has no number, as the deviation of a single seed.
    columns = zip(table.heads, *table.rows, strict=True)
    names = dict.fromkeys(name for head, *cells in columns for cell in cells for name, _ in _flat(head, cell))
    file = io.StringIO()
    writer = csv.DictWriter(file, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _flat(head, cell):
    """Returns pairs of names and values of a cell: none if it is empty, and one per number otherwise."""
    value = numbers_of(cell)
    if isinstance(value, dict):
        return [(f"{head} {name}", each) for name, each in value.items() if not isinstance(each, list)]
    return [(head, " ".join(value) if isinstance(value, list) else value)] * (value != "")


def as_json(tables):
    """Returns tables as JSON, from name to rows (objects with the headings as keys), caption and note."""
    content = {}
    for table in tables:
        rows = [dict(zip(table.heads, map(numbers_of, row), strict=True)) for row in table.rows]
        sentences = {"caption": table.caption, "note": table.note}
        content[table.name] = {**{name: text for name, text in sentences.items() if text}, "rows": rows}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


FORMATS = {"markdown": as_markdown, "csv": as_csv, "latex": as_latex, "json": as_json}


def write_tables(tables, form, out):
    """Writes tables to a file in one of `FORMATS`. As CSV, each further table has its own file next to the first."""
    path = Path(out)
    files = {path: tables}
    if form == "csv":
        files = {path.with_stem(f"{path.stem}-{table.name}"): [table] for table in tables[1:]}
        files[path] = tables[:1]
    for file, content in files.items():
        file.write_text(FORMATS[form](content), encoding="utf-8")
