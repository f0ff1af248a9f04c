"""The commands and the Python of docs/objects.md run as a new user would run them."""

import re
import shlex

import numpy as np
import pytest
from PIL import Image

from tests.commands import ROOT, ok
from tests.serving_fixtures import exported, picture

PAGE = (ROOT / "docs" / "objects.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line)[2:] for line in PAGE.splitlines() if line.startswith("python -m ")]
# As the boxes on the page.
HEIGHT, WIDTHS = 160, (299, 314, 242)


def thing(number):
    """Random pixels of the size of a box."""
    rows = np.random.default_rng(number).integers(0, 256, (6, 6, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(rows).resize((WIDTHS[number], HEIGHT), Image.Resampling.NEAREST))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two products, of which one and a stranger are on the shelf, next to the other one."""
    for number, name in enumerate(("tea", "coffee")):
        (tmp_path / "products" / name).mkdir(parents=True)
        Image.fromarray(thing(number)).save(tmp_path / "products" / name / "1.png")
    Image.fromarray(np.hstack(list(map(thing, range(3))))).save(tmp_path / "shelf.jpg", quality=100, subsampling=0)
    boxes = re.search(r"```text\n(path,x1,y1,x2,y2\n.*?)```", PAGE, re.DOTALL)[1]
    boxes = boxes.replace("shelf.jpg", f"{tmp_path}/shelf.jpg")
    (tmp_path / "detections.csv").write_text(boxes)
    rows = [f"{row},{0.9 - place / 4},object {place}" for place, row in enumerate(boxes.splitlines()[1:])]
    (tmp_path / "objects.csv").write_text("\n".join(["path,x1,y1,x2,y2,score,label", *rows]))
    (tmp_path / "photos").mkdir()
    for number in range(3):
        (tmp_path / "photos" / f"{number}.png").write_bytes(picture(number, 80, 80))
    (tmp_path / "query.jpg").write_bytes(picture(7))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.nightly
def test_the_commands_and_the_code_run(folder, capsys):
    printed = []
    for module, *words in COMMANDS:
        names = (
            r"^((?:--\w+=)?)(\w+_index|products|photos|(?:detections|objects)\.csv|(?:shelf|query)\.jpg|found\.png)$"
        )
        words = [re.sub(names, rf"\1{folder}/\2", word) for word in words]
        words = [
            word.replace("exported/1", str(exported())).replace("threshold=0.3", "threshold=0.999") for word in words
        ]
        printed.append(ok(module, *words).stdout)
    indexed, labeled, objects, found, tiled, drawn = printed
    assert "Indexed 2 images" in indexed and "Indexed 3 images" in objects and "Indexed 15 tiles (2x2+1)" in tiled
    assert [line.split()[1:] for line in labeled.splitlines()] == [
        ["tea", f"{folder}/shelf.jpg#xywh=0,0,299,160"],
        ["coffee", f"{folder}/shelf.jpg#xywh=299,0,314,160"],
        ["unknown", f"{folder}/shelf.jpg#xywh=613,0,242,160"],
    ]
    # The third has a score of 0.4.
    assert "2 of 3 images match the filter" in found and "1.0000  object 0" in found and "object 2" not in found
    assert drawn.count(".png") == 3 and Image.open(folder / "found.png").size[1] > 100
    capsys.readouterr()
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code.replace("exported/1", str(exported())), "docs/objects.md", "exec"), {})
    assert capsys.readouterr().out == re.search(r"# (tea .*)\n", code)[1] + "\n"
