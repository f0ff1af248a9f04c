"""Conditions as expressions of pyarrow."""

import datetime
import functools
import operator

from tfdml.serving.index.conditions import All, Among, AnyOf, Compared, ComparedColumns, Missing, Not

COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
COMPARISONS |= {"=": operator.eq, "!=": operator.ne}


def expression_of(condition):
    """Returns the `pyarrow.compute.Expression` of a condition."""
    match condition:
        case Compared(name, _, sign, value):
            return COMPARISONS[sign](_field(name), _scalar(value))
        case ComparedColumns(name, _, sign, other):
            return COMPARISONS[sign](_field(name), _field(other))
        case Among(name, kind, values):
            return _among(name, kind, values)
        case Missing(name):
            return _field(name).is_null()
        case Not(Missing(name)):
            return _field(name).is_valid()
        case Not(inner):
            return ~expression_of(inner)
        case All(several):
            return functools.reduce(operator.and_, map(expression_of, several))
        case AnyOf(several):
            return functools.reduce(operator.or_, map(expression_of, several))


def _among(name, kind, values):
    import pyarrow
    import pyarrow.compute

    field = _field(name)
    if kind == "number" and any(isinstance(value, float) for value in values):
        values, field = map(float, values), field.cast(pyarrow.float64())
    # Whether a missing value is among them is not known.
    unknown = pyarrow.scalar(None, pyarrow.bool_())
    return pyarrow.compute.if_else(field.is_null(), unknown, field.isin(list(values)))


def _field(name):
    import pyarrow.compute

    return pyarrow.compute.field(name)


def _scalar(value):
    import pyarrow

    return pyarrow.scalar(value, pyarrow.timestamp("us") if isinstance(value, datetime.datetime) else None)
