"""Most cases of a test can be left to the nights."""

from types import SimpleNamespace

import pytest

from tests.night import mark_nights


def cases_of(name, count, marks):
    """Returns what pytest collects for the cases of a test."""

    def case():
        found = dict(marks)
        item = SimpleNamespace(parent="tests", originalname=name, get_closest_marker=found.get)
        item.add_marker = lambda mark: found.setdefault(mark, pytest.mark.nightly)
        return item

    return [case() for _ in range(count)]


def by_day(items):
    return [place for place, item in enumerate(items) if item.get_closest_marker("nightly") is None]


def test_cases_by_day_are_evenly_spread():
    marked = cases_of("marked", 10, {"few_by_day": pytest.mark.few_by_day(4)})
    others = cases_of("others", 3, {})
    mark_nights(marked + others)
    assert by_day(marked) == [0, 2, 5, 7] and by_day(others) == [0, 1, 2]
    assert all(item.get_closest_marker("slow") for item in marked if item.get_closest_marker("nightly"))


def test_more_cases_than_there_are_all_run_by_day():
    marked = cases_of("marked", 3, {"few_by_day": pytest.mark.few_by_day(8)})
    mark_nights(marked)
    assert by_day(marked) == [0, 1, 2]
