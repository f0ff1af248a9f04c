"""Filters of rows, such as `label in ('mug', 'cup') and price < 20`. They are parsed, and nothing is run as code."""

import datetime

from tfdml.serving.index.arrow_filter import expression_of
from tfdml.serving.index.conditions import All, Among, AnyOf, Compared, ComparedColumns, Missing, Not
from tfdml.serving.index.filter_tokens import filter_error, tokens_of

# Brackets and `not`s in each other.
DEEPEST = 32
# As filters and conditions have them.
SIGNS = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "==": "=", "!=": "!=", "<>": "!="}
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

    Args:
        text: the filter. A column whose name is no word stands in backquotes; a quote in a text is doubled, and a
            backquote in a name.
        kinds: name of a column to `text`, `number`, `boolean` or `time`.
    """
    return _Parser(text, kinds).whole()


class _Parser:
    def __init__(self, text, kinds):
        self.text, self.kinds = text, kinds
        self.tokens, self.next, self.depth = tokens_of(text), 0, 0

    def whole(self):
        found = self.any_of()
        if self.token.kind != "end":
            raise self.error(f"expected 'and', 'or' or the end, received {self.token.value!r}")
        return found

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
        found = [self.all_of()]
        while self.take("or"):
            found.append(self.all_of())
        return found[0] if len(found) == 1 else AnyOf(tuple(found))

    def all_of(self):
        found = [self.one()]
        while self.take("and"):
            found.append(self.one())
        return found[0] if len(found) == 1 else All(tuple(found))

    def one(self):
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"it is nested deeper than {DEEPEST} times")
        if self.take("not"):
            found = Not(self.one())
        elif self.take("("):
            found = self.any_of()
            self.expect(")")
        else:
            found = self.comparison()
        self.depth -= 1
        return found

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
            found = self.among(name)
            return Not(found) if negated else found
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
                return _time(value)
            except (ValueError, OverflowError):
                raise self.error("expected a time such as '2024-05-01' or '2024-05-01 12:30'", token) from None
        received = {bool: "boolean", str: "text"}.get(type(value), "number")
        if received != kind:
            raise self.error(f"{name} is a {kind}, and not a {received}", token)
        return value


def _time(text):
    found = datetime.datetime.fromisoformat(text)
    return found.astimezone(datetime.UTC).replace(tzinfo=None) if found.tzinfo else found
