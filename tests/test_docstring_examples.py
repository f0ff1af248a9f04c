"""The examples in docstrings run, and their results are as the comments state."""

import ast
import importlib
import inspect
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
import tfdml.layers
import tfdml.losses
from tfdml.registry import parts

# Modules with classes and functions whose examples run.
MODULES = """
tfdml tfdml.backbones tfdml.callbacks tfdml.evaluation tfdml.heads tfdml.layers tfdml.losses tfdml.losses.addons
tfdml.methods tfdml.methods.memories tfdml.optimizers tfdml.registry.parts tfdml.reporting tfdml.run.loading
tfdml.serving tfdml.serving.presets tfdml.data pipelines.datasets pipelines.sampling
""".split()
# Names that every example may use.
NAMES = {"np": np, "keras": keras, "tf": tf, "tfdml": tfdml, "ops": keras.ops}
# Digits that a stated number may leave out.
ROUNDING = 0.5
# Packages with examples that build networks, train or export, which needs seconds each.
NIGHTLY = ("tfdml.methods", "tfdml.serving", "tfdml.callbacks", "tfdml.reporting", "tfdml.backbones")


def examples():
    """Returns a parameter for each class or function with an example: its code."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None)
        own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__]
        for name in names or own:
            thing = getattr(module, name)
            home = getattr(thing, "__module__", None) or ""
            marks = [pytest.mark.nightly] if home.startswith(NIGHTLY) else []
            for code in re.findall(r"Example:\n\n```python\n(.*?)```", inspect.getdoc(thing) or "", re.DOTALL):
                found[home, name, code] = pytest.param(code, id=name, marks=marks)
    return list(found.values())


def test_most_public_names_have_an_example():
    assert len(examples()) > 150


def has_value(stated, found):
    """Whether a value equals the text that a comment states, up to the digits that the text leaves out."""
    if str(found) == stated:
        return True
    try:
        stated = ast.literal_eval(stated)
    except (SyntaxError, ValueError):
        return False
    if isinstance(found, dict | str):
        return stated == found
    if isinstance(found, tuple | list):
        return len(stated) == len(found) and all(map(lambda *pair: pair[0] == pair[1], stated, found))
    numbers = np.array(stated, "float64")
    digits = max(len(part.partition(".")[2]) for part in re.findall(r"\d+\.?\d*", str(numbers.tolist())))
    return np.shape(found) == numbers.shape and np.allclose(found, numbers, rtol=0, atol=ROUNDING * 10.0**-digits)


@pytest.fixture
def forgets_examples():
    """Other tests of the process do not find what an example has registered."""
    yield
    for things in parts._registered.values():
        for name in [name for name, thing in things.items() if thing.__module__ == "builtins"]:
            del things[name]


@pytest.mark.slow
@pytest.mark.usefixtures("forgets_examples")
@pytest.mark.parametrize("code", examples())
def test_the_example_of_a_docstring_runs_and_has_its_results(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    names, lines = dict(NAMES), code.split("\n")
    for statement in ast.parse(code).body:
        _, _, comment = lines[statement.end_lineno - 1].partition("  # ")
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "example", "exec"), names)
            continue
        found = eval(compile(ast.Expression(statement.value), "example", "eval"), names)
        if comment:
            found = tuple(found) if "shape" in ast.unparse(statement) else found
            found = np.asarray(found) if keras.ops.is_tensor(found) else found
            assert has_value(comment, found), (comment, found)
