"""Elements of HTML: text stays text."""

from html.parser import HTMLParser

from tfdml.reporting.page import Html, about_run, element, empty_element, joined, pairs, section, table

EVIL = """<script>alert('x')</script> & "a" <b>"""


class Reader(HTMLParser):
    """Collects tags with their attributes, and the text between them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def test_text_and_attributes_are_escaped_and_come_back():
    reader = Reader(element("p", EVIL, title=EVIL))
    assert reader.tags == [("p", {"title": EVIL})] and "".join(reader.text) == EVIL


def test_html_is_not_escaped_again_and_text_beside_it_is():
    assert element("p", element("b", "a"), "<") == "<p><b>a</b>&lt;</p>"
    assert isinstance(joined(Html("<b>"), 3, None), Html) and joined(Html("<b>"), 3, None) == "<b>3"


def test_names_of_attributes():
    made = element("label", class_="a", aria_label="b", hidden=True, disabled=False, title=None)
    assert made == '<label class="a" aria-label="b" hidden></label>'
    assert empty_element("img", src="x") == '<img src="x"/>'


def test_a_table_names_its_rows_and_columns():
    made = Reader(table(["Flag", EVIL], [[EVIL, "1"]], "About & more"))
    assert [about for tag, about in made.tags if tag == "th"] == [{"scope": "col"}, {"scope": "col"}, {"scope": "row"}]
    assert made.tags[0] == ("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "About & more"})
    assert made.text.count(EVIL) == 2 and "script" not in {tag for tag, _ in made.tags}


def test_what_has_no_value_is_not_listed():
    made = Reader(pairs({"a": "", "b": None, "c": 0}))
    assert made.text == ["c", "0"]


def test_a_section_can_be_linked_to():
    made = Reader(section("Queries and neighbors", "text"))
    assert made.tags[0] == (
        "section",
        {"id": "queries-and-neighbors", "aria-labelledby": "queries-and-neighbors-title"},
    )
    assert made.tags[1] == ("h2", {"id": "queries-and-neighbors-title"})


def test_flags_hold_any_text():
    reader = Reader(about_run({"dataset": EVIL, "seed": 0}, {"data_dir": (EVIL, "")}))
    assert reader.text.count(EVIL) == 2 and "0" in reader.text and "(empty)" in reader.text
    assert {tag for tag, _ in reader.tags} <= {
        "dl",
        "div",
        "dt",
        "dd",
        "table",
        "caption",
        *"thead tbody tr th td code".split(),
    }
