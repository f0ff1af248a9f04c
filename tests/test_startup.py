"""Packages that a command hides while it imports TensorFlow and Keras."""

import importlib
import sys

import pytest

from tfdml import startup


def test_a_hidden_package_is_missing_only_meanwhile(monkeypatch):
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with startup._hidden(["wave"]), pytest.raises(ModuleNotFoundError):
        importlib.import_module("wave")
    assert importlib.import_module("wave")


def test_a_package_that_is_imported_stays():
    with startup._hidden(["sys"]):
        assert importlib.import_module("sys") is sys
    assert sys.modules["sys"] is sys


def test_modules_are_imported_without_what_they_hide(monkeypatch):
    for name in ("keras", "tensorflow", "wave"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ModuleNotFoundError):
        startup.import_keras_quietly({"wave": ("wave",)})
    startup.import_keras_quietly({"wave": ()})
    assert "wave" in sys.modules
