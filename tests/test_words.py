"""The turns of phrase that `words.py` knows become fewer, and pages for newcomers have none."""

import ast

import pytest

from tests import words
from tests.rooms import ROOT

# The numbers may only become smaller.
MOST = {"docs": 110, "docs/evidence": 33, "tfdml": 113, "pipelines": 10}
# Pages that newcomers read first have none.
FIRST_PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in ("search_your_photos", "quickstart", "metric_learning", "keras")),
]


def files_of(area):
    files = (ROOT / area).glob("*.md" if area == "docs" else "**/*")
    more = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / ".github").glob("*.md")] if area == "docs" else []
    return [path for path in [*files, *more] if path.suffix in (".md", ".py")]


@pytest.mark.parametrize("area", MOST)
def test_turns_of_phrase_become_fewer(area):
    found = sum(len(words.matches(text)) for path in files_of(area) for text in words.texts_of(path))
    assert found <= MOST[area], f"Run python -m tests.words {area}, and rewrite sentences."
    assert found >= MOST[area] - 20, f"Lower the bound of {area} to {found}, so that it stays there."


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_pages_for_newcomers_have_none(page):
    found = [match[0] for text in words.texts_of(ROOT / page) for _, match in words.matches(text)]
    assert not found


@pytest.mark.parametrize("package", ["tfdml", "pipelines"])
def test_first_lines_of_docstrings_have_none(package):
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / package).rglob("*.py")}
    first = {(path.name, text.split("\n")[0]) for path, tree in trees.items() for text in words.docstrings(tree)}
    assert not {(name, line) for name, line in first if words.matches(line)}


@pytest.mark.parametrize(
    "text, advice",
    [
        ("The loss takes labels.", "accept, use, need, not take"),
        ("With ImageNet weights classes teach most.", "a comma after a phrase in front"),
        ("64 images a class.", "per class, not a class"),
        ("It is no run of tfdml.", "is not a, not is no"),
    ],
)
def test_a_turn_of_phrase_is_found(text, advice):
    assert advice in [found for found, _ in words.matches(text)]
    assert not words.matches("With ImageNet weights, the classes matter most. A loss accepts 64 images per class.")


def test_the_texts_of_a_file_are_its_docstrings_messages_and_comments():
    source = '"""First.\n\nSecond\nline."""\n# Third.\nraise ValueError(f"Fourth {x}." + y)\nprint("Fifth text", z)\n'
    assert words.texts_of_source(source) == ["First.", "Second line.", "Fourth {...}.{...}", "Fifth text", "Third."]
    assert words.paragraphs("# Title\n\nA [link](page.md)\nand more.\n```\ncode\n```\n- item") == [
        "# Title",
        "A [link] and more.",
        "- item",
    ]
