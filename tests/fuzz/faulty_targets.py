"""Readers that do what must be noticed, one thing each."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.fuzz.hostile_texts import MODULE, SAVED_MODEL, SECRET
from tests.fuzz.target import Target


def _hang():
    while True:
        pass


def _run_saved_model():
    import tensorflow as tf

    tf.saved_model.load(SAVED_MODEL)


def _raise(error):
    raise error


FAULTS = {
    "hung": _hang,
    "MiB": lambda: np.ones(5 * 2**26),
    "died": lambda: sys.modules["os"].abort(),
    "opened": lambda: Path(SECRET).read_text(),
    MODULE: lambda: importlib.import_module(MODULE),
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "wrote": lambda: Path("../written.txt").write_text("x"),
    "saved_model": _run_saved_model,
    "KeyError": lambda: _raise(KeyError("x")),
    "codec": lambda: b"\xff".decode(),
    "two lines": lambda: _raise(ValueError("two\nlines")),
    "another result": lambda: 1,
}
TARGETS = {name: Target(None, lambda _, fault=fault: fault(), {}) for name, fault in FAULTS.items()}
