"""Conditions as expressions of pyarrow."""

import datetime
import functools
import operator

from tfdml.serving.index.conditions import All, Among, AnyOf, Compared, ComparedColumns, Missing, Not

COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
COMPARISONS |= {"=": operator.eq, "!=": operator.ne}


def expression_of(condition, schema):
    """Returns the `pyarrow.compute.Expression` of a condition.

    Args:
        condition: the condition.
        schema: `pyarrow.Schema` of the table, which says the types of its columns.
    """
    match condition:
        case Compared(name, kind, sign, value):
            field, (value,) = _alike(name, kind, [value], schema)
            return COMPARISONS[sign](field, _scalar(value))
        case ComparedColumns(name, kind, sign, other):
            differ = kind == "number" and schema.field(name).type != schema.field(other).type
            return COMPARISONS[sign](*map(_floats if differ else _field, (name, other)))
        case Among(name, kind, values):
            field, values = _alike(name, kind, values, schema)
            return _among(field, values)
        case Missing(name):
            return _field(name).is_null()
        case Not(Missing(name)):
            return _field(name).is_valid()
        case Not(inner):
            return ~expression_of(inner, schema)
        case All(several):
            return functools.reduce(operator.and_, (expression_of(each, schema) for each in several))
        case AnyOf(several):
            return functools.reduce(operator.or_, (expression_of(each, schema) for each in several))


def _alike(name, kind, values, schema):
    """Returns a column and the values that it is compared with: as float64 unless all of them are whole numbers.

    pyarrow converts a column to the smallest type that holds a value, and fails if a number of the column does not fit.
    """
    from pyarrow import types

    is_float = types.is_floating(schema.field(name).type) or any(isinstance(value, float) for value in values)
    if kind == "number" and is_float:
        return _floats(name), list(map(float, values))
    return _field(name), list(values)


def _among(field, values):
    import pyarrow
    import pyarrow.compute

    # Whether a missing value is among them is not known.
    unknown = pyarrow.scalar(None, pyarrow.bool_())
    return pyarrow.compute.if_else(field.is_null(), unknown, field.isin(values))


def _floats(name):
    import pyarrow

    # Whole numbers beyond 2^53 are rounded, as everywhere that they meet a float.
    return _field(name).cast(pyarrow.float64(), safe=False)


def _field(name):
    import pyarrow.compute

    return pyarrow.compute.field(name)


def _scalar(value):
    import pyarrow

    return pyarrow.scalar(value, pyarrow.timestamp("us") if isinstance(value, datetime.datetime) else None)
