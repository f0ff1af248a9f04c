"""Commands that only read a run start no program that it names: modules are imported where the user names them."""

import json
import shutil
import sys

import pytest

import tfdml
from tests.commands import Forked, assert_one_error, run
from tests.run_helpers import METRICS, change_flags, result, straight_run
from tfdml.run.directory.model_archive import check_modules
from tfdml.run.experiment.experiment import trained_model

PROGRAM, OWN = "tests.programs.leaves_a_mark", "tests.programs.own_loss"
COMMANDS = {
    "evaluate": ["--run_dir={run}"],
    "evaluate a file": ["--model={run}/model.keras", "--dataset=toycars(classes=4, images_per_class=4)"],
    "report": ["--run_dir={run}"],
    "report several": ["--run_dirs={run},{other}"],
    "export": ["--run_dir={run}", "--out={run}/exported"],
    "compare": ["--run_dirs={other},{run}"],
    "threshold": ["--run_dir={run}", "--far=0.1", "--split=test"],
    "ensemble": ["--run_dirs={other},{run}", "--out={run}/joined"],
}


def naming(run_dir, folder, module):
    """A copy of a run that names a module."""
    copy = shutil.copytree(run_dir, folder)
    change_flags(copy, "--import_modules=\n", f"--import_modules={module}\n")
    return copy


@pytest.mark.parametrize("name", COMMANDS)
def test_a_sent_run_starts_no_program(name, finished, tmp_path):
    sent, mark = naming(finished, tmp_path / "sent", PROGRAM), tmp_path / "mark"
    flags = [flag.format(run=sent, other=finished) for flag in COMMANDS[name]]
    done = Forked(f"tfdml.{name.split()[0]}", *flags, environment={"MARK": str(mark)}).wait()
    assert_one_error(done, str(sent), f"pass --import_modules={PROGRAM} again")
    assert not mark.exists()


def test_a_record_of_the_dataset_names_no_program(finished, monkeypatch):
    monkeypatch.setenv("MARK", str(finished / "mark"))
    record = {"flags": {"import_modules": [PROGRAM], "cache": "bytes"}, "images": {}}
    (finished / "dataset.json").write_text(json.dumps(record))
    (finished / "checksums.json").unlink()
    trained_model(finished, "best", {"deterministic": False})
    assert PROGRAM not in sys.modules and not (finished / "mark").exists()


@pytest.mark.slow
def test_modules_that_the_user_names_are_imported(finished, tmp_path):
    own = naming(finished, tmp_path / "own", OWN)
    done = run("tfdml.evaluate", f"--run_dir={own}", f"--import_modules={OWN}")
    found = json.loads(done.stdout.splitlines()[-1])
    assert {key: found[key] for key in METRICS} == {key: result(straight_run())["best"][key] for key in METRICS}


def test_modules_that_are_imported_or_given_are_known():
    check_modules(["json", "a.b"], "runs/a", trusted=["a.b"])
    with pytest.raises(ValueError, match="runs/a was trained with --import_modules=a.b,c. A run from someone else"):
        check_modules(["json", "a.b", "c"], "runs/a")


@pytest.mark.parametrize("file", ["", "model.keras"])
def test_load_trusts_where_it_is_told(file, finished, tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    monkeypatch.setenv("MARK", str(mark))
    path = naming(finished, tmp_path / "sent", PROGRAM) / file
    with pytest.raises(ValueError, match=f"--import_modules={PROGRAM} again. In Python, import the module first or"):
        tfdml.load(path)
    assert not mark.exists()
    try:
        tfdml.load(path, trust=True)
        assert mark.exists()
        # It is imported now.
        tfdml.load(path)
    finally:
        sys.modules.pop(PROGRAM, None)
