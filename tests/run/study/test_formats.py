"""Tables as Markdown, CSV, LaTeX and JSON."""

import csv
import json
import re

import pytest

from tfdml.run.study.study import Difference, Flags, Number, Spread
from tfdml.run.study.tables import FORMATS, Table, as_csv, as_json, as_latex, as_markdown, write_tables

ROWS = Table(
    "rows",
    ["row", "R@1", "seeds", "difference from 100% a_b & c"],
    [
        ["100% a_b & c", Spread([0.5, 0.25]), 2, ""],
        ['warp|flip, "x"', Spread([0.125]), 1, Difference(-0.25, -0.375, 0.0625)],
    ],
    note="Chosen: a_b",
)
SETTINGS = Table(
    "settings",
    ["row", "setting", "score"],
    [["a", Flags(["--loss=margin", "--steps=3"]), Number(0.5, scale=100)], ["b", Flags([]), Number(0.25, ".3f")]],
    caption="With 50 % of {all}:",
)


def test_markdown():
    assert (
        as_markdown([ROWS, SETTINGS])
        == """\
| row | R@1 | seeds | difference from 100% a_b & c |
| --- | --- | --- | --- |
| 100% a_b & c | 37.5 ± 17.7 | 2 |  |
| warp\\|flip, "x" | 12.5 | 1 | -25.0 (-37.5 to +6.2) |

Chosen: a_b

With 50 % of {all}:

| row | setting | score |
| --- | --- | --- |
| a | `--loss=margin` `--steps=3` | 50.0 |
| b | as it is | 0.250 |
"""
    )


def test_latex_escapes_what_has_a_meaning_in_it():
    assert (
        as_latex([ROWS])
        == r"""% Chosen: a_b
\begin{tabular}{lrrr}
\toprule
row & R@1 & seeds & difference from 100\% a\_b \& c \\
\midrule
100\% a\_b \& c & 37.5 $\pm$ 17.7 & 2 &  \\
warp\textbar{}flip, "x" & 12.5 & 1 & {-}25.0 ({-}37.5 to +6.2) \\
\bottomrule
\end{tabular}
"""
    )
    assert r"{llr}" in as_latex([SETTINGS]) and r"{-}{-}loss=margin {-}{-}steps=3 & 50.0 \\" in as_latex([SETTINGS])
    every = Table("rows", ["row"], [["\\~^#${}<>"]])
    escaped = r"\textbackslash{}\textasciitilde{}\textasciicircum{}\#\$\{\}\textless{}\textgreater{} \\"
    assert escaped in as_latex([every]).splitlines()


def test_csv_has_all_digits_and_a_column_for_each_number():
    first, second = list(csv.DictReader(as_csv([ROWS]).splitlines()))
    difference = "difference from 100% a_b & c"
    assert list(first) == [
        "row", "R@1 mean", "R@1 std", "seeds", f"{difference} difference", f"{difference} low", f"{difference} high"
    ]  # fmt: skip
    assert first["row"] == "100% a_b & c" and second["row"] == 'warp|flip, "x"'
    assert (float(first["R@1 mean"]), float(first["R@1 std"])) == (0.375, pytest.approx(0.125 * 2**0.5))
    assert (second["R@1 std"], first[f"{difference} low"], second[f"{difference} low"]) == ("", "", "-0.375")
    assert as_csv([SETTINGS]).splitlines()[1:] == ["a,--loss=margin --steps=3,0.5", "b,,0.25"]


def test_json_has_the_numbers_and_no_text_of_them():
    found = json.loads(as_json([ROWS, SETTINGS]))
    assert list(found) == ["rows", "settings"] and found["rows"]["note"] == "Chosen: a_b"
    first, second = found["rows"]["rows"]
    assert first["R@1"] == {"mean": 0.375, "std": pytest.approx(0.125 * 2**0.5), "seeds": [0.5, 0.25]}
    assert second["R@1"] == {"mean": 0.125, "seeds": [0.125]} and (first["seeds"], second["seeds"]) == (2, 1)
    assert second["difference from 100% a_b & c"] == {"difference": -0.25, "low": -0.375, "high": 0.0625}
    settings = found["settings"]
    assert settings["caption"] == "With 50 % of {all}:" and "note" not in settings
    assert [row["setting"] for row in settings["rows"]] == [["--loss=margin", "--steps=3"], []]


@pytest.mark.parametrize("form", FORMATS)
def test_tables_are_written(form, tmp_path):
    printed = FORMATS[form]([ROWS, SETTINGS])
    write_tables([ROWS, SETTINGS], form, str(tmp_path / "tables.txt"))
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    if form == "csv":
        # A file holds one table, so that other programs read it.
        assert written == {"tables.txt": as_csv([ROWS]), "tables-settings.txt": as_csv([SETTINGS])}
        assert printed == f"{as_csv([ROWS])}\n{as_csv([SETTINGS])}"
    else:
        assert written == {"tables.txt": printed} and re.search("margin", printed)
