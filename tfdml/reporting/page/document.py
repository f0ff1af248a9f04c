"""One HTML file with all that it needs: style, script, data and pictures."""

import json
import string
from importlib import resources

from tfdml.reporting.page.elements import Html, anchor, element, joined, section

# What JSON may hold, but not where it stands in HTML: the end of a script, and the start of a comment.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def document(title, state, sections, data):
    """Returns the text of a page that opens from disk and asks no network for anything.

    Args:
        title: its title.
        state: sentences below the title, each to whether it is of a run that is not complete.
        sections: title to content, `Html`; without content there is no section.
        data: plain data for the script.
    """
    shown = {name: content for name, content in sections.items() if content}
    links = [element("li", element("a", name, href=f"#{anchor(name)}")) for name in shown]
    files = resources.files("tfdml.reporting.page")
    names = ("page.html", "page.css", "places.js", "page.js")
    parts = {name: files.joinpath(name).read_text(encoding="utf-8") for name in names}
    return string.Template(parts["page.html"]).substitute(
        title=joined(title),
        style=parts["page.css"],
        state=joined(*(element("p", text, class_=f"state{' going' * going}") for text, going in state.items())),
        links=joined(*links),
        sections=joined(*(section(name, content) for name, content in shown.items())),
        data=json_in_html(data),
        script=joined(Html(parts["places.js"]), Html(parts["page.js"])),
    )


def json_in_html(data):
    """Returns data as JSON that can stand in a script element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, written in UNSAFE.items():
        text = text.replace(character, written)
    return text
