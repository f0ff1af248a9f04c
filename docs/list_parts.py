"""Writes the tables of docs/parts.md from the registered components and the first lines of their docstrings.

python -m docs.list_parts
"""

import pathlib

from tfdml import registry

PAGE = pathlib.Path(__file__).parent / "parts.md"
BEGIN = "<!-- The rest of this page is written by: python -m docs.list_parts -->"


# Kinds with few components, which share a table.
TOPICS = {
    "Batches": ("sampler", "labels", "transform"),
    "Searches": ("protocol", "reranking", "index", "store"),
    "Networks": ("backbone", "head", "method"),
    "Training": ("memory", "optimizer", "schedule"),
}


def written(page):
    """Returns the text of the page with up-to-date tables."""
    topics = {kind: topic for topic, kinds in TOPICS.items() for kind in kinds}
    headings = dict.fromkeys(topics.get(kind, kind) for kind in registry.ROOMS)
    sections = (of_topic(heading) if heading in TOPICS else section(heading) for heading in headings)
    return "\n\n".join([page.partition(BEGIN)[0] + BEGIN, *sections]) + "\n"


def section(kind):
    """Returns the heading and the table of a kind."""
    plural = f"{kind}es" if kind.endswith(("s", "x")) else f"{kind}s".replace("ys", "ies")
    return "\n".join([f"## {plural.capitalize()}", "", f"| {kind} | description |", "|---|---|", *rows(kind)])


def of_topic(topic):
    """Returns the heading of a topic and the table of its kinds."""
    table = [f"| {kind} {row}" for kind in TOPICS[topic] for row in rows(kind)]
    return "\n".join([f"## {topic}", "", "| kind | name | description |", "|---|---|---|", *table])


def rows(kind):
    """Returns the rows of a table for the components of a kind."""
    return [f"| `{name}` | {summary.replace('|', '&#124;')} |" for name, summary in registry.summaries(kind).items()]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Wrote {PAGE}")
