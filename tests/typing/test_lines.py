"""Every part that users make has a line of use that passes, and one with a mistake that is marked."""

import ast

import pytest

from tests.typing import check
from tfdml import callbacks, layers, methods, registry


def called(tree, lines=None):
    """Names of what a module calls, on some of its lines or on all."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    functions = [node.func for node in calls if lines is None or node.lineno in lines]
    return {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in functions}


def lines_of(kind):
    return {path.name: path.read_text(encoding="utf-8") for path in check.HERE.glob(f"*_{kind}.py")}


def passing():
    return set().union(*(called(ast.parse(text)) for text in lines_of("pass").values()))


def marked():
    texts = lines_of("marked")
    places = check.marked_lines(texts)
    numbers = {name: {line for file, line in places if file == name} for name in texts}
    return set().union(*(called(ast.parse(text), numbers[name]) for name, text in texts.items()))


def parts():
    """Kind to the names in Python of its parts."""
    found = {kind: [part.__name__ for part in registry.registered(kind).values()] for kind in registry.ROOMS}
    return found | {module.__name__: module.__all__ for module in (callbacks, layers)}


@pytest.mark.parametrize("kind", [*registry.ROOMS, "tfdml.callbacks", "tfdml.layers"])
def test_every_part_has_lines(kind):
    names = set(parts()[kind])
    assert names and names <= passing(), "without a line in tests/typing/*_pass.py"
    assert names <= marked(), f"without a line in tests/typing/*_marked.py that ends in {check.MARK}"


def test_every_method_has_lines():
    """Those that no spec names, too, but for the base class."""
    assert set(methods.__all__) - {"EmbeddingModel"} <= passing() & marked()


def test_lines_that_pass_have_no_mark():
    assert check.marked_lines(lines_of("pass")) == set()


def test_a_call_counts_on_its_line():
    tree = ast.parse("tfdml.Single(1)\nSmall(2)\nsmall.split_at('a')\n")
    assert called(tree) == {"Single", "Small", "split_at"} and called(tree, {2}) == {"Small"}
