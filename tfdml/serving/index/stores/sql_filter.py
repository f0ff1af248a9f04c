"""Conditions in SQL: columns of a table, and attributes in a column of JSON."""

from tfdml.serving.index.attributes import OWN
from tfdml.serving.index.conditions import All, Among, AnyOf, Compared, ComparedColumns, Missing, Not

# What the texts of JSON are read as. Texts are compared by their code points, as everywhere in an index.
TYPES = {"text": '(attributes->>%s::text) COLLATE "C"', "number": "(attributes->>%s::text)::numeric"}
TYPES |= {"boolean": "(attributes->>%s::text)::boolean", "time": "(attributes->>%s::text)::timestamp"}
SIGNS = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "!=": "<>"}


def sql_of(condition):
    """Returns a condition in SQL, with %s for each value, and their list. Names of attributes are values, too."""
    match condition:
        case Compared(name, kind, sign, value):
            text, values = _column(name, kind)
            return f"{text} {SIGNS[sign]} %s", [*values, value]
        case ComparedColumns(name, kind, sign, other):
            (text, values), (right, more) = _column(name, kind), _column(other, kind)
            return f"{text} {SIGNS[sign]} {right}", [*values, *more]
        case Among(name, kind, several):
            text, values = _column(name, kind)
            return f"{text} IN ({', '.join(['%s'] * len(several))})", [*values, *several]
        case Missing(name):
            text, values = _column(name, "text")
            return f"{text} IS NULL", values
        case Not(inner):
            text, values = sql_of(inner)
            return f"NOT ({text})", values
        case All(several):
            return _joined(" AND ", several)
        case AnyOf(several):
            return _joined(" OR ", several)


def _joined(word, several):
    parts = list(map(sql_of, several))
    return f"({word.join(text for text, _ in parts)})", [value for _, values in parts for value in values]


def _column(name, kind):
    return (name, []) if name in OWN else (TYPES[kind], [name])
