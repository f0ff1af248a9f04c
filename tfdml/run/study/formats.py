"""Writes tables as Markdown, CSV, LaTeX and JSON.

Markdown and LaTeX are for people: numbers are rounded, and scores in percent. In CSV and JSON scores are fractions,
with all digits.
"""

import csv
import io
import json
from pathlib import Path

from tfdml.run.study.cells import Flags, numbers_of, text_of

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
