"""Conditions as filters of Qdrant."""

from tfdml.serving.index.attributes import OWN
from tfdml.serving.index.conditions import All, Among, AnyOf, Compared, ComparedColumns, Missing, Not, pushed

RANGES = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


def filter_of(condition):
    """Returns the `Filter` of a condition; a ValueError if Qdrant has none such."""
    from qdrant_client import models

    found = _of(pushed(condition))
    return found if isinstance(found, models.Filter) else models.Filter(must=[found])


def key_of(name):
    """Returns the key of a column in the payload of a point."""
    return name if name in OWN else f'attributes."{name}"'


def _of(condition):
    from qdrant_client.models import Filter

    match condition:
        case All(several):
            return Filter(must=list(map(_of, several)))
        case AnyOf(several):
            return Filter(should=list(map(_of, several)))
        case Compared(name, kind, sign, value):
            return _compared(name, kind, sign, value)
        case ComparedColumns(name, _, _, other):
            raise ValueError(f"Qdrant compares a column with values alone, and not {name} with {other}.")
        case Among(name, kind, values):
            return _among(name, kind, values)
        case Not(Among(name, kind, values)):
            return Filter(must_not=[_among(name, kind, values), _missing(name)])
        case Missing(name):
            return _missing(name)
        case Not(Missing(name)):
            return Filter(must_not=[_missing(name)])


def _missing(name):
    from qdrant_client.models import IsEmptyCondition, PayloadField

    return IsEmptyCondition(is_empty=PayloadField(key=key_of(name)))


def _compared(name, kind, sign, value):
    from qdrant_client.models import Filter

    if sign == "=":
        return _among(name, kind, (value,))
    if sign == "!=":
        return Filter(must_not=[_among(name, kind, (value,)), _missing(name)])
    return _range(name, kind, **{RANGES[sign]: value}, sign=sign)


def _among(name, kind, values):
    from qdrant_client.models import FieldCondition, Filter, MatchAny, MatchValue

    key = key_of(name)
    if kind == "text" or name == "id" and all(isinstance(value, int) for value in values):
        return FieldCondition(key=key, match=MatchAny(any=list(values)))
    if kind == "boolean":
        return Filter(should=[FieldCondition(key=key, match=MatchValue(value=value)) for value in values])
    return Filter(should=[_range(name, kind, gte=value, lte=value) for value in values])


def _range(name, kind, sign="=", **limits):
    from qdrant_client.models import DatetimeRange, FieldCondition, Range

    if kind not in ("number", "time"):
        raise ValueError(f"Qdrant does not order a {kind}: {name} {sign} cannot be used; expected = or in.")
    return FieldCondition(key=key_of(name), range=(Range if kind == "number" else DatetimeRange)(**limits))
