"""Packages that a command hides while it imports TensorFlow and Keras."""

import gc
import importlib
import os
import subprocess
import sys

import pytest

from tfdml.console import startup


@pytest.mark.parametrize("module", ["pipelines.py", "pipelines/__init__.py"])
def test_a_package_that_hides_the_pipelines_is_named(tmp_path, monkeypatch, module):
    hiding = tmp_path / module
    hiding.parent.mkdir(exist_ok=True)
    hiding.touch()
    for name in [name for name in sys.modules if name.split(".")[0] == "pipelines"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=f"Python finds {tmp_path}/pipelines.*Rename the other package"):
        startup._check_pipelines()


def test_modules_are_imported_without_what_they_hide(monkeypatch):
    for name in ("keras", "tensorflow", "wave"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ModuleNotFoundError):
        startup.import_keras_quietly(["json", "wave"], ["wave"])
    # One that is imported stays, and the others may be imported afterwards.
    startup.import_keras_quietly(["sys", "wave"], ["sys"])
    assert "wave" in sys.modules and sys.modules["sys"] is sys


def test_garbage_is_collected_again_after_imports_and_only_where_it_was():
    with startup.without_collections():
        assert not gc.isenabled()
        with startup.without_collections():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.nightly
def test_a_command_imports_no_package_that_it_hides():
    code = (
        "import sys; sys.argv[0] = 'tfdml'; from tfdml.console import startup; startup.import_package(); "
        "import tfdml; tfdml.losses.Triplet; print(sorted(set(startup.HIDDEN) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("before, after", [(None, "1"), ("0", "0"), ("1", "1")])
def test_commands_use_onednn_unless_they_are_told_not_to(monkeypatch, before, after):
    # So that it is there as it was after the test, whatever the command sets.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", before or "")
    if before is None:
        monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    monkeypatch.setattr(startup, "_postponed", True)
    monkeypatch.setattr(startup, "import_keras_quietly", lambda *imports: None)
    monkeypatch.setattr(importlib, "reload", lambda module: module)
    startup.import_package()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == after
