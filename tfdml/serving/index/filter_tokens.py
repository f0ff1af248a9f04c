"""Splits the text of a filter into words, values and signs."""

import re
from typing import Any, NamedTuple

# Characters of a filter.
MOST = 2000
# Characters of a filter that a message shows.
SHOWN = 30
WORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})
KINDS = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<name>[^\W\d]\w*)
    | (?P<sign><=|>=|==|!=|<>|[<>=(),])
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A part of a filter.

    Args:
        kind: `word`, `name`, `number`, `text`, `sign`, or `end`.
        value: the word in lower case, the name, the value, or the sign.
        place: its first character, from 0.
    """

    kind: str
    value: Any
    place: int


def tokens_of(text):
    """Returns the `Token`s of a filter, the last of the kind `end`; a ValueError if something is none."""
    if not isinstance(text, str):
        raise ValueError(f"Expected a filter as text, such as \"label == 'cup'\", received {type(text).__name__}.")
    if len(text) > MOST:
        raise ValueError(f"The filter has {len(text):,} characters, and may have {MOST:,}.")
    found, place = [], 0
    while text[place:].strip():
        match = KINDS.match(text, place)
        if not match:
            place += len(text[place:]) - len(text[place:].lstrip())
            open_quote = text[place] in "'\"`"
            raise filter_error("a quote that is not closed" if open_quote else "no such sign", text, place)
        kind = match.lastgroup
        found.append(_token(kind, match[kind], match.start(kind)))
        place = match.end()
    return [*found, Token("end", "the end", len(text))]


def filter_error(problem, text, place):
    """Returns the ValueError of a problem at a place of a filter, which it shows."""
    # A text of somebody else may have lines, and a message is one.
    shown = " ".join(text[place : place + SHOWN].split()) or "the end"
    # JSON may have half of a character, which no answer can.
    shown = shown.encode("utf-8", "backslashreplace").decode()
    return ValueError(f"The filter cannot be used: {problem}, at character {place + 1}: {shown}")


def _token(kind, text, place):
    if kind == "number":
        return Token(kind, _number(text), place)
    if kind == "text":
        return Token(kind, text[1:-1].replace(2 * text[0], text[0]), place)
    if kind == "quoted":
        return Token("name", text[1:-1].replace("``", "`"), place)
    if kind == "name" and text.lower() in WORDS:
        return Token("word", text.lower(), place)
    return Token(kind, text, place)


def _number(text):
    # What is larger than the integers of a table is compared as a float.
    if re.fullmatch(r"[+-]?\d{1,19}", text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    return float(text)
