"""Writes the pages of docs/evidence from the records of studies: `python -m benchmarks.evidence`.

Each page has a template in benchmarks/pages/templates, which is filled with numbers from docs/records. The command
fails if a sentence claims more than the records show. It trains nothing. `python -m benchmarks.evidence emoji_losses`
writes one page.
"""

import argparse
import functools
import sys
import tempfile
from pathlib import Path

from benchmarks.pages import advice, effects, reproduced, tasks
from benchmarks.pages.blocks import Blocks
from benchmarks.pages.catalog import PAGES, SOURCES, TASKS
from benchmarks.pages.evidence_of_claims import evidence_by_claim
from benchmarks.pages.recorded import FIRST_RUNS, ROOT, Recorded
from benchmarks.pages.studies import Studies
from benchmarks.pages.template import TEMPLATES, filled, placed, with_units
from benchmarks.studies import first_runs
from tfdml.run.study.records import read

FOLDER = ROOT / "docs/evidence"
CHOOSING = ROOT / "docs/setting_effects.md"
BEGIN = "<!-- The table of {} is written by `python -m benchmarks.evidence` from benchmarks/pages/{}.py. -->"
END = "<!-- The end of the table of {}. -->"
# The first pages in the list of contents; the others follow by their file names.
FIRST = (
    "reproduced",
    "divide_and_conquer",
    "attention_ensemble",
    "edms",
    "ranked_list",
    "lifted_structure",
    "losses",
    "fine_tuning",
    "labels",
    "anchors",
)
WRITTEN = "<!-- This page is written by `python -m benchmarks.evidence` from benchmarks/pages/templates/{}.md. -->"


def written(name, recorded_of):
    """Returns the texts of a page and its pictures, by their names in docs/evidence.

    Args:
        name: Name of the page in `PAGES`.
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    studies = Studies(recorded_of)
    blocks = Blocks(name, studies)
    template = (TEMPLATES / f"{name}.md").read_text(encoding="utf-8")
    try:
        page = filled(with_units(template), studies, blocks.by_name)
    except ValueError as error:
        raise ValueError(f"{TEMPLATES.relative_to(ROOT) / name}.md: {error}") from None
    return {f"{name}.md": f"{WRITTEN.format(name)}\n\n{page}", **blocks.pictures}


def summaries(recorded_of, folder):
    """Returns the texts of the pages about all studies and of their picture, by their names in docs/evidence.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
        folder: Folder for `Recorded`.
    """
    runs, by_claim = read(FIRST_RUNS), evidence_by_claim(recorded_of, folder)
    blocks = {
        "defaults": first_runs.table(runs),
        "added": first_runs.added(runs),
        "pages": contents(),
        "levels": reproduced.levels(recorded_of, runs, (FOLDER / "anchors.md").exists()),
        "verdicts": reproduced.legend(),
        "title": effects.TITLE,
        "count": str(sum(len(found) for claims in by_claim.values() for _, found in claims)),
        "papers": reproduced.papers(by_claim),
    }
    pages = {f"{name}.md": _summary(name, blocks) for name in ("README", "reproduced")}
    return {**pages, "effects.svg": effects.picture(by_claim)}


def _summary(name, blocks):
    page = (TEMPLATES / f"{name}.md").read_text(encoding="utf-8")
    for block, text in blocks.items():
        page = page.replace(f"{{{block}}}", text)
    return f"{WRITTEN.format(name)}\n\n{page}"


def contents():
    """Returns a list of links to all pages in docs/evidence, with their titles."""
    files = [f"{name}.md" for name in FIRST if (FOLDER / f"{name}.md").exists()]
    files += sorted({path.name for path in FOLDER.glob("*.md")} - {"README.md", *files})
    return "\n".join(f"- [{_title(FOLDER / file)}]({file})" for file in files)


def _title(path):
    return next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")).strip("# ")


def advice_page(recorded_of):
    """Returns the text of docs/setting_effects.md with the tables of all datasets from the records.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    page = CHOOSING.read_text(encoding="utf-8")
    tables = {"effects": advice.table, "visits": advice.visits, "learning rates": advice.rates}
    for name, table in tables.items():
        page = placed(CHOOSING.name, page, BEGIN.format(name, "advice"), END.format(name), table(recorded_of))
    return page


def task_page(name, folder):
    """Returns the text of the page of a task in docs, with its table from the records.

    Args:
        name: Name of the page and of its source in `TASKS`.
        folder: Folder for `Recorded`.
    """
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    # Both studies have runs with the same names.
    told = tasks.TABLES[name](Recorded(TASKS[name], Path(folder) / name))
    return placed(f"{name}.md", page, BEGIN.format("results", "tasks"), END.format("results"), told)


def all_texts(names, folder):
    """Yields the name and the text of each file of some pages, and of the summaries if all pages are written.

    Args:
        names: Names of pages in `PAGES`.
        folder: Folder for `Recorded`.
    """
    recorded_of = functools.cache(lambda name: Recorded(SOURCES[name], folder))
    for name in names:
        yield from written(name, recorded_of).items()
    if len(names) == len(PAGES):
        yield from summaries(recorded_of, folder).items()
        yield "../setting_effects.md", advice_page(recorded_of)
        for name in TASKS:
            yield f"../{name}.md", task_page(name, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Pages to write, by default all: {', '.join(PAGES)}.")
    names = parser.parse_args().names or list(PAGES)
    unknown = set(names) - set(PAGES)
    if unknown:
        parser.error(f"unknown pages: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            for file, text in all_texts(names, folder):
                (FOLDER / file).write_text(text, encoding="utf-8")
                print(f"Wrote {(FOLDER / file).resolve().relative_to(ROOT)}")
        except ValueError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
