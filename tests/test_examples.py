"""The scripts in docs/examples run from start to end, with small settings in place of their own."""

import re

import pytest

from tests.rooms import ROOT

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
SMALL = {"CLASSES": 24, "IMAGES_EACH": 8, "PHOTOS_EACH": 8, "EPOCHS": 1, "SEEDS": 2, "BATCH_CLASSES": 8, "LEARNERS": 4}
LAST = {
    "similar_photos": r"Most similar to photos/.*\n1\.000  photos/.*\n(\d\.\d{3}  photos/.*\n){5}$",
    "own_model": r"Recall@1 of new classes: 0\.\d+ untrained, 0\.\d+ trained\n$",
    "verify_and_threshold": r"of known classes \d+\.\d% get their label, of strangers \d+\.\d% are unknown\n$",
    "look_at_an_ensemble": r"Correlation 0\.\d{3}; images that only one learner gets right: \[(\d+(, |\]\n$)){4}",
    "model_to_service": r"'status': 'ok', .*\n(\d\.\d{3}  design \d{3}  \d+\.jpg\n){3}$",
    "compare_losses": r"difference .*, 95% of the time between .* and .*\n(\w+ is better|no difference found)\n$",
}


def small(text):
    """The script with the small settings, which all stand in one line."""
    (line,) = re.findall(r"^[A-Z_, ]*EPOCHS.* = .*$", text, re.MULTILINE)
    names = line.partition(" = ")[0]
    return text.replace(line, f"{names} = {', '.join(str(SMALL[name]) for name in names.split(', '))}")


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    exec(compile(small(path.read_text(encoding="utf-8")), str(path), "exec"), {})
    assert re.search(LAST[path.stem], capsys.readouterr().out)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_short_and_opens_as_a_notebook(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# %% [markdown]" and lines.count("# %%") > 2 and len(lines) <= 80
    page = (ROOT / "docs" / "examples" / "README.md").read_text(encoding="utf-8")
    assert f"]({path.name})" in page
