"""Checks the differences that sentences claim against their confidence intervals."""

import math
import re
from typing import NamedTuple

# Differences of at most this number of percentage points do not matter. A sentence may only call two rows equal if a
# test of equivalence (TOST) at 5% confirms that they differ by less.
EQUIVALENT = 2
POWER = 0.8


class Difference(NamedTuple):
    """Difference in Recall@1 between two rows, in percentage points, with its 95% confidence interval.

    `degrees` are the degrees of freedom of the t distribution that the interval has.
    """

    mean: float
    low: float
    high: float
    degrees: float = math.inf

    @property
    def is_seen(self):
        """Whether the interval is above 0."""
        return self.low > 0

    @property
    def is_significant(self):
        """Whether the interval is above or below 0."""
        return self.low > 0 or self.high < 0

    @property
    def error(self):
        """The standard error."""
        return (self.high - self.low) / 2 / self._quantile(0.025)

    @property
    def detectable(self):
        """The minimum detectable effect: a true difference of this size would be seen in 80% of such studies."""
        return (self._quantile(0.025) + self._quantile(1 - POWER)) * self.error

    @property
    def p_value(self):
        """The p-value of this difference alone, with two sides."""
        from scipy.stats import t

        if not self.error:
            return 0.0 if self.mean else 1.0
        return float(2 * t.sf(abs(self.mean) / self.error, self.degrees))

    def is_within(self, margin):
        """Returns whether the 90% confidence interval is within a margin around 0, which is TOST at 5%."""
        return self.p_value_within(margin) < 0.05

    def p_value_within(self, margin):
        """Returns the p-value of the test that the difference is within a margin around 0 (TOST)."""
        from scipy.stats import t

        if not self.error:
            return float(abs(self.mean) >= margin)
        return float(t.sf((margin - abs(self.mean)) / self.error, self.degrees))

    def _quantile(self, tail):
        from scipy.stats import t

        return float(t.isf(tail, self.degrees))

    def turned(self):
        """Returns the difference with the two rows exchanged."""
        return Difference(-self.mean, -self.high, -self.low, self.degrees)


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
    return found.is_seen


def _worse(found):
    return found.turned().is_seen


def _alike(found):
    return not found.is_significant and found.mean > -0.05


def _equal(found):
    return found.is_within(EQUIVALENT) and found.mean > -0.05


# What a sentence can claim about A minus B. If two rows are alike, their difference is not significant. If they are
# equal, it is shown to be small. In both cases, the first one must be the better one, or have the same mean.
CLAIMS = {"better": _better, "worse": _worse, "alike": _alike, "equal": _equal}


def expected(claim):
    """Returns what a claim expects of a `Difference`."""
    return {
        "better": "an interval above 0",
        "worse": "an interval below 0",
        "alike": "an interval that contains 0 and a mean of at least 0",
        "equal": f"a 90% interval within {EQUIVALENT} points of 0 and a mean of at least 0",
    }[claim]


def claimed(claim, found):
    """Returns the number and the interval of a difference, for sentences such as `A is ... points (... to ...) better`.

    Args:
        claim: One of `CLAIMS`.
        found: The `Difference`.
    """
    if not CLAIMS[claim](found):
        raise ValueError(f"Expected {expected(claim)}. The records have {text_of(found)}.")
    found = found.turned() if claim == "worse" else found
    return _number(found.mean), f"({_interval(found)})"


def compared(found):
    """Returns a difference in words that suit its sign, for sentences such as `A is ... B`."""
    how, found = ("worse", found.turned()) if found.mean < 0 else ("better", found)
    doubt = "" if found.is_significant else ", not significant"
    return f"{_number(found.mean)} points ({_interval(found)}{doubt}) {how} than"


def text_of(found):
    """Returns a difference with its sign and its confidence interval."""
    return f"{round(found.mean, 1) + 0.0:+.1f} ({_interval(found)})"


def _interval(found):
    return f"{_bound(found.low)} to {_bound(found.high)}"


def _bound(value):
    # With two decimals, a bound near 0 shows on which side of 0 it is.
    return f"{value:.2f}" if 0.005 <= abs(value) < 0.05 else _number(value)


def _number(value):
    # Adding 0.0 turns -0.0 into 0.0.
    return f"{round(value, 1) + 0.0:.1f}"
