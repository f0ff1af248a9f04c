"""Modules that have moved are importable under their old names, which warn."""

import importlib

import pytest

import tfdml


@pytest.mark.parametrize(
    "old, new, name",
    [("tfdml.arguments", "tfdml.registry", "number"), ("tfdml.memories", "tfdml.methods.memories", "XBM")],
)
def test_an_old_module_has_what_the_new_one_has(old, new, name):
    with pytest.warns(DeprecationWarning, match=f"^{old} has moved to {new}.$"):
        found = getattr(importlib.import_module(old), name)
    assert found is getattr(importlib.import_module(new), name)


def test_as_an_attribute_of_the_package_it_is_the_new_one_where_that_is_public():
    assert tfdml.memories is importlib.import_module("tfdml.methods.memories")


def test_a_name_that_is_nowhere_is_an_error():
    moved = importlib.import_module("tfdml.arguments")
    with pytest.warns(DeprecationWarning), pytest.raises(AttributeError, match="nonsense"):
        moved.nonsense  # noqa: B018
