"""The folder of an ensemble, and which runs are joined."""

import json
import logging
import shutil

import pytest

from tests.run_helpers import straight_run
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.directory.run_record import EnsembleDirectory, runs_of


def test_members_that_are_there_are_found_by_number(tmp_path):
    for name in ("member_010", "member_002", "member_x", "others"):
        (tmp_path / name).mkdir()
    folder = EnsembleDirectory(tmp_path)
    assert {number: run.path.name for number, run in folder.members().items()} == {2: "member_002", 10: "member_010"}
    (tmp_path / "result.json").write_text(json.dumps({"members": [1, 2]}))
    assert folder.joined(3) is None and folder.joined(2) == {"members": [1, 2]}


@pytest.fixture
def three(tmp_path):
    """The folder of an ensemble of three, of which one is complete and one has begun."""
    folder = tmp_path / "ensemble"
    shutil.copytree(straight_run(), folder / "member_001")
    (folder / "member_002").mkdir()
    flags = (straight_run() / "flags.txt").read_text()
    (folder / "flags.txt").write_text(flags.replace("--members=0", "--members=3"))
    return folder


def test_which_runs_are_joined(three, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    complete = [three / "member_001"]
    for pattern, asked in ((three, 3), (three / "member_001", 1), (three / "*1", 1), (tmp_path / "ens*", 3)):
        runs, found = runs_of([str(pattern)])
        assert ([each.path for each in runs], found) == (complete, asked)
    assert f"Left out {three}/member_002: it is not complete" in caplog.text
    assert [each.path for each in runs_of([str(three), str(straight_run())])[0]] == [*complete, straight_run()]
    assert runs_of([str(three), str(straight_run())])[1] == 4


@pytest.mark.parametrize(
    "names, words",
    [
        ([], "Expected complete runs in --run_dirs, each once; received none"),
        (["member_001", "."], "each once; received .*/member_001"),
        (["member_009"], "member_009 is no run directory of tfdml: it has no flags.txt"),
        (["member_002"], "member_002 is no run directory"),
        (["copy"], "The run in .*/copy is not complete; repeat its command"),
    ],
)
def test_what_cannot_be_joined(three, names, words):
    shutil.copytree(straight_run(), three / "copy")
    (three / "copy" / "result.json").unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        runs_of([str(three / name) for name in names])


def test_an_ensemble_of_other_folders_is_not_trained_again(three):
    shutil.rmtree(three / "member_001")
    shutil.rmtree(three / "member_002")
    with pytest.raises(ValueError, match="holds an ensemble of runs of other folders"):
        EnsembleDirectory(three).check_members({}, None)


def test_members_have_no_ordinary_run_beside_them(three):
    (three / "flags.txt").unlink()
    EnsembleDirectory(three).check_claim({})
    with pytest.raises(ValueError, match="exists and is no run of tfdml"):
        RunDirectory(three).check_claim({})
