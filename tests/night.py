"""Cases of a test that only run at night."""

import pytest


def others_at_night(cases, by_day):
    """Returns the cases of a test, with a mark on those that only run at night.

    Args:
        cases: Values, or tuples of values, of the parameters.
        by_day: Function that returns whether a case also runs by day, or the cases that do.
    """
    chosen = by_day if callable(by_day) else by_day.__contains__
    return [
        case
        if chosen(case)
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)
        for case in cases
    ]
