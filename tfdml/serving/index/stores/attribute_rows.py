"""Attributes of rows as objects of JSON, which engines keep."""

import datetime
import decimal
import math

from tfdml.serving.index.attributes import OWN


def objects_of(table):
    """Returns for each row of a table a dictionary of its attributes, without those that are missing."""
    names = [name for name in table.column_names if name not in OWN]
    found = [{} for _ in range(len(table))]
    for name in names:
        for each, value in zip(found, table[name].to_pylist(), strict=True):
            if value is not None:
                each[name] = _in_json(name, value)
    return found


def _in_json(name, value):
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"The column {name} of the attributes has an infinite number; expected finite ones.")
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value
