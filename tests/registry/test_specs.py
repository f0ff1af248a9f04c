"""Specs are names and literals; what is neither is told."""

import pytest

from tfdml import registry
from tfdml.registry import specs


@pytest.mark.parametrize(
    "text, steps",
    [
        ("box", [("box", {})]),
        ("box()", [("box", {})]),
        ("  box( width = 3 ) ", [("box", {"width": 3})]),
        (
            "box(a=-1.5e3, b='x|y(z=1)', c=(1, (2.0, None)), d=[True, False], e={'k': {1}})",
            [("box", {"a": -1500.0, "b": "x|y(z=1)", "c": (1, (2.0, None)), "d": [True, False], "e": {"k": {1}}})],
        ),
        ("a|b(c=1)|d()", [("a", {}), ("b", {"c": 1}), ("d", {})]),
    ],
)
def test_parse(text, steps):
    assert registry.parse(text) == steps


@pytest.mark.parametrize(
    "text",
    ["", " ", "box(", "box)", "box(width=)", "box(width=1", "box width", "1", "'box'", "a.b", "a.b(c=1)", "a()()"]
    + [
        "a || b",
        "a|",
        "|a",
        "a & b",
        "a + b",
        "a; b",
        "a\nb",
        "a(b=1, b=2)",
        "a(b=1, c=2, b=1)",
        "a(b={[]: 1})",
        "(a|1)",
        "x\0y",
    ],
)
def test_what_is_no_spec_is_shown_with_what_was_expected(text):
    with pytest.raises(ValueError) as error:
        registry.parse(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "|".join(["box"] * 20_000),
        "+".join(["box"] * 20_000),
        f"box(width={'-' * 100_000}1)",
        f"box(width={'[' * 5000}{']' * 5000})",
        f"box(width=1{'+1j' * 50_000})",
        f"box(width={'9' * 5000})",
        "box" + ".a" * 50_000,
        "box(width='\ud800')",
    ],
    ids=range(8),
)
def test_what_python_cannot_read_is_told_in_a_line(text):
    for read in (registry.parse, specs.parse_sum):
        with pytest.raises(ValueError, match="Cannot read the spec") as error:
            read(text)
        assert len(str(error.value)) < 800


@pytest.mark.parametrize("text", ["box(3, 4)", "box(1, 2, height=2)", "box(1, *[2])", "box(**{'width': 1})"])
def test_arguments_need_names(text):
    with pytest.raises(ValueError, match=r"need names. Write box\(argument=value\)"):
        registry.parse(text)


@pytest.mark.parametrize(
    "written, hint",
    [("hard", "'hard'"), ("true", "True"), ("FALSE", "False"), ("none", "None"), ("semi-hard", "'semi - hard'")],
)
def test_bare_words_get_a_hint(written, hint):
    with pytest.raises(ValueError, match=f"not a literal.*Did you mean mining={hint}\\?"):
        registry.parse(f"triplet(mining={written})")


def test_quotes_of_a_shell_are_told():
    with pytest.raises(ValueError, match="Remove the quotes around it, because no shell reads a flagfile"):
        registry.parse('"triplet(margin=0.3)"')


def test_what_is_no_text_is_told():
    with pytest.raises(ValueError, match="Expected a spec such as 'name\\(argument=value\\)'. Received: 5"):
        registry.parse(5)
