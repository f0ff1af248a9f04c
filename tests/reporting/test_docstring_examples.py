"""The examples in docstrings of tfdml.evaluation and tfdml.reporting run, and print what their comments show."""

import ast
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import tfdml

ROOT = Path(tfdml.__file__).parent
DEFINITIONS = (ast.ClassDef, ast.FunctionDef)


def examples():
    for path in sorted([*ROOT.glob("evaluation/**/*.py"), *ROOT.glob("reporting/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, DEFINITIONS) else None
            for code in re.findall(r"```python\n(.*?)```", text or "", re.DOTALL):
                yield pytest.param(code, id=node.name)


def test_examples_are_found():
    assert len(list(examples())) > 30


@pytest.mark.parametrize("code", list(examples()))
def test_an_example_runs_and_has_the_result_that_it_shows(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, shown = {"keras": keras, "np": np, "tfdml": tfdml}, code.rstrip().partition("  # ")[2]
    *before, last = ast.parse(code).body
    exec(compile(ast.Module(before, []), "example", "exec"), names)
    if isinstance(last, ast.Expr):
        found = eval(compile(ast.Expression(last.value), "example", "eval"), names)
        # Drawing functions without a result write a file.
        assert str(found) == shown if shown else list(tmp_path.iterdir())
    else:
        exec(compile(ast.Module([last], []), "example", "exec"), names)
