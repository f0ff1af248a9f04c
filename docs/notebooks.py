"""Converts the example scripts to notebooks: each `# %%` in a script starts a cell."""

import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).parent / "examples"
SETUP = pathlib.Path(__file__).parents[1] / "setup.py"
GITHUB = "https://github.com/"
# The address of the public repository, from setup.py. Without an address, notebooks install the clone that they are in
# and have no link to Colab.
REPOSITORY = re.search(r'^REPOSITORY = "(.*)"$', SETUP.read_text(encoding="utf-8"), re.MULTILINE)[1]
# Requirements of scripts that are part of neither tfdml nor Colab.
EXTRAS, PACKAGES = {"model_to_service": "serve"}, {"model_to_service": "httpx2"}
MARKDOWN, CODE = "markdown", "code"


def scripts():
    """Returns the paths of the scripts."""
    return sorted(FOLDER.glob("*.py"))


def colab(name):
    """Returns the address at which Colab opens a notebook, or `None` if the repository is not on GitHub."""
    if not REPOSITORY.startswith(GITHUB):
        return None
    repository = REPOSITORY.removeprefix(GITHUB)
    return f"https://colab.research.google.com/github/{repository}/blob/main/docs/examples/{name}.ipynb"


def install(name):
    """Returns the code that installs the requirements of a notebook if tfdml is not installed."""
    extra, packages = EXTRAS.get(name), PACKAGES.get(name, "")
    if REPOSITORY:
        # The extra cpu would replace Colab's TensorFlow, which supports the GPU.
        found = f'"tfdml{f"[{extra}]" if extra else ""} @ git+{REPOSITORY}" "{_faiss()}"'
    else:
        found = f'"../..[{",".join(filter(None, ["cpu", extra]))}]"'
    command = f"%pip install -q {found} {packages}".strip()
    return f'import importlib.util\n\nif importlib.util.find_spec("tfdml") is None:\n    {command}'


def cells(script):
    """Returns the kind and the text of each cell of a script."""
    parts = re.split(r"^# %%( \[markdown\])?\n", script.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [
        (MARKDOWN, re.sub(r"^# ?", "", source.strip(), flags=re.MULTILINE)) if mark else (CODE, source.strip())
        for mark, source in zip(parts[::2], parts[1::2], strict=True)
    ]


def sources(script):
    """Returns the code of each code cell of a script."""
    return [source for kind, source in cells(script) if kind == CODE]


def notebook(script, recorded):
    """Returns the text of a script's notebook.

    Args:
        script: its path.
        recorded: list with the outputs of each cell with code.
    """
    (_, title), *rest = cells(script)
    link, recorded = colab(script.stem), iter(recorded)
    title += f"\n\n[Open in Colab]({link})" if link else ""
    written = [_cell(MARKDOWN, title), _cell(CODE, install(script.stem))]
    written += [_cell(kind, source, next(recorded) if kind == CODE else ()) for kind, source in rest]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    whole = {"cells": written, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def kept(script):
    """Returns the outputs of each code cell in the notebook of a script, without those of changed cells."""
    path, code = script.with_suffix(".ipynb"), sources(script)
    if path.exists():
        found = [cell for cell in cells_of(path) if cell["cell_type"] == CODE][1:]
        if ["".join(cell["source"]) for cell in found] == code:
            return [cell["outputs"] for cell in found]
    return [[]] * len(code)


def cells_of(path):
    """Returns the cells of a notebook: the title, the installation, and the cells of the script."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def _faiss():
    """Returns the requirement for faiss on a CPU from setup.py."""
    return re.search(r'"(faiss-cpu.*)"', SETUP.read_text(encoding="utf-8"))[1]


def _cell(kind, source, outputs=()):
    found = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return found | ({"execution_count": None, "outputs": list(outputs)} if kind == CODE else {})
