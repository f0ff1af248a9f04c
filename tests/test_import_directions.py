"""Keeps the table of rooms.bzl by reading the imports of every file."""

import ast
import sys

from docs import draw_architecture
from tests.rooms import ROOT, TABLE, TOPS, arrows, imported, module_of, room_of, trees

ROOMS, COMMANDS = TABLE["ROOMS"], TABLE["OF_COMMANDS"]
# These run on any Keras backend.
ON_ANY_BACKEND = ("tfdml/functional", "tfdml/losses", "tfdml/layers", "tfdml/backbones", "tfdml/heads")
# These are imported before the help of a command is printed.
AT_ONCE = ("tfdml/registry", "tfdml/console")
LIGHT = {"absl", "numpy"}
# A callback of Keras, imported after it.
LATER = "tfdml/console/progress_lines.py"


def may_import(room):
    if room == "benchmarks":
        return [*ROOMS, *(room for room, _ in arrows())]
    return ROOMS.get(room, [*COMMANDS, "tfdml"])


def test_rooms_import_what_the_table_says():
    wrong = {pair: files for pair, files in arrows().items() if pair[1] not in may_import(pair[0])}
    assert wrong == {}


def test_the_table_has_every_room_once_and_goes_down():
    packages = {f"tfdml/{path.parent.name}" for path in (ROOT / "tfdml").glob("*/__init__.py")}
    files = {f"tfdml/{name}" for name in TABLE["FILES"] if name != "__init__"}
    assert set(ROOMS) == packages | files | {"tfdml", "pipelines"}
    below = []
    for room, others in ROOMS.items():
        assert others == sorted(others) and set(others) <= set(below), room
        below.append(room)


def test_imports_are_absolute():
    files = trees("tfdml", "pipelines").items()
    assert [file for file, tree in files if any(name.startswith(".") for name in imported(tree))] == []


def imported_by_string(tree):
    """Lines that import a module of the project by a string, which the table of imports would not know."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(("import_module", "__import__"))
        and any(isinstance(name, ast.Constant) and str(name.value).split(".")[0] in TOPS for name in node.args)
    ]


def test_no_module_is_imported_by_a_string():
    found = {str(file): lines for file, tree in trees(*TOPS).items() if (lines := imported_by_string(tree))}
    assert found == {}


def test_what_runs_on_any_backend_imports_no_tensorflow():
    found = {
        str(file): name
        for file, tree in trees("tfdml").items()
        if room_of(module_of(file)) in ON_ANY_BACKEND
        for name in imported(tree)
        if name.split(".")[0] == "tensorflow"
    }
    assert found == {}


def test_help_waits_for_nothing():
    """Modules that are imported before it import light packages; heavy ones are imported in functions."""
    found = {
        (str(file), name)
        for file, tree in trees("tfdml").items()
        if room_of(module_of(file)) in AT_ONCE and str(file) != LATER
        for name in imported_at_once(tree)
        if name.split(".")[0] not in {"tfdml", *LIGHT, *sys.stdlib_module_names}
    }
    assert found == set()


def imported_at_once(tree):
    tree = type(tree)(body=[node for node in tree.body if "Import" in type(node).__name__], type_ignores=[])
    return imported(tree)


def test_the_picture_of_the_architecture_shows_the_table():
    assert draw_architecture.PICTURE.read_text(encoding="utf-8") == draw_architecture.drawing(), (
        "run: python -m docs.draw_architecture"
    )
