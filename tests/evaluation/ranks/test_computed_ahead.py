import threading

import pytest

from tfdml.evaluation.ranks.ranks import one_ahead


def test_the_next_value_is_computed_while_one_is_used():
    begun = [threading.Event() for _ in range(3)]

    def values():
        for number, event in enumerate(begun):
            event.set()
            yield number

    found = []
    for number in one_ahead(values()):
        found.append(number)
        assert number == 2 or begun[number + 1].wait(60)
    assert found == [0, 1, 2]


def test_no_more_than_one_is_ahead():
    made = []
    values = one_ahead(made.append(number) or number for number in range(5))
    assert next(values) == 0
    values.close()
    assert made == [0, 1]


def test_errors_reach_the_user():
    def values():
        yield 1
        raise ValueError("broken")

    found = one_ahead(values())
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken"):
        next(found)
