"""Cases of a test that only run at night."""

from collections import defaultdict

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


def mark_nights(items):
    """Marks as nightly all cases of each test with the mark `few_by_day(count)` except `count` of them.

    A nightly test is also marked as slow.
    """
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("few_by_day") and not item.get_closest_marker("nightly"):
            cases[item.parent, item.originalname].append(item)
    for several in cases.values():
        (count,) = several[0].get_closest_marker("few_by_day").args
        by_day = {place * len(several) // count for place in range(count)}
        for place, item in enumerate(several):
            if place not in by_day:
                item.add_marker("nightly")
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker("slow")
