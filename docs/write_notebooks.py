"""Writes the notebooks of docs/examples from their scripts. What a notebook has printed stays while its code does.

python -m docs.write_notebooks
python -m docs.write_notebooks --run=similar_photos
"""

import ast
import base64
import contextlib
import io
import json
import pathlib
import re
import tempfile

from absl import app, flags
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "examples"
# The repository on GitHub: only this line names it. Write the notebooks anew where it changes.
REPOSITORY = "OWNER/REPO"
COLAB = f"https://colab.research.google.com/github/{REPOSITORY}/blob/main/docs/examples"
# Colab has the package tensorflow, which owns the same files as tensorflow-cpu.
INSTALL = f"""import importlib.util

if importlib.util.find_spec("tfdml") is None:
    %pip uninstall -q -y tensorflow
    %pip install -q "tfdml[cpu,serve] @ git+https://github.com/{REPOSITORY}" httpx2"""
MARKDOWN, CODE = "markdown", "code"
QUALITY = 80

flags.DEFINE_list("run", [], "Names of scripts to run, whose notebooks get what they print and show.")


def main(_):
    for script in scripts():
        recorded = ran(script) if script.stem in flags.FLAGS.run else kept(script)
        script.with_suffix(".ipynb").write_text(notebook(script, recorded), encoding="utf-8")
        if not any(recorded):
            print(f"{script.stem} has no output: python -m docs.write_notebooks --run={script.stem}")


def scripts():
    """Returns the paths of the scripts."""
    return sorted(FOLDER.glob("*.py"))


def colab(name):
    """Returns the address at which Colab opens a notebook."""
    return f"{COLAB}/{name}.ipynb"


def notebook(script, recorded):
    """Returns the text of a script's notebook.

    Args:
        script: its path.
        recorded: list with the outputs of each code cell.
    """
    (_, title), *rest = cells(script.read_text(encoding="utf-8"))
    link, recorded = f"[Open in Colab]({colab(script.stem)})", iter(recorded)
    written = [_cell(MARKDOWN, f"{title}\n\n{link}"), _cell(CODE, INSTALL)]
    written += [_cell(kind, source, next(recorded) if kind == CODE else ()) for kind, source in rest]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    whole = {"cells": written, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def cells(text):
    """Returns the kind and the text of each cell of a script."""
    parts = re.split(r"^# %%( \[markdown\])?\n", text, flags=re.MULTILINE)[1:]
    return [
        (MARKDOWN, re.sub(r"^# ?", "", source.strip(), flags=re.MULTILINE)) if mark else (CODE, source.strip())
        for mark, source in zip(parts[::2], parts[1::2], strict=True)
    ]


def kept(script):
    """Returns the outputs of each code cell of a script's notebook; none where the notebook is of other code."""
    sources = [source for kind, source in cells(script.read_text(encoding="utf-8")) if kind == CODE]
    path, nothing = script.with_suffix(".ipynb"), [[]] * len(sources)
    if not path.exists():
        return nothing
    found = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == CODE][1:]
    same = ["".join(cell["source"]) for cell in found] == sources
    return [cell["outputs"] for cell in found] if same else nothing


def ran(script):
    """Runs a script in a temporary folder; returns the outputs of each code cell."""
    names, recorded = {"__name__": "__main__"}, []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for kind, source in cells(script.read_text(encoding="utf-8")):
            if kind == CODE:
                recorded.append(_outputs(source, names))
    return recorded


def _outputs(source, names):
    """What a cell prints, and the picture that its last line is."""
    tree, printed, shown = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last:
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    text = printed.getvalue().splitlines(keepends=True)
    found = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    if isinstance(shown, Image.Image):
        kind, content = _encoded(shown)
        data = {kind: base64.b64encode(content).decode(), "text/plain": ["a picture"]}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return found


def _encoded(picture):
    """The type and the content of a picture, as PNG or JPEG, the smaller of both."""
    files = {"image/png": io.BytesIO(), "image/jpeg": io.BytesIO()}
    picture.save(files["image/png"], "PNG", optimize=True)
    picture.convert("RGB").save(files["image/jpeg"], "JPEG", quality=QUALITY, optimize=True)
    return min(((kind, file.getvalue()) for kind, file in files.items()), key=lambda each: len(each[1]))


def _cell(kind, source, outputs=()):
    found = {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
    return found | ({"execution_count": None, "outputs": list(outputs)} if kind == CODE else {})


if __name__ == "__main__":
    app.run(main)
