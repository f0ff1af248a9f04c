"""Descriptions of arguments, from one docstring to another."""

import inspect
import re

# The section of a docstring that describes arguments, up to the next line that is not indented.
SECTION = re.compile(r"^Args:\n((?:(?: .*)?\n)+)", re.MULTILINE)
# One description in it: names, and lines that are indented further.
ENTRY = re.compile(r"^    (\S.*?): .*\n(?:     .*\n)*", re.MULTILINE)


def with_arguments(names, docstring, *others):
    """The docstring with a section that describes these arguments, each as the first of the docstrings that has it."""
    text = _clean(docstring)
    described = {}
    for each in (text, *map(_clean, others)):
        described = {**_descriptions(each), **described}
    # Arguments that are described together stand together.
    entries = dict.fromkeys(described[name] for name in names if name in described)
    before, _, after = (*SECTION.split(text, maxsplit=1), "", "")[:3]
    return "\n\n".join(part.strip("\n") for part in (before, "Args:\n" + "".join(entries), after) if part.strip())


def _descriptions(text):
    """Argument to the lines that describe it."""
    section = SECTION.search(text)
    entries = ENTRY.finditer(section[1]) if section else ()
    return {name: entry[0] for entry in entries for name in entry[1].split(", ")}


def _clean(docstring):
    return f"{inspect.cleandoc(docstring)}\n" if docstring else ""
