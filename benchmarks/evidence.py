"""Writes the pages of docs/evidence from the records of studies: `python -m benchmarks.evidence`.

Each page has a template in benchmarks/pages/templates, which is filled with numbers from docs/records. The command
fails if a sentence claims more than the records show. It trains nothing. `python -m benchmarks.evidence emoji_losses`
writes one page.
"""

import argparse
import functools
import sys
import tempfile

from benchmarks.pages import advice, effects
from benchmarks.pages.blocks import Blocks
from benchmarks.pages.catalog import PAGES, SOURCES
from benchmarks.pages.recorded import FIRST_RUNS, ROOT, Recorded
from benchmarks.pages.studies import Studies
from benchmarks.pages.template import TEMPLATES, filled, placed, with_units
from benchmarks.studies import first_runs
from tfdml.run.study.records import read

FOLDER = ROOT / "docs/evidence"
CHOOSING = ROOT / "docs/setting_effects.md"
BEGIN = "<!-- This table is written by `python -m benchmarks.evidence` from benchmarks/pages/advice.py. -->"
END = "<!-- The end of the table. -->"
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


def first_page(recorded_of):
    """Returns the texts of the summary of all studies and of its picture, by their names in docs/evidence.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    found = effects.found_by(recorded_of)
    template = (TEMPLATES / "README.md").read_text(encoding="utf-8")
    blocks = {
        "defaults": first_runs.table(read(FIRST_RUNS)),
        "changes": advice.intervals(recorded_of),
        "effects": effects.table(found),
        "title": effects.TITLE,
    }
    page = template
    for name, text in blocks.items():
        page = page.replace(f"{{{name}}}", text)
    return {"README.md": f"{WRITTEN.format('README')}\n\n{page}", "effects.svg": effects.picture(found)}


def advice_page(recorded_of):
    """Returns the text of docs/settings.md with the table of all datasets from the records.

    Args:
        recorded_of: Function from the name of a source to its `Recorded` study.
    """
    page = CHOOSING.read_text(encoding="utf-8")
    return placed(CHOOSING.name, page, BEGIN, END, advice.table(recorded_of))


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
        yield from first_page(recorded_of).items()
        yield "../setting_effects.md", advice_page(recorded_of)


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
