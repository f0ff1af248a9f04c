"""Rules that every file of the package keeps."""

import ast
from pathlib import Path

from tests.rooms import ROOT, TABLE, arrows, imported, trees

FILES = ("tfdml", "pipelines")
LONGEST_FILE, SMALL_FILE = 600, 40
# A part of its own is a file, so the number of files has no limit; small files are what fragments a house.
LEAST_MEAN, MOST_SMALL_FILES, LONGEST_FUNCTION, MOST_PRINTS, MOST_BAGS_OF_FLAGS = 150, 6, 70, 0, 0
DOORS = ("__init__", "__main__")
# Of `hasattr`, and of `getattr` with a default.
MOST_GUESSES = 17
# What the house has; a new room needs a reason. All commands are one room, since each prints what others compute, and
# none imports another. They count as entries: `tfdml.share`, `tfdml.threshold`, `tfdml.suspects`, `tfdml.drift` and
# `tfdml.suggest` do what no other command does.
MOST_ROOMS, MOST_FLOORS, MOST_ARROWS, MOST_ENTRIES = 23, 9, 103, 41


def offenders(of_file):
    """Name of each file to what the function finds wrong in it, where it finds anything."""
    return {str(file): list(wrong) for file, tree in trees(*FILES).items() if (wrong := of_file(file, tree))}


def test_the_house_does_not_grow():
    pairs = {(room_with_commands(one), room_with_commands(other)) for one, other in arrows()}
    rooms = {room for pair in pairs for room in pair}
    entries = {
        path.name for path in (ROOT / "tfdml").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    counts = len(rooms), max(floor(room, pairs) for room in rooms), len(pairs), len(entries)
    most = MOST_ROOMS, MOST_FLOORS, MOST_ARROWS, MOST_ENTRIES
    assert all(count <= limit for count, limit in zip(counts, most, strict=True)), counts


def room_with_commands(room):
    return "commands" if (ROOT / room).with_suffix(".py").is_file() and is_command(Path(f"{room}.py")) else room


def floor(room, pairs, above=()):
    assert room not in above, f"a circle: {above}"
    return 1 + max((floor(other, pairs, (*above, room)) for one, other in pairs if one == room), default=0)


# Where a name that begins with an underscore is used of something that is not tfdml's own.
PRIVATE_USES = {
    "pipelines/datasets/published.py": {"_proc_member"},
    "tfdml/serving/beam.py": {"_futures_by_id"},
    "tfdml/console/startup.py": {"_exit"},
}


def private_names_of_others(file, tree):
    if str(file) == "tfdml/runtime/keras_internals.py":
        return []
    private = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    ]
    own = {node.attr for node in private if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")}
    return {node.attr for node in private} - own - PRIVATE_USES.get(str(file), set())


def test_private_names_of_others_stand_in_one_file():
    assert offenders(private_names_of_others) == {}


def uses_of_flags(file, tree):
    """Lines with FLAGS where no command line is, and imports of it anywhere."""
    uses = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "FLAGS"]
    uses += [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "FLAGS"]
    if str(file) == "tfdml/console/flags.py":
        # There FLAGS is only where definitions go unless the caller names another place.
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        defaults = {default.lineno for function in functions for default in function.args.defaults}
        uses = [line for line in uses if line not in defaults]
    if str(file) == "tfdml/console/command.py" or is_command(file):
        uses = []
    return uses + [name for name in imported(tree) if name.endswith(".FLAGS")]


def is_command(file):
    if file.parts[0] == "pipelines":
        return len(file.parts) == 2 and file.stem in TABLE["PIPELINE_COMMANDS"]
    return len(file.parts) == 2 and file.stem not in TABLE["FILES"]


def test_only_command_lines_read_flags():
    assert offenders(uses_of_flags) == {}


def test_no_assert_statement():
    assert offenders(lambda _, tree: [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]) == {}


def guesses(tree):
    """Calls that ask whether something has an attribute."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [call for call in calls if call.func.id == "hasattr" or (call.func.id == "getattr" and len(call.args) > 2)]


def guesses_without_a_reason(file, tree):
    lines = (ROOT / file).read_text().splitlines()
    return [call.lineno for call in guesses(tree) if not lines[call.lineno - 2].lstrip().startswith("#")]


def test_few_guesses_whether_there_is_an_attribute():
    """Most things declare what they have, or are of a known class; a comment above says why one does not."""
    assert sum(len(guesses(tree)) for tree in trees(*FILES).values()) <= MOST_GUESSES
    assert offenders(guesses_without_a_reason) == {}


def lines_of(file):
    return len((ROOT / file).read_text().splitlines())


def test_files_say_one_complete_thing():
    """Neither one long file for several subjects, nor one subject in fragments."""
    lines = {str(file): lines_of(file) for file in trees(*FILES)}
    assert {file: count for file, count in lines.items() if count > LONGEST_FILE} == {}
    assert sum(lines.values()) / len(lines) >= LEAST_MEAN
    small = [file for file, count in lines.items() if count < SMALL_FILE and Path(file).stem not in DOORS]
    assert len(small) <= MOST_SMALL_FILES


def code_lines(function):
    """Returns the number of lines of a function without its docstring, which may be as long as its readers need."""
    documented = ast.get_docstring(function) is not None
    docstring = function.body[0].end_lineno - function.body[0].lineno + 1 if documented else 0
    return function.end_lineno - function.lineno + 1 - docstring


def test_functions_stay_readable():
    lengths = {
        f"{file}:{node.lineno}": code_lines(node)
        for file, tree in trees(*FILES).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {place: count for place, count in lengths.items() if count > LONGEST_FUNCTION} == {}


def below_the_commands():
    """Yields each file that is neither a command nor part of what commands share."""
    for file, tree in trees(*FILES).items():
        if not is_command(file) and file.parts[:2] != ("tfdml", "console"):
            yield tree


def test_printing_and_flags_stay_in_the_commands():
    """Functions below the commands take values and return results, which the commands print."""
    nodes = [node for tree in below_the_commands() for node in ast.walk(tree)]
    prints = [node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"]
    bags = [
        node
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        for argument in node.args.args
        if argument.arg == "given"
    ]
    assert len(prints) <= MOST_PRINTS
    assert len(bags) <= MOST_BAGS_OF_FLAGS
