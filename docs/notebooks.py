"""Notebooks of the examples, which are scripts: each `# %%` of a script begins a cell."""

import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).parent / "examples"
# The repository on GitHub: only this line names it. Where it changes, run `python -m docs.write_notebooks`.
REPOSITORY = "OWNER/REPO"
# Colab has the package tensorflow, which owns the same files as tensorflow-cpu.
INSTALL = f"""import importlib.util

if importlib.util.find_spec("tfdml") is None:
    %pip uninstall -q -y tensorflow
    %pip install -q "tfdml[cpu,serve] @ git+https://github.com/{REPOSITORY}" httpx2"""
MARKDOWN, CODE = "markdown", "code"


def scripts():
    """Returns the paths of the scripts."""
    return sorted(FOLDER.glob("*.py"))


def colab(name):
    """Returns the address at which Colab opens the notebook of this name."""
    return f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/docs/examples/{name}.ipynb"


def cells(script):
    """Returns the kind and the text of each cell of a script."""
    parts = re.split(r"^# %%( \[markdown\])?\n", script.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [
        (MARKDOWN, re.sub(r"^# ?", "", source.strip(), flags=re.MULTILINE)) if mark else (CODE, source.strip())
        for mark, source in zip(parts[::2], parts[1::2], strict=True)
    ]


def sources(script):
    """Returns the code of each cell with code of a script."""
    return [source for kind, source in cells(script) if kind == CODE]


def notebook(script, recorded):
    """Returns the text of a script's notebook.

    Args:
        script: its path.
        recorded: list with the outputs of each cell with code.
    """
    (_, title), *rest = cells(script)
    link, recorded = f"[Open in Colab]({colab(script.stem)})", iter(recorded)
    written = [_cell(MARKDOWN, f"{title}\n\n{link}"), _cell(CODE, INSTALL)]
    written += [_cell(kind, source, next(recorded) if kind == CODE else ()) for kind, source in rest]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    whole = {"cells": written, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def kept(script):
    """Returns the outputs of each cell with code of a script's notebook; none where its code is another."""
    path, code = script.with_suffix(".ipynb"), sources(script)
    if path.exists():
        found = [cell for cell in cells_of(path) if cell["cell_type"] == CODE][1:]
        if ["".join(cell["source"]) for cell in found] == code:
            return [cell["outputs"] for cell in found]
    return [[]] * len(code)


def cells_of(path):
    """Returns the cells of a notebook, as it has them: the title, what installs tfdml, and those of the script."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def _cell(kind, source, outputs=()):
    found = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return found | ({"execution_count": None, "outputs": list(outputs)} if kind == CODE else {})
