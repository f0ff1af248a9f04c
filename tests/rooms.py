"""The table of rooms.bzl, and what the files of the project import of each other."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOPS = ("tfdml", "pipelines", "benchmarks")
TABLE = {}
exec((ROOT / "rooms.bzl").read_text(), TABLE)


@cache
def trees(*tops):
    """File, relative to the project, to its syntax tree."""
    files = sorted(path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.py"))
    return {file: ast.parse((ROOT / file).read_text()) for file in files}


def imported(tree):
    """Full names of all that a module imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def room_of(name):
    """The room of a module, or of a name in one: a package or a file at the top of tfdml, or another top package."""
    parts = name.split(".")
    deeper = ROOT / "tfdml" / parts[1] if parts[0] == "tfdml" and len(parts) > 1 else None
    is_room = deeper is not None and (deeper.is_dir() or deeper.with_suffix(".py").is_file())
    return f"tfdml/{parts[1]}" if is_room else parts[0]


def module_of(file):
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


@cache
def arrows():
    """Pair of rooms, of which the first imports the second, to the files that do."""
    found = {}
    for file, tree in trees(*TOPS).items():
        room = room_of(module_of(file))
        for name in imported(tree):
            if name.split(".")[0] in TOPS and room_of(name) != room:
                found.setdefault((room, room_of(name)), set()).add(str(file))
    return found
