"""Checks the arguments of functions and classes at each call."""

import functools
import inspect
import itertools
import numbers

from tfdml.registry.arguments import REFUSED, boolean, expected_by, integer, number, optional, several, text
from tfdml.registry.suggestions import nearest

LONGEST_VALUE = 80


def expects(**declared):
    """Decorator that checks the arguments of a class, function or method at each call, by annotations or as declared.

    Functions and methods accept any tensor or variable, because its value is unknown while a graph is traced.

    Args:
        **declared: argument to `Expected`, such as `margin=number(at_least=0)`.
    """

    def decorate(thing):
        owner = thing.__qualname__.removesuffix(".__init__")
        if isinstance(thing, type):
            return guarded(thing, owner, declared)
        signature = evaluated(inspect.signature, thing)
        expected = {**_annotated(signature), **_known(declared, signature, owner)}
        return _guarded(thing, owner, expected, tensors=True)

    return decorate


def guarded(thing, owner, declared):
    """Wraps a class or function so that each call checks its arguments.

    An argument that is not declared is checked by its annotation, or else by the type of its default, unless it has no
    default, or the default is None or an empty tuple. If guarded twice, the second declaration of an argument replaces
    the first. A class whose base classes would take any `**kwargs` without an error names those that they use in its
    attribute `passed_on`.

    Args:
        thing: a class, whose `__init__` is replaced, or a function.
        owner: the name in errors, such as "The loss 'triplet'".
        declared: argument to `Expected`.
    """
    signature = evaluated(inspect.signature, thing)
    inferred = {name: expected_like(parameter.default) for name, parameter in signature.parameters.items()}
    inferred = {name: each for name, each in inferred.items() if each} | _annotated(signature)
    expected = {**inferred, **expected_of(thing), **_known(declared, signature, owner)}
    if not isinstance(thing, type):
        return _guarded(thing, owner, expected)
    thing.__init__ = _guarded(thing.__init__, owner, expected, of_class=_closed(signature, thing))
    return thing


def refuse_unknown(owner, names, known):
    """Raises a TypeError that names the first argument that is not known.

    Args:
        owner: the name in the error.
        names: of the arguments that a caller passes.
        known: names that the owner accepts.
    """
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise TypeError(f"{owner} takes no argument {name!r}.{nearest(name, known)} Its arguments: {listed}.")


def expected_of(thing):
    """Returns `{argument: Expected}` of a guarded class or function, or of one with `tfdml.registry.fields`."""
    if takes_fields(thing):
        return {
            name: each.expected for name, each in thing.fields.items() if each.expected and name not in thing.of_keras
        }
    # Others have not been wrapped.
    return getattr(thing.__init__ if isinstance(thing, type) else thing, "expected", {})


def takes_fields(thing):
    """Whether fields are the arguments of a class, and no `__init__` of its own takes others."""
    # Only `Declared` has it, whose module imports this one.
    return hasattr(thing.__init__, "takes_fields")


def _guarded(function, owner, expected, *, tensors=False, of_class=None):
    """Wraps a function, or the `__init__` of a class with signature `of_class`."""
    signature = of_class or inspect.signature(function)
    first = 0 if of_class is None else 1

    @functools.wraps(function)
    def guarding(*args, **kwargs):
        try:
            bound = signature.bind(*args[first:], **kwargs)
        except TypeError:
            refuse_unknown(owner, kwargs, signature.parameters)
            # Python's own error names the missing argument.
            return function(*args, **kwargs)
        for name in [name for name in bound.arguments if name in expected]:
            if not (tensors and _is_tensor(bound.arguments[name])):
                bound.arguments[name] = checked(owner, name, bound.arguments[name], expected[name])
        return function(*args[:first], *bound.args, **bound.kwargs)

    # Keras reads the arguments of a layer without following the wrapper.
    guarding.__signature__ = inspect.signature(function)
    guarding.expected = expected
    return guarding


def _closed(signature, thing):
    """Returns the signature of a class with what its base classes take in place of `**kwargs`, see `passed_on`."""
    own = _without_kwargs(signature)
    between = list(itertools.takewhile(lambda each: "passed_on" not in vars(each), thing.__mro__))
    if len(between) == len(thing.__mro__) or len(own) == len(signature.parameters):
        return signature
    of_bases = [each.name for base in between for each in _without_kwargs(inspect.signature(base))]
    more = [name for name in dict.fromkeys((*of_bases, *thing.passed_on)) if name not in signature.parameters]
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in more]
    return signature.replace(parameters=[*own, *more])


def _without_kwargs(signature):
    return [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]


def checked(owner, name, value, expected):
    """The value as it is read, or a ValueError that tells what was expected; `expected` may be None.

    Args:
        owner: whose argument it is, in the error.
        name: of the argument.
    """
    try:
        return expected.read(value) if expected else value
    except REFUSED:
        received = repr(value)
        if len(received) > LONGEST_VALUE:
            received = f"{received[: LONGEST_VALUE - 3]}..."
        raise ValueError(f"{owner} expects {name} to be {expected.words}; received {received}.") from None


def evaluated(read, thing):
    """Returns what `read` finds, with annotations that are strings evaluated where all of them can be.

    Args:
        read: `inspect.signature` or `inspect.get_annotations`.
        thing: a class or function.
    """
    try:
        return read(thing, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError):
        # They have names that are imported for type checkers only, or are words for people.
        return read(thing)


def _annotated(signature):
    """Argument to what its annotation stands for."""
    several_values = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    found = {}
    for name, parameter in signature.parameters.items():
        kind, default = parameter.annotation, parameter.default
        # A text as the default says more than that it is one.
        expected = (kind is str and expected_like(default)) or expected_by(kind)
        if expected and parameter.kind not in several_values:
            takes_none = expected.words.startswith("None")
            found[name] = optional(expected) if default is None and not takes_none else expected
    return found


def _known(declared, signature, owner):
    for name in declared:
        if name not in signature.parameters:
            raise ValueError(f"{owner} has no argument {name!r} to declare; it has {', '.join(signature.parameters)}.")
    return declared


def expected_like(default):
    """The `Expected` that follows from a default, or None."""
    if isinstance(default, bool):
        return boolean()
    for kind, expected in ((int, integer), (float, number), (str, text)):
        if isinstance(default, kind):
            return expected()
    if isinstance(default, tuple) and default and (element := expected_like(default[0])):
        return several(element)
    return None


def _is_tensor(value):
    # Of any library.
    return hasattr(value, "shape") and not isinstance(value, numbers.Number)
