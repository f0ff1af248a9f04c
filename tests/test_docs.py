"""The examples in the docs run, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def test_examples_of_the_keras_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / "keras.md").read_text(), re.DOTALL)
    names = {}
    for example in examples:
        exec(compile(example, "docs/keras.md", "exec"), names)
    assert len(examples) == 4
    assert "recall_at_1" in capsys.readouterr().out
    assert (names["same"].predict(names["images"], verbose=0) == names["embeddings"]).all()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_number_is_left_to_be_filled_in(page):
    assert not re.findall(r"\b[A-Z]+_[A-Z]+\b(?<!TF_CONFIG)", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_every_page_is_linked_from_the_readme():
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert all(f"docs/{page.name}" in readme for page in PAGES[1:])
