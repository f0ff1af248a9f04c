"""The tables in docs/methods.md are what its commands print of the records."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from absl import flags
from absl.testing import flagsaver

from benchmarks.study import arguments_of
from tfdml import study
from tfdml.run.study import runs

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
# The text of a section after its command, up to the next heading.
SECTIONS = re.findall(
    r"```\n(python -m benchmarks[^`]*--records=docs/records/[^`]*)```\n(.*?)(?=\n##)",
    PAGE + "\n##",
    re.DOTALL,
)
# Records so large that a command takes ten seconds or more.
LARGE = "emoji"
# Tables and rows of another command, or of more seeds.
OF_OTHERS = ("| with five seeds", "([below](")


def spreads(row):
    """The cells of a row that are means with deviations."""
    return {cell.strip() for cell in row.split("|") if "±" in cell}


def measured_rows(section):
    """The rows of the tables of a section that have means with deviations."""
    tables = [table for table in section.split("\n\n") if not table.startswith(OF_OTHERS[0])]
    lines = [line for table in tables for line in table.splitlines() if line.startswith("|")]
    return [line for line in lines if spreads(line) and OF_OTHERS[1] not in line]


def name_of(section):
    return re.search(r"benchmarks\.study (\w+).*?records/(\w+)", section[0], re.DOTALL).groups()


@pytest.mark.slow
@pytest.mark.parametrize(
    "section",
    [pytest.param(each, marks=[pytest.mark.nightly] * (LARGE in name_of(each))) for each in SECTIONS],
    ids=lambda section: "-".join(name_of(section)),
)
def test_rows_of_the_docs_are_those_that_the_command_prints(section, monkeypatch, tmp_path, capsys):
    command, text = section
    arguments = arguments_of(shlex.split(command.replace("\\\n", " "))[2:])
    records = next(argument for argument in arguments if argument.startswith("--records=")).partition("=")[2]
    # A command may write into them.
    copy = shutil.copy(ROOT / records, tmp_path)
    arguments = [argument.replace(records, copy) for argument in arguments]
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(runs, "train", lambda given: pytest.fail(f"The records lack the run {given}."))
    with flagsaver.flagsaver():
        _, *given = flags.FLAGS([*arguments, f"--runs={tmp_path / 'runs'}"], known_only=True)
        study.main(given)
    printed = [spreads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    rows = measured_rows(text)
    assert rows and not [row for row in rows if not any(spreads(row) <= cells for cells in printed)]
