"""Writes the notebooks of docs/examples from their scripts, and keeps the outputs of unchanged code.

python -m docs.write_notebooks
python -m docs.write_notebooks --run=similar_photos
"""

import ast
import base64
import contextlib
import io
import tempfile

from absl import app, flags
from PIL import Image

from docs import notebooks

flags.DEFINE_list("run", [], "Names of scripts to run. Their notebooks get the new outputs.")

QUALITY = 80


def main(_):
    for script in notebooks.scripts():
        recorded = ran(script) if script.stem in flags.FLAGS.run else notebooks.kept(script)
        script.with_suffix(".ipynb").write_text(notebooks.notebook(script, recorded), encoding="utf-8")
        if not any(recorded):
            print(f"{script.stem} has no output. Run: python -m docs.write_notebooks --run={script.stem}")


def ran(script):
    """Runs a script in a temporary folder and returns the outputs of each code cell."""
    names = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return [outputs(source, names) for source in notebooks.sources(script)]


def outputs(source, names):
    """Returns what a cell prints, and the picture if its last line is one.

    Args:
        source: Code of the cell.
        names: Dictionary with the definitions of the previous cells, to which this cell adds its own.
    """
    tree, printed, shown = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last:
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    text = [line for line in printed.getvalue().splitlines(keepends=True) if line.strip() and "\r" not in line]
    found = [{"name": "stdout", "output_type": "stream", "text": text}] if text else []
    if isinstance(shown, Image.Image):
        kind, content = _encoded(shown)
        data = {kind: base64.b64encode(content).decode(), "text/plain": ["a picture"]}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return found


def _encoded(picture):
    """Returns the type and the content of a picture as PNG or JPEG, whichever is smaller."""
    files = {"image/png": io.BytesIO(), "image/jpeg": io.BytesIO()}
    picture.save(files["image/png"], "PNG", optimize=True)
    picture.convert("RGB").save(files["image/jpeg"], "JPEG", quality=QUALITY, optimize=True)
    return min(((kind, file.getvalue()) for kind, file in files.items()), key=lambda each: len(each[1]))


if __name__ == "__main__":
    app.run(main)
