"""Writes the lists of docs/api.md from public names, registered components and the first lines of their docstrings.

python -m docs.list_parts
"""

import inspect
import pathlib

import tfdml
from tfdml import registry

PAGE = pathlib.Path(__file__).parent / "api.md"
BEGIN = "<!-- The rest of this page is written by: python -m docs.list_parts -->"

# What has no name in specs: heading to the packages and their names; None: all public names.
IN_PYTHON = {
    "Load, search and share": {
        "tfdml": ("load", "ImageEmbedder", "Index", "from_preset", "save_preset", "upload_preset", "Preprocessing"),
        "tfdml.serving": ("Searcher", "export"),
        "tfdml.data": None,
        "tfdml.evaluation": ("evaluate", "diversity", "cost"),
    },
    "Callbacks": {"tfdml.callbacks": None},
}
# Heading to the kinds below it.
SECTIONS = {
    "Losses": ("loss", "miner", "distance"),
    "Networks": ("method", "backbone", "text_tower", "head"),
    "Batches": ("sampler", "labels", "transform"),
    "Datasets": ("dataset",),
    "Training": ("optimizer", "schedule", "memory"),
    "Metrics": ("metric",),
    "Searches": ("protocol", "reranking", "index", "store"),
    "Pictures": ("picture",),
}
# Losses that have a section of another name.
ANCHORS = {"Nested": "nested-dimensions"}


def written(page):
    """Returns the text of the page with the lists as they should be now."""
    if missing := set(registry.ROOMS) - {kind for kinds in SECTIONS.values() for kind in kinds}:
        raise ValueError(f"SECTIONS of docs/list_parts.py has no heading for {', '.join(sorted(missing))}.")
    python = [in_python(heading, packages) for heading, packages in IN_PYTHON.items()]
    parts = [section(heading, kinds) for heading, kinds in SECTIONS.items()]
    return "\n\n".join([page.partition(BEGIN)[0] + BEGIN, *python, *parts]) + "\n"


def in_python(heading, packages):
    """Returns the heading and table of names that are used in Python only."""
    rows = ["| Name | Description |", "|---|---|"]
    for package, names in packages.items():
        home = tfdml if package == "tfdml" else getattr(tfdml, package.rpartition(".")[2])
        for name in names or home.__all__:
            rows.append(f"| `{package}.{name}` | {first_line(getattr(home, name))} |")
    return "\n".join([f"## {heading}", "", *rows])


def section(heading, kinds):
    """Returns the heading and the tables of some kinds."""
    several = [f"### {plural(kind)}\n\n{table(kind)}" for kind in kinds]
    return "\n\n".join([f"## {heading}", *(several if len(kinds) > 1 else [table(kinds[0])])])


def plural(kind):
    """Returns the heading of a kind."""
    return (
        (f"{kind}es" if kind.endswith("x") else kind if kind.endswith("s") else f"{kind}s")
        .replace("ys", "ies")
        .replace("_", " ")
        .title()
    )


def table(kind):
    """Returns the table of a kind: its classes, or only names where its parts are functions."""
    parts = {name: registry.registered(kind)[name] for name in registry.names(kind)}
    flag = "Short name"
    if not any(inspect.isclass(part) for part in parts.values()):
        head, rows = [flag, "Description"], [[f"`{name}`", first_line(part)] for name, part in parts.items()]
    else:
        head = ["Class", flag, "Description"]
        rows = [[class_of(kind, part), f"`{name}`", first_line(part)] for name, part in parts.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def class_of(kind, part):
    """Returns the name of a class, a loss with a link to its section."""
    if not inspect.isclass(part):
        return "–"
    name = part.__name__
    return f"[`{name}`](losses.md#{ANCHORS.get(name, name.lower())})" if kind == "loss" else f"`{name}`"


def first_line(part):
    """Returns the first line of a docstring as a table has it."""
    return (inspect.getdoc(part) or "").split("\n")[0].replace("|", "&#124;")


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"Wrote {PAGE}")
