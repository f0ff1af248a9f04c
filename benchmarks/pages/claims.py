"""Checks the differences that sentences claim against their confidence intervals."""

import re
from typing import NamedTuple


class Difference(NamedTuple):
    """Difference in Recall@1 between two rows, in percentage points, with its 95% confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def is_seen(self):
        """Whether the interval is above 0."""
        return self.low > 0

    @property
    def is_significant(self):
        """Whether the interval does not contain 0."""
        return self.low > 0 or self.high < 0

    def turned(self):
        """Returns the difference with the two rows exchanged."""
        return Difference(-self.mean, -self.high, -self.low)


def difference_of(recorded, text):
    """Returns the `Difference` that a text names: `A minus B`, or `A minus B [5 seeds]`.

    Args:
        recorded: The `Recorded` study that has the rows.
        text: The names of two rows.
    """
    pair, seeds = re.fullmatch(r"(.*?)(?: \[(\d+) seeds\])?", " ".join(text.split())).groups()
    first, minus, second = pair.partition(" minus ")
    unknown = [name for name in (first, second) if name not in recorded.rows]
    if not minus or unknown:
        raise ValueError(f"Expected `A minus B` with rows that the records have. Received: {text!r}.")
    return Difference(*recorded.difference(second, first, tuple(range(int(seeds))) if seeds else ()))


def _better(found):
    return found.low > 0


def _worse(found):
    return found.high < 0


def _alike(found):
    return found.low <= 0 <= found.high and found.mean > -0.05


# What a sentence can claim about A minus B. If two rows are alike, the first one must be the better one, or equal.
CLAIMS = {"better": _better, "worse": _worse, "alike": _alike}
MEANINGS = {
    "better": "an interval above 0",
    "worse": "an interval below 0",
    "alike": "an interval that contains 0 and a mean of at least 0",
}


def claimed(claim, found):
    """Returns the number and the interval of a difference, for sentences such as `A is ... points (... to ...) better`.

    Args:
        claim: `better`, `worse` or `alike`.
        found: The `Difference`.
    """
    if not CLAIMS[claim](found):
        raise ValueError(f"Expected {MEANINGS[claim]}. The records have {text_of(found)}.")
    mean, low, high = found.turned() if claim == "worse" else found
    return f"{_number(mean)}", f"({_number(low)} to {_number(high)})"


def compared(found):
    """Returns a difference in words that suit its sign, for sentences such as `A is ... B`."""
    how, (mean, low, high) = ("worse", found.turned()) if found.mean < 0 else ("better", found)
    doubt = "" if found.is_significant else ", not significant"
    return f"{_number(mean)} points ({_number(low)} to {_number(high)}{doubt}) {how} than"


def judged(found):
    """Returns whether the records confirm a difference above 0, which a paper claims."""
    how = "confirmed" if found.is_seen else "contradicted" if found.is_significant else "inconclusive"
    mean = text_of(found).partition(" ")[0]
    return f"{how}: {mean} points (95% CI {_number(found.low)} to {_number(found.high)})"


def text_of(found):
    """Returns a difference with its sign and its confidence interval."""
    return f"{round(found.mean, 1) + 0.0:+.1f} ({_number(found.low)} to {_number(found.high)})"


def _number(value):
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(value, 1) + 0.0:.1f}"
