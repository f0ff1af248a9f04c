"""The scripts in docs/examples run from start to end, with small settings; the notebooks are those of the scripts."""

import base64
import functools
import io
import re

import keras
import pytest
from PIL import Image

from docs import notebooks
from docs.write_notebooks import outputs
from tests.rooms import ROOT

EXAMPLES = notebooks.scripts()
SMALL = {"CLASSES": 24, "IMAGES_EACH": 8, "PHOTOS_EACH": 8, "EPOCHS": 1, "SEEDS": 1, "BATCH_CLASSES": 8, "LEARNERS": 3}
LAST = {
    "similar_photos": r"Most similar to toy_photos/.*\n(?!1\.000)(\d\.\d{3}  design \d{3}  \d+\.jpg\n){6}$",
    "own_model": r"% before training, \d+\.\d% after it\nMost similar to .* design \d+:\n(\d\.\d+  design \d+\n){5}$",
    "verify_and_threshold": r"images of known classes get their label, and \d+\.\d% of the others are unknown\n$",
    "look_at_an_ensemble": r"Recall@1 of all before training: \d+\.\d%\nCorrelation 0\.\d{3}\n$",
    "model_to_service": r"'status': 'ok', .*\n(\d\.\d{3}  design \d{3}  \d+\.jpg\n){3}$",
    "compare_losses": r"difference .* points, 95% CI .* to .*\n(\w+ is better|no difference found)\n$",
}
# One of a method, and one of Keras' own.
IN_A_GRAPH = ("similar_photos", "own_model")


def small(text):
    """The script with the small settings, which all stand in one line."""
    (line,) = re.findall(r"^CLASSES, [A-Z_, ]* = .*$", text, re.MULTILINE)
    names = line.partition(" = ")[0]
    return text.replace(line, f"{names} = {', '.join(str(SMALL[name]) for name in names.split(', '))}")


@pytest.mark.nightly
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch, capsys):
    if path.stem not in IN_A_GRAPH:
        # Models of few steps each, whose graphs would take most of the time.
        monkeypatch.setattr(keras.Model, "compile", functools.partialmethod(keras.Model.compile, run_eagerly=True))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    exec(compile(small(path.read_text(encoding="utf-8")), str(path), "exec"), {})
    assert re.search(LAST[path.stem], capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["similar_photos", "model_to_service"])
def test_what_it_has_written_before_is_removed_and_nothing_else(name, tmp_path, monkeypatch):
    """Folders of an earlier run would be refused, or their photos be searched."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cell, *_ = notebooks.sources(notebooks.FOLDER / f"{name}.py")
    written = re.findall(r'Path\("(\w+)"\)', cell)
    for folder in ("photos", *written):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "old.jpg").touch()
    # Photos of one's own stay, also where they are searched.
    exec(small(cell).replace("PHOTOS, SIZE = TOY_PHOTOS, 48", "PHOTOS, SIZE = Path('photos'), 48"), {})
    assert [path.parent.name for path in tmp_path.rglob("old.jpg")] == ["photos"] and len(written) > 1


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_short_and_its_notebook_is_that_of_the_script(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# %% [markdown]" and lines.count("# %%") > 2 and len(lines) <= 120
    page = (ROOT / "docs" / "examples" / "README.md").read_text(encoding="utf-8")
    assert f"]({path.name})" in page and f"]({path.stem}.ipynb)" in page
    written = path.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert written == notebooks.notebook(path, notebooks.kept(path)), "run: python -m docs.write_notebooks"


SCRIPT = """# %% [markdown]
# # Title
#
# Text.

# %%
number = 1


# %%
def more():
    return number + 1


print(more())
"""


def test_cells_of_a_script(tmp_path):
    path = tmp_path / "example.py"
    path.write_text(SCRIPT)
    title, *code = notebooks.cells(path)
    assert title == ("markdown", "# Title\n\nText.")
    assert code == [("code", "number = 1"), ("code", "def more():\n    return number + 1\n\n\nprint(more())")]


def test_outputs_stay_while_the_code_does(tmp_path):
    path, names = tmp_path / "example.py", {}
    path.write_text(SCRIPT)
    assert notebooks.kept(path) == [[], []]
    found = [outputs(source, names) for source in notebooks.sources(path)]
    assert found == [[], [{"name": "stdout", "output_type": "stream", "text": ["2\n"]}]]
    path.with_suffix(".ipynb").write_text(notebooks.notebook(path, found))
    path.write_text(SCRIPT.replace("Text.", "Other text."))
    assert notebooks.kept(path) == found
    path.write_text(SCRIPT.replace("number = 1", "number = 2"))
    assert notebooks.kept(path) == [[], []]


def test_a_cell_shows_the_picture_that_its_last_line_is():
    (found,) = outputs("picture = Image.new('RGB', (9, 5), 'red')\npicture.copy()", {"Image": Image})
    kind, text = next((kind, text) for kind, text in found["data"].items() if kind.startswith("image/"))
    picture = Image.open(io.BytesIO(base64.b64decode(text)))
    assert picture.size == (9, 5) and picture.format.lower() == kind.removeprefix("image/")
    assert outputs("5", {}) == [] and outputs("for number in range(2):\n    print(number)", {})[0]["text"] == [
        "0\n",
        "1\n",
    ]
