"""Losses that name their function, as they did before their arguments were fields."""

import inspect
import warnings
from typing import Annotated, Any

from tfdml.registry.fields import expected_of

QUERIES = "queries"


def take_function(cls):
    """Makes fields of the arguments of `cls.function`, and a `call` that calls it; warns that fields are meant.

    Args:
        cls: a loss whose body has `function = staticmethod(...)`, before its fields are read.
    """
    warnings.warn(
        f"{cls.__name__} names its function. State its arguments as fields, and compute the values in call(labels, "
        "embeddings): docs/extending.md.",
        DeprecationWarning,
        stacklevel=4,
    )
    function, expected = cls.function, expected_of(cls.function)
    parameters = inspect.signature(function).parameters.values()
    own = {each.name: each.default for each in parameters if each.default is not each.empty and each.name != QUERIES}
    for name, default in own.items():
        setattr(cls, name, default)
    kinds = {name: Annotated[Any, expected[name]] if name in expected else Any for name in own}
    kinds |= inspect.get_annotations(cls)
    first = [name for name in vars(cls).get("first_arguments", ()) if name in kinds]
    cls.__annotations__ = {name: kinds[name] for name in [*first, *kinds]}
    if "function_arguments" not in vars(cls):
        cls.function_arguments = lambda self: {name: getattr(self, name) for name in own}
    if "call" not in vars(cls):
        cls.call = _call_of(function, QUERIES in [each.name for each in parameters])


def _call_of(function, takes_queries):
    def call(self, labels, embeddings, queries=None):
        compared = () if queries is None else (queries,)
        return function(labels, embeddings, *compared, **self.function_arguments())

    def call_with_all(self, labels, embeddings):
        return call(self, labels, embeddings)

    return call if takes_queries else call_with_all
