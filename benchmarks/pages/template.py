"""Fills the templates of pages: sentences are written by hand, their numbers come from records.

A marker is `{verb: arguments}`:

- `{better: A minus B}`, `{worse: ...}` and `{alike: ...}` print how many points A is better than B, with the 95%
  confidence interval, and check that this is significant, or not. `{equal: ...}` checks that A and B differ by less
  than 2 points, by a test of equivalence. `{so better: ...}` prints nothing: it checks the words around it.
- `{compared: A minus B}` prints the number, the interval and the word, `1.2 points (0.3 to 2.1) better than`. Use it in
  sentences that stay true for any records.
- `{recall: A}`, `{spread: A}`, `{before: A}` and `{features: A}` print Recall@1: the mean, the mean with its standard
  deviation, the value before training, and the value of the pretrained features.
- `{value: HEAD; A}` prints the mean of another column, `{range: HEAD; A; B}` the smallest and the largest of some rows.
- `{changed: A}` prints the percentage of images that changed their cluster at the last clustering.
- `{parameters: A}` prints the parameters of a model with several learners or levels, in millions.
- `{tried: A; FLAG}` prints the best value on the validation classes among settings with a part of a flag.

A marker names rows as the study does, also with `*`; readers see their display names. The paragraph `{study: NAME}`
selects the source of the numbers that follow, and `{recall: NAME/A}` takes one number from another source. A marker
that is a paragraph of its own is a block, see `blocks`.
"""

import fnmatch
import re
import textwrap

from benchmarks.pages.claims import CLAIMS, claimed, compared, difference_of
from benchmarks.pages.recorded import ROOT
from benchmarks.studies.columns import share_of_changed

TEMPLATES = ROOT / "benchmarks/pages/templates"
WIDTH = 120
# Markers that print an interval in the words `points (low to high)`.
INTERVAL = re.compile(r"\{(better|worse|alike|equal|compared):")
MARKER = re.compile(r"\{([a-z]+(?:\s+[a-z]+)*)(?::\s([^{}]*))?\}")
SENTENCE = re.compile(r"(?<=[.:?!])\s+")


def filled(template, studies, blocks):
    """Returns the text of a page.

    Args:
        template: Text with markers.
        studies: The `Studies` of the page.
        blocks: Dictionary from the name of a block to a function that returns the text of the block for its arguments,
            or None.
    """
    texts = (_paragraph(each, studies, blocks) for each in paragraphs(template))
    return "\n\n".join(text for text in texts if text is not None) + "\n"


def paragraphs(template):
    """Returns the paragraphs of a template, which are headings, blocks, texts and whole lists."""
    return re.split(r"\n\s*\n", template.strip())


def with_units(template):
    """Returns a template in which the first marker that prints an interval also prints what the numbers are."""
    return INTERVAL.sub(lambda found: f"{{first {found[1]}:", template, count=1)


def matching(patterns, names):
    """Returns the names that match patterns, in the order of the patterns; each pattern must match a name."""
    found = {}
    for pattern in patterns:
        several = [pattern] if pattern in names else fnmatch.filter(names, pattern.replace("[", "[[]"))
        if not several:
            raise ValueError(f"The records have no row {pattern!r}.")
        found |= dict.fromkeys(several)
    return list(found)


def placed(name, page, begin, end, told):
    """Replaces the text between two lines of a page.

    Args:
        name: Name of the page, for the error if it lacks the lines.
        page: Text of the page.
        begin: Line before the text.
        end: Line after the text.
        told: The new text. If empty, nothing stands between the lines.
    """
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{name} must have the lines {begin} and {end} around a table.")
    return f"{before}{begin}\n\n{told}\n\n{end}{after}" if told else f"{before}{begin}\n{end}{after}"


def _paragraph(text, studies, blocks):
    block = MARKER.fullmatch(text.strip())
    if block and block[1] in blocks:
        return blocks[block[1]](block[2] or "")
    items = re.split(r"\n(?=- )", text)
    return "\n".join(wrapped(_with_numbers(item, studies)) for item in items)


def wrapped(text):
    """Wraps a paragraph; headings, tables, code and comments stay as they are."""
    if text.startswith(("#", "|", "```", "!", "<!--")):
        return text
    more = "  " if text.startswith("- ") else ""
    return textwrap.fill(
        " ".join(text.split()), WIDTH, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
    )


def _with_numbers(text, studies):
    def number(marker):
        try:
            recorded, given = studies.of(" ".join((marker[2] or "").split()))
            return _number(" ".join(marker[1].split()), given, recorded)
        except ValueError as error:
            raise ValueError(f"{_sentence(text, marker)!r}: {error}") from None

    return MARKER.sub(number, text)


def _sentence(text, marker):
    """Returns the sentence that contains a marker."""
    before, after = SENTENCE.split(text[: marker.start()])[-1], SENTENCE.split(text[marker.end() :])[0]
    return " ".join(f"{before}{marker[0]}{after}".split())


def _number(verb, given, recorded):
    if verb.startswith("first "):
        return _with_units(_number(verb.removeprefix("first "), given, recorded))
    how, _, claim = verb.rpartition(" ")
    if claim in CLAIMS and how in ("", "so"):
        found = difference_of(recorded, given)
        # A claim that two rows are alike or equal has no direction.
        turns = how == "so" and claim in ("alike", "equal") and found.mean < 0
        mean, interval = claimed(claim, found.turned() if turns else found)
        return "" if how else f"{mean} points {interval}"
    if verb in OTHERS:
        return OTHERS[verb](recorded, [part.strip() for part in given.split(";")])
    raise ValueError(f"A marker starts with one of {', '.join([*CLAIMS, *OTHERS])}. Received: {verb!r}.")


def _with_units(text):
    return text.replace(" points (", " percentage points (95% confidence interval: ", 1)


def _recall(recorded, given):
    return _mean(cell_of(recorded, next(iter(recorded.study.columns)), given[0]))


def _spread(recorded, given):
    return cell_of(recorded, next(iter(recorded.study.columns)), given[0])


def _before(recorded, given, of="untrained"):
    (row,) = matching(given, recorded.rows)
    return f"{100 * recorded.results(row)[0][of]['recall_at_1']:.1f}"


def _features(recorded, given):
    return _before(recorded, given, of="features")


def _value(recorded, given):
    head, row = given
    return _mean(cell_of(recorded, head, row))


def _changed(recorded, given):
    (row,) = matching(given, recorded.rows)
    return f"{100 * share_of_changed(recorded.results(row)):.0f}"


def _parameters(recorded, given):
    (row,) = matching(given, recorded.rows)
    return f"{recorded.results(row)[0]['cost']['parameters'] / 1e6:.2f} million"


def _tried(recorded, given):
    row, flag = given
    (name,) = matching([row], recorded.rows)
    values = [value for flags, value in recorded.search.tried[name] if any(flag in each for each in flags)]
    if not values:
        raise ValueError(f"No setting of {name} has a flag with {flag!r}.")
    return f"{100 * max(values):.1f}"


def _range(recorded, given):
    head, *patterns = given
    means = [_mean(recorded.cell(row, head)) for row in _rows(recorded, patterns)]
    means.sort(key=_value_of)
    return f"{means[0]} to {means[-1]}"


def _compared(recorded, given):
    return compared(difference_of(recorded, "; ".join(given)))


def _rows(recorded, patterns):
    """Returns the rows that match patterns, except those that match a pattern after `not `."""
    left_out = [pattern.removeprefix("not ") for pattern in patterns if pattern.startswith("not ")]
    rows = matching([pattern for pattern in patterns if not pattern.startswith("not ")], recorded.rows)
    out = matching(left_out, recorded.rows)
    return [row for row in rows if row not in out]


def _value_of(text):
    return float(text.replace(",", ""))


def cell_of(recorded, head, row):
    """Returns the text of a table cell."""
    (name,) = matching([row], recorded.rows)
    if head not in recorded.study.columns:
        raise ValueError(f"The columns are {', '.join(recorded.study.columns)}. Received: {head!r}.")
    return recorded.cell(name, head)


def _mean(cell):
    return cell.partition(" ±")[0]


OTHERS = {
    "recall": _recall,
    "spread": _spread,
    "before": _before,
    "features": _features,
    "value": _value,
    "changed": _changed,
    "parameters": _parameters,
    "tried": _tried,
    "range": _range,
    "compared": _compared,
}
