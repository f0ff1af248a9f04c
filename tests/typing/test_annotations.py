"""Public functions and classes are annotated, and their docstrings list their arguments."""

import ast
import importlib
import inspect
import pkgutil
import re
import types
import typing
from pathlib import Path

import keras
import pytest

import tfdml
from tests.typing.check import FACES
from tfdml import registry
from tfdml.methods import EmbeddingModel
from tfdml.registry.fields import Declared

OURS = ("tfdml", "pipelines")
# Of these packages the public functions and classes of each module are for users.
OPEN = ("tfdml.functional", "pipelines.images")


def is_ours(thing):
    return getattr(thing, "__module__", "").split(".")[0] in OURS


def public(module):
    """Functions and classes of a module that are for users: those in its `__all__`, or else those that it defines."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    things = [getattr(module, name) for name in names]
    handed = [thing for thing in things if isinstance(thing, type | types.FunctionType) and is_ours(thing)]
    return handed if hasattr(module, "__all__") else [each for each in handed if each.__module__ == module.__name__]


def modules(package):
    found = importlib.import_module(package)
    return [importlib.import_module(f"{package}.{each.name}") for each in pkgutil.iter_modules(found.__path__)]


def returned(thing):
    """Our own classes in the annotation of what a function returns."""
    pending, found = [typing.get_type_hints(inspect.unwrap(thing)).get("return")], []
    while pending:
        each = pending.pop()
        pending += typing.get_args(each)
        found += [each] if isinstance(each, type) and is_ours(each) else []
    return found


def methods_of(cls):
    """`{name: function}` of a class's public methods and properties; those that override others have their types."""
    inherited = {name for base in cls.__mro__[1:] for name in vars(base)}
    found = {}
    for name, value in vars(cls).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if inspect.isfunction(function) and not name.startswith("_") and name not in inherited:
            found[name] = function
    return found


def silent(cls):
    """Methods and properties that override ours, but do not say what they return, where those do."""
    found, pairs = [], [(name, base) for name in vars(cls) for base in cls.__mro__[1:] if name in vars(base)]
    for name, base in pairs:
        own, overridden = (getattr(vars(each)[name], "fget", None) or vars(each)[name] for each in (cls, base))
        if inspect.isfunction(own) and inspect.isfunction(overridden) and is_ours(base) and not name.startswith("_"):
            says = [
                inspect.signature(each).return_annotation is not inspect.Signature.empty for each in (own, overridden)
            ]
            found += [name] if says == [False, True] else []
    return sorted({*found})


def gaps_of_function(function, skipped=0, returns=True):
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[skipped:]
    gaps = [each.name for each in parameters if each.annotation is each.empty]
    return gaps + ["return"] * (returns and signature.return_annotation is signature.empty)


def gaps(thing):
    """Parameters of a function or class, and of its methods, without an annotation; `return` where that has none."""
    if not isinstance(thing, type):
        return gaps_of_function(thing)
    own = inspect.unwrap(vars(thing).get("__init__", object.__init__))
    # That of a class with fields has their annotations, and that of a protocol is Python's.
    has_own = inspect.isfunction(own) and own.__module__ != "typing"
    has_own = has_own and not (issubclass(thing, Declared) and thing.takes_fields)
    found = gaps_of_function(own, 1, returns=False) if has_own else []
    for name, function in methods_of(thing).items():
        static = isinstance(inspect.getattr_static(thing, name), staticmethod)
        found += [f"{name}: {gap}" for gap in gaps_of_function(function, 0 if static else 1)]
    return found


def described(cls):
    """Names of the arguments that the docstring of a class lists."""
    section = (inspect.getdoc(cls) or "").partition("Args:\n")[2]
    # An entry has an indent of four, and its text a deeper one; several names may share an entry.
    entries = re.findall(r"^ {4}([\w*][^:]*):", section, re.MULTILINE)
    return set(re.findall(r"\w+", " ".join(entries)))


@pytest.fixture(scope="module")
def things():
    """All that is public, its base classes, and the classes that it returns."""
    pending = [thing for name in FACES for thing in public(importlib.import_module(name))]
    pending += [thing for package in OPEN for module in modules(package) for thing in public(module)]
    pending += [thing for kind in registry.ROOMS for thing in registry.registered(kind).values()]
    found = {}
    while pending:
        thing = pending.pop()
        if f"{thing.__module__}.{thing.__qualname__}" not in found:
            found[f"{thing.__module__}.{thing.__qualname__}"] = thing
            functions = methods_of(thing).values() if isinstance(thing, type) else [thing]
            pending += filter(is_ours, thing.__mro__ if isinstance(thing, type) else ())
            pending += [cls for function in functions for cls in returned(function)]
    return dict(sorted(found.items()))


def test_all_that_is_public_is_annotated(things):
    assert len(things) > 150
    assert {name: found for name, thing in things.items() if (found := gaps(thing))} == {}


def test_methods_return_what_their_base_class_says(things):
    """A type checker would infer it from the body, of operations without types."""
    models = {
        name: thing for name, thing in things.items() if isinstance(thing, type) and issubclass(thing, EmbeddingModel)
    }
    assert len(models) > 7 and {name: found for name, thing in models.items() if (found := silent(thing))} == {}


def test_docstrings_of_classes_list_their_arguments(things):
    missing = {}
    for name, thing in things.items():
        if isinstance(thing, type):
            arguments = [each.name for each in inspect.signature(thing).parameters.values()]
            missing[name] = [each for each in arguments if each not in {*described(thing), "kwargs", "args"}]
    assert {name: arguments for name, arguments in missing.items() if arguments} == {}


def test_a_class_without_a_described_argument_is_found():
    class Part:
        """A part.

        Args:
            first, second: two of size:
                third, and so on.
            **kwargs: others.
        """

    assert described(Part) == {"first", "second", "kwargs"}


def test_a_parameter_without_an_annotation_is_found():
    class Part:
        def __init__(self, size, name: str):
            pass

        def grow(self, by: int):
            pass

        def _hidden(self, by):
            pass

    Part.__module__ = Part.__init__.__module__ = "tfdml.part"

    def function(first: int, second) -> int:
        return first

    assert gaps(Part) == ["size", "grow: return"] and gaps(function) == ["second"]


def test_a_method_that_does_not_say_what_it_returns_is_found():
    class Small(EmbeddingModel):
        def pictures(self):
            return []

        def backbones(self) -> list[keras.layers.Layer]:
            return []

    assert silent(Small) == ["pictures"]


def test_the_stub_has_the_public_names():
    """Of a name that it lacks an editor would know nothing."""
    stub = ast.parse((Path(tfdml.__file__).parent / "__init__.pyi").read_text())
    found = [(node.module, each) for node in stub.body if isinstance(node, ast.ImportFrom) for each in node.names]
    assert sorted(each.asname for _, each in found) == dir(tfdml)
    assert all(hasattr(importlib.import_module(module), each.name) for module, each in found)
