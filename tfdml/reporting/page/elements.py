"""Elements of HTML. All text is escaped, unless it is `Html` already."""

import html


class Html(str):
    """Text that is HTML, which is not escaped again."""


def element(name, /, *content, **attributes):
    """Returns an element as `Html`.

    Args:
        name: name of the tag.
        *content: what is in it: `Html`, or anything else, which is escaped; None is left out.
        **attributes: its attributes; `_` in a name becomes `-`, and one at the end goes, as in `class_`. True gives an
            attribute without a value; None and False leave it out.
    """
    return Html(f"<{name}{_attributes(attributes)}>{joined(*content)}</{name}>")


def empty_element(name, /, **attributes):
    """Returns an element without content, such as `img`."""
    # The slash ends those of SVG, and is allowed in those of HTML.
    return Html(f"<{name}{_attributes(attributes)}/>")


def joined(*content):
    """Returns content one after another as `Html`."""
    return Html("".join(escaped(each) for each in content if each is not None))


def escaped(value):
    """Returns text as `Html`."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def table(head, rows, caption, **attributes):
    """Returns a table whose first column names the rows.

    Args:
        head: titles of the columns.
        rows: lists of cells.
        caption: what the table shows.
        **attributes: attributes of the table.
    """
    top = element("tr", *(element("th", cell, scope="col") for cell in head))
    lines = [
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    content = element("caption", caption), element("thead", top), element("tbody", *lines)
    # Wide tables scroll by themselves; by keys, too, as they can have the focus.
    about = {"class_": "scroll", "tabindex": "0", "role": "region", "aria_label": caption}
    return element("div", element("table", *content, **attributes), **about)


def pairs(named):
    """Returns a list of names with their values.

    Args:
        named: name to value; those without a value are left out.
    """
    known = {name: value for name, value in named.items() if value not in (None, "")}
    return element("dl", *(element("div", element("dt", name), element("dd", each)) for name, each in known.items()))


def section(title, *content):
    """Returns a section of the page, to which its title leads."""
    name = anchor(title)
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *content, id=name, aria_labelledby=f"{name}-title")


def anchor(title):
    """Returns the name by which links lead to a section."""
    return "-".join(title.lower().split())


def _attributes(attributes):
    present = {name: value for name, value in attributes.items() if value is not None and value is not False}
    return "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for name, value in present.items()
    )
