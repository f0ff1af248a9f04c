"""A kill, or a full disk, while a checkpoint is written leaves the one before it whole."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.checkpoints import FILES, assert_is, content, never
from tfdml.files.checked import write_atomically
from tfdml.run.directory import checkpoints as checkpoint
from tfdml.run.directory.checkpoints import CheckpointError, CheckpointFolder


def test_what_a_kill_left_half_written_is_no_checkpoint_and_goes_away(two_checkpoints):
    """A folder under its temporary name; also one of a step that is never written again."""
    for step in (3, 7):
        leftover = two_checkpoints.folder / f".writing-{step:08d}"
        leftover.mkdir()
        (leftover / "arrays.npz").write_bytes(b"PK half")
    assert_is(two_checkpoints.read_newest(never), 2)
    two_checkpoints.write(3, *content(3))
    assert_is(two_checkpoints.read_newest(never), 3)
    assert sorted(entry.name for entry in two_checkpoints.folder.iterdir()) == [
        f"step-{step:08d}" for step in (1, 2, 3)
    ]


# A process that needs numpy only: a fork dies before each line that writes, and before each touch of the disk.
DIES_AT_EVERY_LINE = """
import importlib.util, json, os, sys, types
import numpy as np

path, folder, (keep, before, every) = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
# Its folder, without what the package imports.
sys.modules["tfdml"] = types.ModuleType("tfdml")
sys.modules["tfdml"].__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(path)))]
spec = importlib.util.spec_from_file_location("checkpoint", path)
checkpoint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checkpoint)
traced = {path, checkpoint.write_flushed.__code__.co_filename, np.lib.format.write_array.__code__.co_filename}
# A killed process loses nothing of what the system has taken; waiting for the disk would only cost time.
os.fsync = lambda descriptor: None
TOUCHES_THE_DISK = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}


def arrays(step):
    return [("00000|kernel", np.full((50, 50), step, "float32")), ("00001|count", np.int64(step))]


def die_at(number):
    counted = 0

    def count():
        nonlocal counted
        counted += 1
        if counted == number:
            os._exit(9)

    def line(frame, event, argument):
        if event == "line":
            count()
        return line

    sys.settrace(lambda frame, event, argument: line if frame.f_code.co_filename in traced else None)
    sys.addaudithook(lambda event, arguments: count() if event in TOUCHES_THE_DISK else None)


def in_a_fork(work):
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def found(messages):
    step, read, state = checkpoint.CheckpointFolder(where, keep).read_newest(messages.append)
    good = state == {"step": step} and all(
        np.array_equal(one, other) and name == wanted
        for (name, one), (wanted, other) in zip(read, arrays(step), strict=True)
    )
    return [step, good, len(messages)]


outcomes, number = [], 0
while True:
    number += every
    where = os.path.join(folder, str(number))
    there = checkpoint.CheckpointFolder(where, 99)
    for step in before:
        there.write(step, arrays(step), {"step": step})
    if before[-1] == 2:
        with open(os.path.join(where, "step-00000002", "state.json"), "w") as file:
            file.write("{")

    def write():
        die_at(number)
        checkpoint.CheckpointFolder(where, keep).write(2, arrays(2), {"step": 2})

    status = in_a_fork(write)
    outcomes.append([status, *found([])])
    # The next start writes the same step again, over what the dead one left.
    checkpoint.CheckpointFolder(where, keep).write(2, arrays(2), {"step": 2})
    messages = []
    outcomes[-1] += [*found(messages), sorted(os.listdir(where))]
    checkpoint.shutil.rmtree(where)
    if status != 9:
        break
print(json.dumps(outcomes))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "keep, before, kept, every",
    [
        pytest.param(3, [1], [1, 2], 1, marks=pytest.mark.nightly),
        pytest.param(1, [0, 1], [2], 1, marks=pytest.mark.nightly),
        pytest.param(3, [1, 2], [1, 2], 1, marks=pytest.mark.nightly),
        # By day at every tenth line.
        (3, [1, 2], [1, 2], 10),
    ],
    ids=["fresh", "removing_old_ones", "over_a_damaged_one", "every_tenth_line"],
)
def test_killed_at_any_line_of_writing_a_whole_checkpoint_is_the_newest(tmp_path, keep, before, kept, every):
    """The one before until the new one has its name, the new one from then on, and nothing half-written between."""
    given = json.dumps([keep, before, every])
    arguments = [sys.executable, "-c", DIES_AT_EVERY_LINE, checkpoint.__file__, tmp_path, given]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    statuses = [outcome[0] for outcome in outcomes]
    assert statuses == [9] * (len(outcomes) - 1) + [0], done.stderr
    assert len(outcomes) > 50 / every
    newest = [outcome[1] for outcome in outcomes]
    assert set(newest) == {1, 2} and newest == sorted(newest)
    assert all(good for _, _, good, *_ in outcomes)
    damaged_there = {0} if before[-1] == 1 else {0, 1}
    assert {outcome[3] for outcome in outcomes} <= damaged_there
    again = {json.dumps(outcome[4:]) for outcome in outcomes}
    assert again == {json.dumps([2, True, 0, [f"step-{step:08d}" for step in kept]])}


def test_everything_is_on_the_disk_before_it_gets_its_name(two_checkpoints, monkeypatch):
    """Each file and the folder of them are flushed before the rename, the folder that holds the name after it."""
    done, flush, rename = [], os.fsync, Path.rename

    def flushed(descriptor):
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        flush(descriptor)

    def renamed(path, target):
        done.append("renamed")
        return rename(path, target)

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    two_checkpoints.write(3, *content(3))
    place = done.index("renamed")
    assert set(done[:place]) == {*FILES, ".writing-00000003"}
    assert done[place + 1 :] == ["checkpoints"]


@pytest.mark.parametrize("at", range(1, 6))
def test_full_disk_leaves_the_earlier_one_whole(two_checkpoints, monkeypatch, at):
    """ENOSPC while any of the files, or a folder, is flushed."""
    calls, flush = [], os.fsync

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError) as caught:
        two_checkpoints.write(3, *content(3))
    message = str(caught.value)
    for words in ("checkpoint of step 3", str(two_checkpoints.folder), "No space left on device", "Make room"):
        assert words in message
    assert not list(two_checkpoints.folder.glob(".writing-*"))
    newest = two_checkpoints.read_newest(never)
    assert_is(newest, newest[0])
    # The last flush comes when the new one has its name.
    assert newest[0] == (2 if at < 5 else 3)
    assert f"the one of step {newest[0]} is whole" in message
    two_checkpoints.write(3, *content(3))
    assert_is(two_checkpoints.read_newest(never), 3)


def test_full_disk_at_the_first_checkpoint(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="no earlier one is whole"):
        CheckpointFolder(tmp_path).write(3, *content(3))
    assert CheckpointFolder(tmp_path).read_newest(never) is None


def test_write_atomically_holds_the_old_or_the_new(tmp_path, monkeypatch):
    path = tmp_path / "flags.txt"
    write_atomically(path, b"old")
    assert path.read_bytes() == b"old"

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    write_atomically(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["flags.txt"] and path.read_bytes() == b"new"
