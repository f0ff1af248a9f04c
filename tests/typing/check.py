"""Checks that a type checker accepts the examples of the docs, and marks what is wrong in tests/typing.

    python -m tests.typing.check

Files `*_pass.py` and `*_marked.py` of this folder have lines of use. The checker must report exactly the lines that end
in `# marked`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MARK = "# marked"
# Files with lines of use.
USES = ("*_pass.py", "*_marked.py")
# Names of `given.py` that the reader of a page has before its first example.
GIVEN = {"README.md": "labels, paths"}
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
        "include": [str(folder), *(f"{HERE}/{pattern}" for pattern in USES)],
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
    uses = [path for pattern in USES for path in HERE.glob(pattern)]
    own = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in uses}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        names = write_examples(folder) | {str(ROOT / file): file for file in own}
        errors = errors_of(run_checker(folder))
    marked = marked_lines(own)
    wrong = differences({(names[file], line): message for (file, line), message in errors.items()}, marked)
    print("\n".join([*wrong, f"{len(names)} files, {len(marked)} marked lines, {len(wrong)} wrong"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
