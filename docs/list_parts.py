"""Writes the lists of docs/parts.md from the registered parts and the first lines of their docstrings.

python -m docs.list_parts
"""

import pathlib

from tfdml import registry

PAGE = pathlib.Path(__file__).parent / "parts.md"
BEGIN = "<!-- The rest of this page is written by: python -m docs.list_parts -->"


def written(page):
    """Returns the text of the page with the lists as they should be now."""
    return "\n\n".join([page.partition(BEGIN)[0] + BEGIN, *map(section, registry.ROOMS)]) + "\n"


def section(kind):
    """Returns the heading and table of a kind."""
    plural = f"{kind}es" if kind.endswith(("s", "x")) else f"{kind}s".replace("ys", "ies")
    rows = [f"| `{name}` | {summary.replace('|', '&#124;')} |" for name, summary in registry.summaries(kind).items()]
    return "\n".join([f"## {plural.capitalize()}", "", f"| {kind} | description |", "|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Wrote {PAGE}")
