"""Checks arguments of functions and classes against what is declared of them, each time they are called."""

import functools
import inspect
import numbers

from tfdml.arguments import REFUSED, boolean, integer, number, several, text

LONGEST_VALUE = 80


def expects(**declared):
    """Decorator that checks arguments of a class, function or method each time it is called.

    Functions and methods take tensors and variables as they are: their values are not known while a graph is made.
    """

    def decorate(thing):
        owner = thing.__qualname__.removesuffix(".__init__")
        if isinstance(thing, type):
            return guarded(thing, owner, declared)
        return _guarded(thing, owner, _known(declared, inspect.signature(thing), owner), tensors=True)

    return decorate


def guarded(thing, owner, declared):
    """The class or function with its arguments checked at each call, as declared, else by the type of the default.

    Arguments without a default, or whose default is None or an empty tuple, are checked only where declared. What was
    declared of the thing before stays, unless it is declared anew.

    Args:
        thing: a class, whose `__init__` is replaced, or a function.
        owner: what errors name, such as "The loss 'triplet'".
        declared: argument to `Expected`.
    """
    signature = inspect.signature(thing)
    inferred = {name: _like(parameter.default) for name, parameter in signature.parameters.items()}
    inferred = {name: each for name, each in inferred.items() if each}
    expected = {**inferred, **expected_of(thing), **_known(declared, signature, owner)}
    if not isinstance(thing, type):
        return _guarded(thing, owner, expected)
    thing.__init__ = _guarded(thing.__init__, owner, expected, of_class=signature)
    return thing


def expected_of(thing):
    """Argument to `Expected` of a class or function that is guarded."""
    return getattr(thing.__init__ if isinstance(thing, type) else thing, "expected", {})


def _guarded(function, owner, expected, *, tensors=False, of_class=None):
    """The function, or the `__init__` of a class with the signature given, with its arguments checked."""
    signature = of_class or inspect.signature(function)
    first = 0 if of_class is None else 1

    @functools.wraps(function)
    def checked(*args, **kwargs):
        try:
            bound = signature.bind(*args[first:], **kwargs)
        except TypeError:
            # Python's own error names what is missing or unknown.
            return function(*args, **kwargs)
        for name in [name for name in bound.arguments if name in expected]:
            if not (tensors and _is_tensor(bound.arguments[name])):
                bound.arguments[name] = _checked(owner, name, bound.arguments[name], expected[name])
        return function(*args[:first], *bound.args, **bound.kwargs)

    # Keras reads the arguments of a layer without following the wrapper.
    checked.__signature__ = inspect.signature(function)
    checked.expected = expected
    return checked


def _checked(owner, name, value, expected):
    try:
        return expected.read(value)
    except REFUSED:
        received = repr(value)
        if len(received) > LONGEST_VALUE:
            received = f"{received[: LONGEST_VALUE - 3]}..."
        raise ValueError(f"{owner} expects {name} to be {expected.words}; received {received}.") from None


def _known(declared, signature, owner):
    for name in declared:
        if name not in signature.parameters:
            raise ValueError(f"{owner} has no argument {name!r} to declare; it has {', '.join(signature.parameters)}.")
    return declared


def _like(default):
    """What a default says of its argument, or None."""
    if isinstance(default, bool):
        return boolean()
    for kind, expected in ((int, integer), (float, number), (str, text)):
        if isinstance(default, kind):
            return expected()
    if isinstance(default, tuple) and default and (element := _like(default[0])):
        return several(element)
    return None


def _is_tensor(value):
    return hasattr(value, "shape") and not isinstance(value, numbers.Number)
