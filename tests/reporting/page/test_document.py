"""The page is a single file in which all text is escaped."""

import json
import re
from html.parser import HTMLParser

import pytest

from tfdml.reporting.page import about_run, code, document, html, joined, paragraph

EVIL = """</script><script>alert('x')</script><!-- & "a" <b>"""


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text between them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += [data] if data.strip() else []


def data_of(text):
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return data


@pytest.mark.parametrize(
    "made",
    [
        html.table(["Flag", EVIL], [[EVIL, EVIL]], EVIL, "numbers"),
        html.pairs({EVIL: EVIL}),
        html.next_steps({EVIL: EVIL}),
        html.reproduce(EVIL, {EVIL: EVIL}),
        html.pictures([("data:", EVIL, EVIL)]),
        html.gallery([EVIL], [EVIL], [EVIL, "B"], True),
        about_run({"dataset": EVIL}, {"data_dir": (EVIL, "")}),
        joined(EVIL, paragraph(EVIL), code(EVIL), None),
    ],
)
def test_text_is_escaped_and_comes_back(made):
    reader = Reader(made)
    assert EVIL not in made and any(EVIL in text for text in reader.text)
    assert not {"script", "b"} & {tag for tag, _ in reader.tags}


def test_data_cannot_end_its_script():
    data = {"name": EVIL, EVIL: "\u2028é&"}
    text = document("a", {}, {}, data)
    assert not set("<>&\u2028é") & set(data_of(text)) and json.loads(data_of(text)) == data
    with pytest.raises(ValueError):
        document("a", {}, {}, {"value": float("nan")})


def test_one_file_with_all_that_was_given():
    sections = {"A b": paragraph("x"), "None": None, "Empty": joined()}
    text = document(EVIL, {"Going": True, "Done": False}, sections, {"name": EVIL})
    assert text.startswith("<!DOCTYPE html>") and '<html lang="en">' in text
    assert text.count("<script") == 2 and text.count("</script>") == 2
    assert '<p class="state going">Going</p>' in text and '<p class="state">Done</p>' in text
    assert '<a href="#a-b">A b</a>' in text and "#none" not in text and "#empty" not in text
    assert '<section id="a-b" aria-labelledby="a-b-title">' in text and '<h2 id="a-b-title">A b</h2>' in text


def test_nothing_is_asked_of_a_network():
    text = document("a", {}, {"b": paragraph("c")}, {})
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|//\w|url\(|@import|fetch\(|XMLHttpRequest", text)
    assert re.findall(r'(?:href|src)="([^"]*)"', text) == ["#main", "#b"]
