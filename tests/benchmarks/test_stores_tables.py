"""The tables of stores in docs/evidence/stores.md are those of its records."""

import json
import subprocess
import sys

import pytest

from tests.commands import ROOT

RECORDS = ROOT / "docs/records/stores"


@pytest.fixture(scope="module")
def printed():
    stores = ["--stores", "folder", "PostgreSQL", f"--records={RECORDS}"]
    command = [sys.executable, "-m", "benchmarks.speed.stores", "--rows", "100000", "1000000", *stores]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_tables_are_printed_from_records(printed):
    tables = printed.strip().split("\n\n")
    assert len(tables) == 2
    page = (ROOT / "docs/evidence/stores.md").read_text()
    assert all(table in page for table in tables)


def test_records_answer_what_the_text_says(printed):
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.split("\n\n")[0].splitlines()[2:]]
    hnsw = [row for row in rows if row[2].startswith("hnsw")]
    assert all(float(row[3]) >= 0.95 for row in hnsw)
    records = [each for path in RECORDS.iterdir() for each in json.loads(path.read_text())]
    assert len(records) == 12 and all(each["filtered"][0] == 1 for each in records)
    times = {(row[0], row[1]): float(row[4]) for row in hnsw}
    ratios = [times[size, "PostgreSQL"] / times[size, "folder"] for size in ("100,000", "1,000,000")]
    assert all(5 <= ratio <= 16 for ratio in ratios), "docs/scaling.md says so"
