"""Filters such as `label in ('mug', 'cup') and price < 20`, which are parsed and translated for pyarrow."""

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

# Maximum length of a filter, in characters.
MOST = 2000
# Number of characters of a filter that a message shows.
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
    """A token of a filter: `word`, `name`, `number`, `text`, `sign` or `end`, its value, and its position."""

    kind: str
    value: Any
    place: int


def tokens_of(text):
    """Returns the `Token`s of a filter, with `end` as the last one. Raises a ValueError for other text."""
    if not isinstance(text, str):
        raise ValueError(f"A filter must be a string, such as \"label == 'cup'\". Received: {type(text).__name__}.")
    if len(text) > MOST:
        raise ValueError(f"The filter has {len(text):,} characters. At most {MOST:,} are allowed.")
    tokens, place = [], 0
    while text[place:].strip():
        match = KINDS.match(text, place)
        if not match:
            place += len(text[place:]) - len(text[place:].lstrip())
            open_quote = text[place] in "'\"`"
            raise filter_error("a quote is not closed" if open_quote else "unknown sign", text, place)
        kind = match.lastgroup
        tokens.append(_token(kind, match[kind], match.start(kind)))
        place = match.end()
    return [*tokens, Token("end", "the end", len(text))]


def filter_error(problem, text, place):
    """Returns a ValueError that describes a problem and shows its position in the filter."""
    # Filters may come from other people and contain line breaks, but messages have one line.
    shown = " ".join(text[place : place + SHOWN].split()) or "the end"
    # JSON may contain half of a surrogate pair, which cannot be encoded in an answer.
    shown = shown.encode("utf-8", "backslashreplace").decode()
    return ValueError(f"The filter cannot be used: {problem}, at character {place + 1}: {shown}")


def _token(kind, text, place):
    if kind == "number":
        # Integers that are too large for a table's integers are compared as floats.
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
    """A comparison of a column with a value, such as `price < 20`.

    The kind of the column is `text`, `number`, `boolean` or `time`. Times are `datetime.datetime` objects in UTC.
    """

    name: str
    kind: str
    sign: str
    value: Any


@dataclasses.dataclass(frozen=True)
class ComparedColumns:
    """A comparison of two columns of the same kind, such as `price < cost`."""

    name: str
    kind: str
    sign: str
    other: str


@dataclasses.dataclass(frozen=True)
class Among:
    """A test of whether a column's value is in a list, such as `label in ('mug', 'cup')`."""

    name: str
    kind: str
    values: tuple


@dataclasses.dataclass(frozen=True)
class Missing:
    """A test of whether a column's value is missing."""

    name: str


@dataclasses.dataclass(frozen=True)
class Not:
    """The negation of a condition."""

    condition: Any


@dataclasses.dataclass(frozen=True)
class All:
    """A conjunction of conditions."""

    conditions: tuple


@dataclasses.dataclass(frozen=True)
class AnyOf:
    """A disjunction of conditions."""

    conditions: tuple


def pushed(condition, negate=False):
    """Returns a condition, or its negation, in a form that uses `Not` only around `Among` and `Missing`."""
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
            # For a missing value, the result is unknown, as in SQL.
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
    """Returns a column and its comparison values: both as float64, unless all numbers are integers.

    Otherwise, pyarrow converts the column to the smallest type that holds a value, and fails if a number in the column
    does not fit.
    """
    is_float = types.is_floating(schema.field(name).type) or any(isinstance(value, float) for value in values)
    if kind == "number" and is_float:
        return _floats(name), list(map(float, values))
    return field_of(name), list(values)


def _floats(name):
    # Integers beyond 2^53 are rounded, as in every comparison with a float.
    return field_of(name).cast(pyarrow.float64(), safe=False)


# Maximum nesting of parentheses and `not`.
DEEPEST = 32
# Signs in filters, and the signs that conditions use for them.
SIGNS = {sign: sign for sign in OPPOSITE} | {"==": "=", "<>": "!="}
SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
A_VALUE = "a number, text in quotes, true or false"


def filter_of(text, kinds, schema):
    """Returns the `pyarrow.compute.Expression` of a filter for a table with this schema; see `condition_of`."""
    return expression_of(condition_of(text, kinds), schema)


def condition_of(text, kinds):
    """Parses a filter and returns its condition. If it is not valid, a ValueError shows what is wrong, and where.

    As in SQL, a comparison with a missing value is neither true nor false, so `not price < 20` excludes such rows as
    well.

    | Filter | Meaning |
    |---|---|
    | `price < 20`, `20 > price`, `price != discount` | comparison; also `<=`, `>`, `>=`, `=` and `==` |
    | `label in ('mug', 'cup')`, `label not in ('mug')` | value in a list |
    | `price is null`, `price is not null` | missing value |
    | `sold`, `sold == true` | boolean column |
    | `taken >= '2024-05-01'` | time column |
    | `and`, `or`, `not`, parentheses | combinations |

    Put column names that are not plain identifiers in backticks. Double a quote inside a string, and a backtick inside
    a name. `kinds` maps column names to `text`, `number`, `boolean` or `time`.
    """
    return _Parser(text, kinds).whole()


class _Parser:
    def __init__(self, text, kinds):
        self.text, self.kinds = text, kinds
        self.tokens, self.next, self.depth = tokens_of(text), 0, 0

    def whole(self):
        condition = self.any_of()
        if self.token.kind != "end":
            raise self.error(f"expected 'and', 'or' or the end, but found {self.token.value!r}")
        return condition

    @property
    def token(self):
        return self.tokens[self.next]

    def error(self, problem, token=None):
        return filter_error(problem, self.text, (token or self.token).place)

    def take(self, *values):
        """Consumes and returns the next word or sign if it is one of these. Otherwise, it returns None."""
        if self.token.kind in ("word", "sign") and self.token.value in values:
            self.next += 1
            return self.tokens[self.next - 1].value
        return None

    def expect(self, value):
        if not self.take(value):
            raise self.error(f"expected {value!r}, but found {self.token.value!r}")

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
            raise self.error(f"parentheses and 'not' are nested more than {DEEPEST} times")
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
            raise self.error(f"expected a comparison such as <, but found {self.token.value!r}")
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
            raise self.error(
                f"{name} is a {self.kinds[name]} column, which is neither true nor false, so compare it with a value",
                first,
            )
        return Compared(name, "boolean", "=", True)

    def compared(self, first, left, sign):
        second = self.token
        right = self.operand()
        if left[0] is None and right[0] is None:
            raise self.error("neither side of the comparison is a column", first)
        if left[0] is None:
            left, right, sign, second = right, left, SWAPPED.get(sign, sign), first
        name, (other, value) = left[0], right
        if other is None:
            return Compared(name, self.kinds[name], sign, self.value_for(name, value, second))
        if self.kinds[name] != self.kinds[other]:
            raise self.error(
                f"{name} is a {self.kinds[name]} column, but {other} is a {self.kinds[other]} column", second
            )
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
            raise self.error(f"expected {A_VALUE}, but found the column {column}", token)
        return self.value_for(name, value, token)

    def operand(self):
        """Returns the name of a column and None, or None and a value."""
        token = self.token
        if token.kind == "name":
            if token.value not in self.kinds:
                raise self.error(f"there is no column {token.value!r}, only {', '.join(self.kinds)}")
            self.next += 1
            return token.value, None
        if token.kind in ("number", "text"):
            self.next += 1
            return None, token.value
        if self.take("true", "false"):
            return None, token.value == "true"
        raise self.error(f"expected a column, {A_VALUE}, but found {token.value!r}")

    def value_for(self, name, value, token):
        """Returns a value in the column's kind. Raises an error if it is of another kind."""
        kind = self.kinds[name]
        if kind == "time" and isinstance(value, str):
            try:
                time = datetime.datetime.fromisoformat(value)
                return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time
            except (ValueError, OverflowError):
                raise self.error("expected a time such as '2024-05-01' or '2024-05-01 12:30'", token) from None
        received = {bool: "boolean", str: "text"}.get(type(value), "number")
        if received != kind:
            raise self.error(f"{name} is a {kind} column, so it cannot be compared with a {received}", token)
        return value
