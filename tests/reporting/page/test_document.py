"""The page as one file."""

import json
import re

import pytest

from tfdml.reporting.page import document, element, json_in_html

EVIL = "</script><script>alert(1)</script><!--"


def data_of(text):
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(data)


def test_data_cannot_end_its_script():
    written = json_in_html({"name": EVIL, EVIL: "\u2028é&"})
    assert not set("<>&\u2028é") & set(written)
    assert json.loads(written) == {"name": EVIL, EVIL: "\u2028é&"}
    with pytest.raises(ValueError):
        json_in_html({"value": float("nan")})


def test_one_file_with_all_that_was_given():
    text = document(EVIL, {"Going": True, "Done": False}, {"A b": element("p", "x"), "None": None}, {"name": EVIL})
    assert text.startswith("<!DOCTYPE html>") and '<html lang="en">' in text
    assert text.count("<script") == 2 and text.count("</script>") == 2
    assert data_of(text) == {"name": EVIL}
    assert '<p class="state going">Going</p><p class="state">Done</p>' in text
    assert '<a href="#a-b">A b</a>' in text and '<section id="a-b"' in text and "#none" not in text


def test_nothing_is_asked_of_a_network():
    text = document("a", {}, {"b": element("p", "c")}, {})
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|//\w|url\(|@import|fetch\(|XMLHttpRequest", text)
    assert re.findall(r'(?:href|src)="([^"]*)"', text) == ["#main", "#b"]
