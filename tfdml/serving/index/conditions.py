"""Conditions of rows, which a filter says and each store translates.

Of a missing value no comparison is true, and neither is its `Not`: a condition is true, false or unknown, as in SQL.
"""

import dataclasses
from typing import Any

OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "!=", "!=": "="}


@dataclasses.dataclass(frozen=True)
class Compared:
    """A column beside a value: `price < 20`.

    Args:
        name: the column.
        kind: `text`, `number`, `boolean` or `time`.
        sign: a key of `OPPOSITE`.
        value: text, int, float, bool or `datetime.datetime` in UTC.
    """

    name: str
    kind: str
    sign: str
    value: Any


@dataclasses.dataclass(frozen=True)
class ComparedColumns:
    """A column beside another one of its kind: `price < cost`."""

    name: str
    kind: str
    sign: str
    other: str


@dataclasses.dataclass(frozen=True)
class Among:
    """A column's value is one of several: `label in ('mug', 'cup')`."""

    name: str
    kind: str
    values: tuple


@dataclasses.dataclass(frozen=True)
class Missing:
    """A column's value is missing."""

    name: str


@dataclasses.dataclass(frozen=True)
class Not:
    """A condition is false."""

    condition: Any


@dataclasses.dataclass(frozen=True)
class All:
    """Several conditions are true."""

    conditions: tuple


@dataclasses.dataclass(frozen=True)
class AnyOf:
    """One of several conditions is true."""

    conditions: tuple


def negated(condition):
    """Returns the condition that is true where another one is false, with `Not` at single columns alone."""
    if isinstance(condition, Not):
        return pushed(condition.condition)
    if isinstance(condition, All):
        return AnyOf(tuple(map(negated, condition.conditions)))
    if isinstance(condition, AnyOf):
        return All(tuple(map(negated, condition.conditions)))
    if isinstance(condition, Compared | ComparedColumns):
        return dataclasses.replace(condition, sign=OPPOSITE[condition.sign])
    return Not(condition)


def pushed(condition):
    """Returns the same condition with `Not` at `Among` and `Missing` alone."""
    if isinstance(condition, Not):
        return negated(condition.condition)
    if isinstance(condition, All | AnyOf):
        return type(condition)(tuple(map(pushed, condition.conditions)))
    return condition
