"""Disks that are full or read-only are told in one sentence that names the file and what to do."""

import errno
import os
import shutil

import numpy as np
import pytest

from tests.serving_fixtures import exported, models_load_once, picture  # noqa: F401
from tfdml.console import command
from tfdml.console.startup import ADVICE, disk_sentence, error_sentence
from tfdml.evaluation.scores import Scores
from tfdml.files.checked import naming
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images
from tfdml.serving.index.contact_sheet import draw

MAKE_ROOM = "no space is left on the disk. Make room, then repeat the command."


def system_error(number, *files):
    return OSError(number, os.strerror(number), *files)


def full(*given, **options):
    """Stands for a function that writes, on a full disk."""
    raise system_error(errno.ENOSPC)


@pytest.mark.parametrize(
    "error, sentence",
    [
        (system_error(errno.ENOSPC), f"Cannot write a file: {MAKE_ROOM}"),
        (system_error(errno.ENOSPC, "from/a.pb", None, "to/a.pb"), f"Cannot write to/a.pb: {MAKE_ROOM}"),
        (
            system_error(errno.EROFS, "out/.writing-1"),
            "Cannot write out/1: the disk is read-only. Use another folder.",
        ),
        (system_error(errno.ENOENT, "a.jpg"), "Cannot use a.jpg: the file or folder does not exist."),
        # A port, such as 80, which is no file.
        (system_error(errno.EACCES), "Permission denied."),
        (system_error(errno.EMFILE, "a.jpg"), "Cannot use a.jpg: Too many open files."),
        (OSError("Cannot read a.jpg. Give another."), "Cannot read a.jpg. Give another."),
        (ValueError("Expected 1."), "Expected 1."),
    ],
)
def test_what_is_told(error, sentence):
    assert error_sentence(error) == sentence


@pytest.mark.parametrize(
    "reason, sentence",
    [
        (
            "out/.writing-1/saved_model.pb.tmpb32d8bd1b6234bf6; No space left on device",
            f"out/1/saved_model.pb: {MAKE_ROOM}",
        ),
        ("out/variables; Read-only file system", f"out/variables: {ADVICE[errno.EROFS]}"),
        ("Read-only file system", f"a file: {ADVICE[errno.EROFS]}"),
    ],
)
def test_what_is_told_of_tensorflows_words(reason, sentence):
    assert disk_sentence(reason) == f"Cannot write {sentence}"
    assert disk_sentence("Expected 3 values") is None


def write_values(path):
    Scores({}, np.arange(3), {"recall_at_1": np.ones(3)}, 3).write_per_query(path)


def write_sheet(path):
    draw(["none.png"], [[]], path)


@pytest.mark.parametrize("write", [write_values, write_sheet])
def test_a_full_disk_names_the_file_that_was_written(write, tmp_path):
    path = tmp_path / "found.png"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError) as caught:
        write(path)
    assert error_sentence(caught.value) == f"Cannot write {path}: {MAKE_ROOM}"


@pytest.mark.slow
def test_a_full_disk_while_an_index_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "copyfile", full)
    images = ImageList(["images/0.png"], [None], np.array([picture(0)], dtype=object))
    with pytest.raises(OSError) as caught:
        index_images(tmp_path / "index", images, model=exported())
    assert error_sentence(caught.value) == f"Cannot write {tmp_path}/index: {MAKE_ROOM}"


def test_an_error_that_names_its_file_keeps_it():
    with pytest.raises(OSError) as caught, naming("out"):
        open("/none/such")
    assert error_sentence(caught.value) == "Cannot use /none/such: the file or folder does not exist."


@pytest.mark.parametrize(
    "error, sentence",
    [
        (
            system_error(errno.EROFS, "out/1"),
            "Error: Cannot write out/1: the disk is read-only. Use another folder.\n",
        ),
        (
            MemoryError("112 GiB"),
            "Error: Not enough memory: 112 GiB. Use smaller images, smaller batches or fewer images.\n",
        ),
    ],
)
def test_a_command_ends_with_the_sentence(error, sentence, monkeypatch, capsys):
    # Those of this process are of whatever commands other tests have imported.
    monkeypatch.setattr(command.flags, "FLAGS", command.flags.FlagValues())
    monkeypatch.setattr(command.app, "run", lambda main, flags_parser: main(["command"]))
    for name in ("end_on_interrupt", "raise_on_interrupt"):
        monkeypatch.setattr(command.startup, name, lambda: None)

    def main(given):
        raise error

    with pytest.raises(SystemExit):
        command.run(main, arguments="NONE...")
    assert capsys.readouterr().err == sentence
