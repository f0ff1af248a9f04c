"""The examples in docstrings run, and their results are as the comments state."""

import ast
import importlib
import inspect
import re

import keras
import numpy as np
import pytest

import tfdml
import tfdml.layers
import tfdml.losses

# Modules with classes and functions whose examples run.
MODULES = ("tfdml.layers", "tfdml.losses", "tfdml.losses.addons", "tfdml.registry.parts", "tfdml.run.loading")
# Names that every example may use.
NAMES = {"np": np, "keras": keras, "tfdml": tfdml, "ops": keras.ops}
# Digits that a stated number may leave out.
ROUNDING = 0.5


def examples():
    """Yields the name of each class or function with an example, and its code."""
    for module in map(importlib.import_module, MODULES):
        names = getattr(module, "__all__", None)
        own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__]
        for name in names or own:
            text = inspect.getdoc(getattr(module, name)) or ""
            for code in re.findall(r"Example:\n\n```python\n(.*?)```", text, re.DOTALL):
                yield name, code


def has_value(stated, found):
    """Whether a value equals the text that a comment states, up to the digits that the text leaves out."""
    if isinstance(found, tuple | list):
        stated = ast.literal_eval(stated)
        return len(stated) == len(found) and all(map(lambda *pair: pair[0] == pair[1], stated, found))
    stated = np.array(ast.literal_eval(stated), "float64")
    digits = max(len(part.partition(".")[2]) for part in re.findall(r"\d+\.?\d*", str(stated.tolist())))
    return np.shape(found) == stated.shape and np.allclose(found, stated, rtol=0, atol=ROUNDING * 10.0**-digits)


@pytest.mark.parametrize("name, code", [pytest.param(*each, id=each[0]) for each in examples()])
def test_the_example_of_a_docstring_has_its_result(name, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    names, lines, results = dict(NAMES), code.split("\n"), 0
    for statement in ast.parse(code).body:
        _, _, comment = lines[statement.end_lineno - 1].partition("  # ")
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), name, "exec"), names)
            continue
        found = eval(compile(ast.Expression(statement.value), name, "eval"), names)
        if comment:
            found = tuple(found) if "shape" in ast.unparse(statement) else found
            found = np.asarray(found) if keras.ops.is_tensor(found) else found
            assert has_value(comment, found), (name, comment, found)
            results += 1
    assert results, f"The example of {name} states no result."
