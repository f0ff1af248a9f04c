"""Links to the sections of docs/evidence that show a difference."""

import functools
import re

from benchmarks.pages.catalog import PAGES
from benchmarks.pages.template import TEMPLATES, paragraphs


def link_of(source, pair=""):
    """Returns the link from another page of docs/evidence to the section that shows a source.

    Args:
        source: Name in `SOURCES`.
        pair: Text `A minus B`. The first section that has it is preferred to the first one that has the source.

    Raises:
        ValueError: If no page shows the source.
    """
    sections = [(link, text) for link, sources, text in _shown() if source in sources]
    if not sections:
        raise ValueError(f"No page of docs/evidence shows {source!r}.")
    pair = pair.partition(" [")[0]
    return next((link for link, text in sections if pair in text), sections[0][0])


@functools.cache
def _shown():
    """Returns a link, the names of sources and the text for each paragraph that has some."""
    found = []
    for page in PAGES:
        link = f"{page}.md"
        selected = ""
        for text in paragraphs((TEMPLATES / f"{page}.md").read_text(encoding="utf-8")):
            if text.startswith("## "):
                link = f"{page}.md#{_anchor(text.removeprefix('## '))}"
            selection = re.fullmatch(r"\{study: (\w+)\}", text)
            selected = selection[1] if selection else selected
            # Sources that a block names are in heads, such as `Cars = cars_main`, or in front of rows.
            sources = {selected, *re.findall(r"(\w+)/", text), *re.findall(r" = (\w+)", text)}
            found.append((link, sources, " ".join(text.split())))
    # The summary above the first section comes last.
    return sorted(found, key=lambda each: "#" not in each[0])


def _anchor(heading):
    """Returns the anchor that GitHub and the site give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
