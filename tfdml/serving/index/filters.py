"""Filters such as `label in ('mug', 'cup') and price < 20`, parsed and translated for pyarrow."""

import dataclasses
import datetime
import functools
import operator
import re
from typing import Any, NamedTuple

import pyarrow
from pyarrow import types
from pyarrow.compute import field as field_of
from pyarrow.compute import if_else

# Characters of a filter.
MOST = 2000
# Characters of a filter that a message shows.
SHOWN = 30
WORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})
KINDS = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<name>[^\W\d]\w*)
    | (?P<sign><=|>=|==|!=|<>|[<>=(),])
    )""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A part of a filter: `word`, `name`, `number`, `text`, `sign` or `end`, its value, and its first character."""

    kind: str
    value: Any
    place: int


def tokens_of(text):
    """Returns the `Token`s of a filter, the last of the kind `end`; a ValueError if something is none."""
    if not isinstance(text, str):
        raise ValueError(f"Expected a filter as text, such as \"label == 'cup'\", received {type(text).__name__}.")
    if len(text) > MOST:
        raise ValueError(f"The filter has {len(text):,} characters, and may have {MOST:,}.")
    tokens, place = [], 0
    while text[place:].strip():
        match = KINDS.match(text, place)
        if not match:
            place += len(text[place:]) - len(text[place:].lstrip())
            open_quote = text[place] in "'\"`"
            raise filter_error("a quote that is not closed" if open_quote else "no such sign", text, place)
        kind = match.lastgroup
        tokens.append(_token(kind, match[kind], match.start(kind)))
        place = match.end()
    return [*tokens, Token("end", "the end", len(text))]


def filter_error(problem, text, place):
    """Returns the ValueError of a problem at a place of a filter, which it shows."""
    # A text of somebody else may have lines, and a message is one.
    shown = " ".join(text[place : place + SHOWN].split()) or "the end"
    # JSON may have half of a character, which no answer can.
    shown = shown.encode("utf-8", "backslashreplace").decode()
    return ValueError(f"The filter cannot be used: {problem}, at character {place + 1}: {shown}")


def _token(kind, text, place):
    if kind == "number":
        # What is larger than the integers of a table is compared as a float.
        is_integer = re.fullmatch(r"[+-]?\d{1,19}", text) and -(2**63) <= int(text) < 2**63
        return Token(kind, int(text) if is_integer else float(text), place)
    if kind == "text":
        return Token(kind, text[1:-1].replace(2 * text[0], text[0]), place)
    if kind == "quoted":
        return Token("name", text[1:-1].replace("``", "`"), place)
    if kind == "name" and text.lower() in WORDS:
        return Token("word", text.lower(), place)
    return Token(kind, text, place)


OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "!=", "!=": "="}


@dataclasses.dataclass(frozen=True)
class Compared:
    """A column next to a value: `price < 20`.

    The kind of the column is `text`, `number`, `boolean` or `time`; times are `datetime.datetime` in UTC.
    """

    name: str
    kind: str
    sign: str
    value: Any


@dataclasses.dataclass(frozen=True)
class ComparedColumns:
    """A column next to another one of its kind: `price < cost`."""

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


def pushed(condition, negate=False):
    """Returns a condition, or the one that is true where it is false, with `Not` at `Among` and `Missing` alone."""
    match condition:
        case Not(inner):
            return pushed(inner, not negate)
        case All(several) | AnyOf(several):
            opposite = AnyOf if isinstance(condition, All) else All
            return (opposite if negate else type(condition))(tuple(pushed(each, negate) for each in several))
        case Compared() | ComparedColumns() if negate:
            return dataclasses.replace(condition, sign=OPPOSITE[condition.sign])
    return Not(condition) if negate else condition


COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
COMPARISONS |= {"=": operator.eq, "!=": operator.ne}


def expression_of(condition, schema):
    """Returns the `pyarrow.compute.Expression` of a condition on a table with a `pyarrow.Schema`."""
    match condition:
        case Compared(name, kind, sign, value):
            field, (value,) = _alike(name, kind, [value], schema)
            type = pyarrow.timestamp("us") if isinstance(value, datetime.datetime) else None
            return COMPARISONS[sign](field, pyarrow.scalar(value, type))
        case ComparedColumns(name, kind, sign, other):
            differ = kind == "number" and schema.field(name).type != schema.field(other).type
            return COMPARISONS[sign](*map(_floats if differ else field_of, (name, other)))
        case Among(name, kind, values):
            field, values = _alike(name, kind, values, schema)
            # Whether a missing value is among them is not known.
            unknown = pyarrow.scalar(None, pyarrow.bool_())
            return if_else(field.is_null(), unknown, field.isin(values))
        case Missing(name):
            return field_of(name).is_null()
        case Not(Missing(name)):
            return field_of(name).is_valid()
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
    is_float = types.is_floating(schema.field(name).type) or any(isinstance(value, float) for value in values)
    if kind == "number" and is_float:
        return _floats(name), list(map(float, values))
    return field_of(name), list(values)


def _floats(name):
    # Whole numbers beyond 2^53 are rounded, as everywhere that they meet a float.
    return field_of(name).cast(pyarrow.float64(), safe=False)


# Brackets and `not`s in each other.
DEEPEST = 32
# As filters and conditions have them.
SIGNS = {sign: sign for sign in OPPOSITE} | {"==": "=", "<>": "!="}
SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
A_VALUE = "a number, a text in quotes, true or false"


def filter_of(text, kinds, schema):
    """Returns the `pyarrow.compute.Expression` of a filter of a table with a schema, see `condition_of`."""
    return expression_of(condition_of(text, kinds), schema)


def condition_of(text, kinds):
    """Returns the condition that a filter says; a ValueError in one line says what is wrong, and where.

    A comparison with a missing value is neither true nor false, as in SQL: `not price < 20` leaves it out, too.

    | | |
    |---|---|
    | `price < 20`, `20 > price`, `price != discount` | also `<=`, `>`, `>=`, `=` and `==` |
    | `label in ('mug', 'cup')`, `label not in ('mug')` | |
    | `price is null`, `price is not null` | whether a value is missing |
    | `sold`, `sold == true` | of a column of true and false |
    | `taken >= '2024-05-01'` | of a column of times |
    | `and`, `or`, `not`, brackets | |

    A column whose name is not a word is in backquotes; a quote in a text is doubled, and a backquote in a name. `kinds`
    maps the name of a column to `text`, `number`, `boolean` or `time`.
    """
    return _Parser(text, kinds).whole()


class _Parser:
    def __init__(self, text, kinds):
        self.text, self.kinds = text, kinds
        self.tokens, self.next, self.depth = tokens_of(text), 0, 0

    def whole(self):
        condition = self.any_of()
        if self.token.kind != "end":
            raise self.error(f"expected 'and', 'or' or the end, received {self.token.value!r}")
        return condition

    @property
    def token(self):
        return self.tokens[self.next]

    def error(self, problem, token=None):
        return filter_error(problem, self.text, (token or self.token).place)

    def take(self, *values):
        """Returns the next word or sign, and goes on behind it, if it is one of these; else None."""
        if self.token.kind in ("word", "sign") and self.token.value in values:
            self.next += 1
            return self.tokens[self.next - 1].value
        return None

    def expect(self, value):
        if not self.take(value):
            raise self.error(f"expected {value!r}, received {self.token.value!r}")

    def any_of(self):
        return self.joined("or", AnyOf, lambda: self.joined("and", All, self.one))

    def joined(self, word, join, parse):
        conditions = [parse()]
        while self.take(word):
            conditions.append(parse())
        return conditions[0] if len(conditions) == 1 else join(tuple(conditions))

    def one(self):
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"it is nested deeper than {DEEPEST} times")
        if self.take("not"):
            condition = Not(self.one())
        elif self.take("("):
            condition = self.any_of()
            self.expect(")")
        else:
            condition = self.comparison()
        self.depth -= 1
        return condition

    def comparison(self):
        first = self.token
        name, value = self.operand()
        sign = self.take(*SIGNS)
        if sign:
            return self.compared(first, (name, value), SIGNS[sign])
        if name is None:
            raise self.error(f"expected a comparison such as <, received {self.token.value!r}")
        if self.take("is"):
            wanted = not self.take("not")
            self.expect("null")
            return Missing(name) if wanted else Not(Missing(name))
        negated = self.take("not")
        if self.take("in"):
            return Not(self.among(name)) if negated else self.among(name)
        if negated:
            self.expect("in")
        if self.kinds[name] != "boolean":
            raise self.error(f"{name} is a {self.kinds[name]}, which is neither true nor false; compare it", first)
        return Compared(name, "boolean", "=", True)

    def compared(self, first, left, sign):
        second = self.token
        right = self.operand()
        if left[0] is None and right[0] is None:
            raise self.error("no column is compared", first)
        if left[0] is None:
            left, right, sign, second = right, left, SWAPPED.get(sign, sign), first
        name, (other, value) = left[0], right
        if other is None:
            return Compared(name, self.kinds[name], sign, self.value_for(name, value, second))
        if self.kinds[name] != self.kinds[other]:
            raise self.error(f"{name} is a {self.kinds[name]}, and {other} a {self.kinds[other]}", second)
        return ComparedColumns(name, self.kinds[name], sign, other)

    def among(self, name):
        self.expect("(")
        values = [self.listed(name)]
        while self.take(","):
            values.append(self.listed(name))
        self.expect(")")
        return Among(name, self.kinds[name], tuple(values))

    def listed(self, name):
        token = self.token
        column, value = self.operand()
        if column is not None:
            raise self.error(f"expected {A_VALUE}, received the column {column}", token)
        return self.value_for(name, value, token)

    def operand(self):
        """Returns the name of a column and None, or None and a value."""
        token = self.token
        if token.kind == "name":
            if token.value not in self.kinds:
                raise self.error(f"there is no column {token.value!r}; there are {', '.join(self.kinds)}")
            self.next += 1
            return token.value, None
        if token.kind in ("number", "text"):
            self.next += 1
            return None, token.value
        if self.take("true", "false"):
            return None, token.value == "true"
        raise self.error(f"expected a column, {A_VALUE}, received {token.value!r}")

    def value_for(self, name, value, token):
        """Returns a value as the column has it; an error if it is of another kind."""
        kind = self.kinds[name]
        if kind == "time" and isinstance(value, str):
            try:
                time = datetime.datetime.fromisoformat(value)
                return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time
            except (ValueError, OverflowError):
                raise self.error("expected a time such as '2024-05-01' or '2024-05-01 12:30'", token) from None
        received = {bool: "boolean", str: "text"}.get(type(value), "number")
        if received != kind:
            raise self.error(f"{name} is a {kind}, and not a {received}", token)
        return value
