"""Checks that a type checker accepts right uses of tfdml, and reports wrong ones.

    python -m tests.typing.check

The uses are the examples of the docs, calls of every part and public name, which are written here from their
signatures, and what `using_pass.py` and `using_marked.py` do with the results. The checker must report exactly the
lines that end in `# marked`.
"""

import ast
import importlib
import inspect
import json
import subprocess
import sys
import tempfile
import types
import typing
from pathlib import Path

from tfdml import registry
from tfdml.registry.fields import Declared

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MARK = "# marked"
NAMED = inspect.Parameter("nonsense", inspect.Parameter.KEYWORD_ONLY)
# The file of the uses that are written here.
PARTS = "uses_of_parts.py"
# Files with lines of use.
USES = ("using_pass.py", "using_marked.py")
# Packages that hand names on to users.
FACES = """
tfdml tfdml.backbones tfdml.callbacks tfdml.evaluation tfdml.heads tfdml.layers tfdml.losses tfdml.losses.addons
tfdml.methods tfdml.methods.memories tfdml.optimizers tfdml.reporting tfdml.serving tfdml.data pipelines.datasets
pipelines.sampling
""".split()
# Names of `given.py` that the reader of a page has before its first example.
GIVEN = {"docs/troubleshooting.md": "*"}
# Of the basic rules, these report code of Keras and TensorFlow, not of users.
RULES_OFF = (
    # Keras' operations and attributes are unannotated, and None is one of the types that are inferred for them.
    "reportOptionalCall",
    "reportOptionalIterable",
    "reportOptionalMemberAccess",
    "reportOptionalOperand",
    "reportOptionalSubscript",
    # As are tensors of backends, with which a NumPy number cannot be added.
    "reportOperatorIssue",
)


def pages():
    """Returns `{name: text}` of the pages with examples."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    texts = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return {name: text for name, text in texts.items() if "```python\n" in text}


def python_of(page, given=""):
    """Returns the Python examples of a page, each on its own lines, so that an error has the line of the page.

    Args:
        page: text of the page.
        given: names of `given.py`; the page's first line, its heading, imports them.
    """
    lines, inside = [], False
    for line in page.splitlines():
        inside = inside and line != "```"
        lines.append(line if inside else "")
        inside = inside or line == "```python"
    if given:
        lines[0] = f"from tests.typing.given import {given}"
    return "\n".join(lines) + "\n"


def parts():
    """Returns `{full name: class or function}` of all registered parts, and of the public names of packages."""
    found = [part for kind in registry.ROOMS for part in registry.registered(kind).values()]
    packages = map(importlib.import_module, FACES)
    found += [getattr(package, name) for package in packages for name in package.__all__]
    ours = [part for part in found if isinstance(part, type | types.FunctionType)]
    return {f"{part.__module__}.{part.__qualname__}": part for part in ours}


def written_uses(part):
    """Returns lines that call a class or function: right ones, and for each argument one with a value of another type.

    Required arguments are the variable `anything`; a call without them is wrong, as is one with an unknown argument.
    Arguments of type `Any` have no wrong value.
    """
    name, arguments, hints = part.__qualname__, arguments_of(part), types_of(part)

    def call(named, *values):
        unnamed = [each for each in named if arguments.get(each, NAMED).kind is NAMED.POSITIONAL_ONLY]
        values = [*values, *map(named.get, unnamed)]
        return f"{name}({', '.join([*values, *(f'{each}={named[each]}' for each in named if each not in unnamed)])})"

    needed = {each: "anything" for each, argument in arguments.items() if argument.default is argument.empty}
    stated = {each: repr(argument.default) for each, argument in arguments.items() if is_literal(argument.default)}
    in_order = []
    for each, argument in arguments.items():
        # An optimizer has the arguments of Keras', which type checkers know by their names.
        if argument.kind is argument.KEYWORD_ONLY or each not in needed | stated or "__signature__" in vars(part):
            break
        in_order.append((needed | stated)[each])
    rest = {each: value for each, value in needed.items() if each not in list(arguments)[: len(in_order)]}
    lines = [call(needed), call(needed | stated), call(rest, *in_order)]
    wrong = [call({})] if needed else []
    wrong += [] if takes_any_name(part) else [call(needed | {"nonsense": "1"})]
    wrong += [call(needed | {each: wrong_value(hints[each])}) for each in arguments if wrong_value(hints.get(each))]
    return [*dict.fromkeys(lines), *(f"{line}  {MARK}" for line in wrong)]


def _takes_fields(part):
    """Whether fields are the arguments of a class, and no `__init__` of its own takes others."""
    return isinstance(part, type) and issubclass(part, Declared) and part.takes_fields


def _signature(part):
    """Returns the signature that stands in the code, in which `**kwargs` may stand for arguments of Keras."""
    if not isinstance(part, type):
        return inspect.signature(part)
    signature = inspect.signature(inspect.unwrap(part.__init__))
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def arguments_of(part):
    """Returns `{name: inspect.Parameter}` of the arguments that a type checker knows, in their order."""
    if _takes_fields(part):
        return {
            name: NAMED.replace(
                name=name,
                kind=NAMED.KEYWORD_ONLY if field.keyword_only else NAMED.POSITIONAL_OR_KEYWORD,
                default=field.default,
            )
            for name, field in part.fields.items()
        }
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return {name: each for name, each in _signature(part).parameters.items() if each.kind not in several}


def types_of(part):
    """Returns `{argument: type}` of those that are annotated."""
    return typing.get_type_hints(part if _takes_fields(part) or not isinstance(part, type) else part.__init__)


def takes_any_name(part):
    """Whether a type checker accepts arguments of any name, because of `**kwargs` without their types."""
    several = [each for each in _signature(part).parameters.values() if each.kind is each.VAR_KEYWORD]
    return not _takes_fields(part) and any(typing.get_origin(each.annotation) is not typing.Unpack for each in several)


def wrong_value(hint):
    """Returns the code of a value that a type does not allow; an empty text if it allows any."""
    inside = typing.get_args(hint)
    if hint is None or hint in (typing.Any, object) or (is_union(hint) and not all(map(wrong_value, inside))):
        return ""
    literal = typing.get_origin(hint) is typing.Literal or any(
        typing.get_origin(each) is typing.Literal for each in inside
    )
    return '"sometimes"' if literal and str not in inside else "object()"


def is_union(hint):
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def is_literal(value):
    """Whether the code of a value is its text."""
    try:
        return ast.literal_eval(repr(value)) == value
    except (SyntaxError, ValueError):
        return False


def write_parts(file):
    """Writes the uses of all parts into a file, and returns its text."""
    lines = ["from typing import Any", "anything: Any = None"]
    for part in parts().values():
        lines += [f"from {part.__module__} import {part.__qualname__}", *written_uses(part)]
    text = "\n".join(lines) + "\n"
    file.write_text(text, encoding="utf-8")
    return text


def marked_lines(texts):
    """Returns the set of `(file, line)` that end in the mark, of `{file: text}`."""
    return {
        (file, number)
        for file, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if line.rstrip().endswith(MARK)
    }


def errors_of(output):
    """Returns `{(file, line): message}` of what the checker prints with --outputjson; of a line the first error."""
    errors = {}
    for each in json.loads(output)["generalDiagnostics"]:
        if each["severity"] == "error":
            place = (each["file"], each["range"]["start"]["line"] + 1)
            errors.setdefault(place, f"{each['message']} ({each.get('rule', 'syntax')})")
    return errors


def differences(errors, marked):
    """Returns a line for each error that is not marked, and for each mark without an error, sorted by place."""
    found = {place: f"error: {message}" for place, message in errors.items() if place not in marked}
    found |= {place: f"no error, but the line ends in {MARK!r}" for place in marked if place not in errors}
    return [f"{file}:{line}: {what}" for (file, line), what in sorted(found.items())]


def configuration(folder):
    rules = dict.fromkeys(RULES_OFF, "none")
    return {
        "include": [str(folder), *(f"{HERE}/{name}" for name in USES)],
        "extraPaths": [str(ROOT)],
        "stubPath": str(HERE / "stubs"),
        "typeCheckingMode": "basic",
        **rules,
    }


def write_examples(folder):
    """Writes the examples of each page into one file; returns `{path of the file: name of the page}`."""
    written = {}
    for name, text in pages().items():
        # No module of that name exists, so that the file of docs/keras.md does not hide Keras.
        file = folder / f"{Path(name).stem}_examples.py"
        file.write_text(python_of(text, GIVEN.get(name, "")), encoding="utf-8")
        written[str(file)] = name
    return written


def run_checker(folder):
    """Runs the checker once on all files; returns its output."""
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps(configuration(folder)), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(settings)]
    done = subprocess.run([*command, "--pythonpath", sys.executable], capture_output=True, text=True)
    # 0: no errors, 1: errors; otherwise it did not run.
    if done.returncode > 1:
        sys.exit(f"The type checker failed: {done.stdout}{done.stderr}")
    return done.stdout


def main():
    own = {(HERE / name).relative_to(ROOT).as_posix(): (HERE / name).read_text(encoding="utf-8") for name in USES}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        names = write_examples(folder) | {str(ROOT / file): file for file in own} | {str(folder / PARTS): PARTS}
        own[PARTS] = write_parts(folder / PARTS)
        errors = errors_of(run_checker(folder))
    marked = marked_lines(own)
    wrong = differences({(names[file], line): message for (file, line), message in errors.items()}, marked)
    written = own[PARTS].splitlines()
    wrong = [f"{line}: {written[int(line.split(':')[1]) - 1]}" if line.startswith(PARTS) else line for line in wrong]
    print("\n".join([*wrong, f"{len(names)} files, {len(marked)} marked lines, {len(wrong)} wrong"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
