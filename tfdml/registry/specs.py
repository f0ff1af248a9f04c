"""Parses spec strings into names, arguments and weights.

A **spec** is a name with optional arguments: `triplet` or `triplet(margin=0.1, mining='hard')`. Arguments are Python
literals, which `ast.literal_eval` reads as data and never executes as code. A chain joins specs with `|`, a weighted
sum joins them with `+`, for example `triplet + 0.5*proxy_anchor`.
"""

import ast
import contextlib

# Key of the argument without a name in the result of `parse`.
FIRST = ""
LONGEST_SHOWN = 500


class SpecError(ValueError):
    """A spec is invalid, or its object cannot be created. Commands use `spec` to find the flag that it belongs to."""

    def __init__(self, message, spec=""):
        super().__init__(message)
        self.spec = spec


@contextlib.contextmanager
def of_spec(spec):
    """Returns a context that turns a ValueError into a `SpecError` of this spec. Other errors remain unchanged."""
    try:
        yield
    except ValueError as error:
        if type(error) not in (ValueError, SpecError):
            raise
        raise SpecError(str(error), spec).with_traceback(error.__traceback__) from error.__cause__


def parse(text):
    """Splits a spec or a chain into `[(name, {argument: value}), ...]` and evaluates only literals.

    A first argument without a name has the key `FIRST`.
    """
    with _told(text):
        return [_parse_step(node, text) for node in _operands(_tree(text), ast.BitOr)]


def written(name, arguments):
    """Returns the spec of a name with arguments, `{argument: value}`, as `parse` reads it."""
    texts = [repr(value) if name == FIRST else f"{name}={value!r}" for name, value in arguments.items()]
    return f"{name}({', '.join(texts)})" if texts else name


def parse_sum(text):
    """Splits a weighted sum into `[(weight, (name, {argument: value})), ...]`. Other specs return `[]`."""
    with _told(text):
        tree = _tree(text)
        if not (isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Mult)):
            return []
        return [_parse_term(node, text) for node in _operands(tree, ast.Add)]


@contextlib.contextmanager
def _told(text):
    """Returns a context that turns every error about a text into a `SpecError`, including Python's syntax errors."""
    try:
        with of_spec(text):
            yield
    except SyntaxError as error:
        reason = error.msg
    except UnicodeEncodeError as error:
        reason = error.reason
    except (RecursionError, MemoryError):
        reason = "it is nested too deeply, or too long"
    else:
        return
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
    raise SpecError(f"Cannot read the spec {shown!r}: {reason}. Expected name(argument=value, ...).", text)


def _tree(text):
    if not isinstance(text, str):
        raise ValueError(f"Expected a spec such as 'name(argument=value)'. Received: {text!r}.")
    return ast.parse(text.strip(), mode="eval").body


def _operands(tree, operator):
    """Returns the operands of a chain with one operator, from left to right."""
    operands = []
    while isinstance(tree, ast.BinOp) and isinstance(tree.op, operator):
        operands.append(tree.right)
        tree = tree.left
    return [tree, *operands[::-1]]


def _parse_term(node, text):
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return 1.0, _parse_step(node, text)
    if not (isinstance(node.left, ast.Constant) and type(node.left.value) in (int, float)):
        raise ValueError(
            f"Cannot read the weight {ast.unparse(node.left)} in {text!r}. Expected a number of 0 or more before the "
            "name: 0.5*name(argument=value, ...)."
        )
    return float(node.left.value), _parse_step(node.right, text)


def _parse_step(node, text):
    if isinstance(node, ast.Name):
        return node.id, {}
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        quoted = isinstance(node, ast.Constant) and isinstance(node.value, str)
        hint = " Remove the quotes around it, because no shell reads a flagfile." if quoted else ""
        raise ValueError(f"Cannot read the spec {text!r}. Expected name or name(argument=value, ...).{hint}")
    name = node.func.id
    if len(node.args) > 1 or any(keyword.arg is None for keyword in node.keywords):
        raise ValueError(f"Arguments need names. Write {name}(argument=value). Received: {text!r}.")
    arguments = {}
    for first in node.args:
        arguments[FIRST] = _literal(f"The first argument of {name}", "", first, text)
    for keyword in node.keywords:
        if keyword.arg in arguments:
            raise ValueError(f"The argument {keyword.arg} occurs twice in {text!r}.")
        arguments[keyword.arg] = _literal(f"The value of {keyword.arg}", keyword.arg, keyword.value, text)
    return name, arguments


def _literal(what, argument, node, text):
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        received = ast.unparse(node)
        meant = {"true": "True", "false": "False", "none": "None"}.get(received.lower(), repr(received))
        meant = f"{argument}={meant}" if argument else f"{meant}, or argument={meant}"
        raise ValueError(
            f"{what} in {text!r} is not a literal. Expected a number, quoted text, a tuple, True, False or None. "
            f"Received: {received}. Did you mean {meant}?"
        ) from None
