"""Fills the templates of pages: sentences are written by hand, their numbers come from records.

A marker is `{verb: arguments}`:

- `{better: A minus B}`, `{worse: ...}` and `{alike: ...}` give how many points A is better than B, with the 95 %
  interval, and claim that this is so by more than chance, or not. `{just better: ...}` gives the number alone, and
  `{so better: ...}` nothing: it checks what words say.
- `{compared: A minus B}` gives the number, the interval and the word, `1.2 points (0.3 to 2.1) better than`, and
  `{seen: A minus B}` whether a paper's claim that A is better is seen: for sentences that are true of all records.
- `{highest: A; B}` gives the row with the highest Recall@1 and this, `{level: A; B}` those that are not significantly
  behind it.
- `{recall: A}`, `{spread: A}`, `{before: A}` and `{features: A}` give Recall@1: the mean, with its deviation, before
  training, and of the pretrained features.
- `{value: HEAD; A}` gives the mean of another column, `{range: HEAD; A; B}` the smallest and the largest of some rows.
- `{tried: A; FLAG}` gives what the best setting with a part of a flag reached on validation classes.

Names of rows may have `*`. A marker that is a paragraph of its own is a block, see `blocks`.
"""

import fnmatch
import re
import textwrap

from benchmarks.pages.claims import CLAIMS, claimed, compared, difference_of, judged

WIDTH = 120
MARKER = re.compile(r"\{([a-z]+(?: [a-z]+)*)(?::\s([^{}]*))?\}")
SENTENCE = re.compile(r"(?<=[.:?!])\s+")


def filled(template, recorded, blocks):
    """Returns the text of a page.

    Args:
        template: text with markers.
        recorded: the `Recorded` study.
        blocks: name of a block to a function of its arguments, which returns its text.
    """
    paragraphs = re.split(r"\n\s*\n", template.strip())
    return "\n\n".join(_paragraph(each, recorded, blocks) for each in paragraphs) + "\n"


def matching(patterns, names):
    """Returns the names that patterns name, in the order of the patterns; one that names none is an error."""
    found = {}
    for pattern in patterns:
        several = [pattern] if pattern in names else fnmatch.filter(names, pattern.replace("[", "[[]"))
        if not several:
            raise ValueError(f"Expected the name of a row that the records have, received {pattern!r}.")
        found |= dict.fromkeys(several)
    return list(found)


def placed(name, page, begin, end, told):
    """Returns a page with other text between two of its lines.

    Args:
        name: of the page, for the error where it lacks the lines.
        page: its text.
        begin, end: the lines, which stay.
        told: the new text; empty: none.
    """
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{name}: expected the lines {begin} and {end} around a table.")
    return f"{before}{begin}\n\n{told}\n\n{end}{after}" if told else f"{before}{begin}\n{end}{after}"


def _paragraph(text, recorded, blocks):
    block = MARKER.fullmatch(text.strip())
    if block and block[1] in blocks:
        return blocks[block[1]](block[2] or "")
    items = re.split(r"\n(?=- )", text)
    return "\n".join(_wrapped(_with_numbers(item, recorded)) for item in items)


def _wrapped(text):
    if text.startswith(("#", "|", "```", "!", "<!--")):
        return text
    more = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        " ".join(text.split()), WIDTH, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
    )


def _with_numbers(text, recorded):
    def number(marker):
        try:
            return _number(marker[1], " ".join((marker[2] or "").split()), recorded)
        except ValueError as error:
            raise ValueError(f"{_sentence(text, marker)!r}: {error}") from None

    return MARKER.sub(number, text)


def _sentence(text, marker):
    """The sentence in which a marker stands."""
    before, after = SENTENCE.split(text[: marker.start()])[-1], SENTENCE.split(text[marker.end() :])[0]
    return " ".join(f"{before}{marker[0]}{after}".split())


def _number(verb, given, recorded):
    how, _, claim = verb.rpartition(" ")
    if claim in CLAIMS and how in ("", "just", "so"):
        found = difference_of(recorded, given)
        # Words that say that two rows are alike have no direction.
        turns = how == "so" and claim == "alike" and found.mean < 0
        mean, interval = claimed(claim, found.turned() if turns else found)
        return {"": f"{mean} points {interval}", "just": mean, "so": ""}[how]
    if verb in OTHERS:
        return OTHERS[verb](recorded, [part.strip() for part in given.split(";")])
    raise ValueError(f"Expected one of {', '.join([*CLAIMS, *OTHERS])}, received {verb!r}.")


def _recall(recorded, given):
    return _mean(_cell(recorded, next(iter(recorded.study.columns)), given[0]))


def _spread(recorded, given):
    return _cell(recorded, next(iter(recorded.study.columns)), given[0])


def _before(recorded, given, of="untrained"):
    (row,) = matching(given, recorded.rows)
    return f"{100 * recorded.results(row)[0][of]['recall_at_1']:.1f}"


def _features(recorded, given):
    return _before(recorded, given, of="features")


def _value(recorded, given):
    head, row = given
    return _mean(_cell(recorded, head, row))


def _tried(recorded, given):
    row, flag = given
    (name,) = matching([row], recorded.rows)
    values = [value for flags, value in recorded.search.tried[name] if any(flag in each for each in flags)]
    if not values:
        raise ValueError(f"Expected a part of a flag that was tried of {name}, received {flag!r}.")
    return f"{100 * max(values):.1f}"


def _range(recorded, given):
    head, *patterns = given
    means = [_mean(recorded.cell(row, head)) for row in _rows(recorded, patterns)]
    means.sort(key=_value_of)
    return f"{means[0]} to {means[-1]}"


def _compared(recorded, given):
    return compared(difference_of(recorded, "; ".join(given)))


def _seen(recorded, given):
    return judged(difference_of(recorded, "; ".join(given)))


def _highest(recorded, given):
    first = _best_of(recorded, given)
    return f'"{first}" with {_recall(recorded, [first])}'


def _level(recorded, given):
    first = _best_of(recorded, given)
    others = [row for row in _rows(recorded, given) if row != first]
    level = [f'"{row}"' for row in others if not difference_of(recorded, f"{first} minus {row}").is_significant]
    return " and ".join(filter(None, [", ".join(level[:-1]), *level[-1:]])) or "none"


def _best_of(recorded, patterns):
    return max(_rows(recorded, patterns), key=lambda row: _value_of(_recall(recorded, [row])))


def _rows(recorded, patterns):
    """The rows that patterns name, but for those of patterns that begin with `not `."""
    left_out = [pattern.removeprefix("not ") for pattern in patterns if pattern.startswith("not ")]
    rows = matching([pattern for pattern in patterns if not pattern.startswith("not ")], recorded.rows)
    out = matching(left_out, recorded.rows)
    return [row for row in rows if row not in out]


def _value_of(text):
    return float(text.replace(",", ""))


def _cell(recorded, head, row):
    (name,) = matching([row], recorded.rows)
    if head not in recorded.study.columns:
        raise ValueError(f"Expected one of {', '.join(recorded.study.columns)}, received {head!r}.")
    return recorded.cell(name, head)


def _mean(cell):
    return cell.partition(" ±")[0]


OTHERS = {
    "recall": _recall,
    "spread": _spread,
    "before": _before,
    "features": _features,
    "value": _value,
    "tried": _tried,
    "range": _range,
    "compared": _compared,
    "seen": _seen,
    "highest": _highest,
    "level": _level,
}
