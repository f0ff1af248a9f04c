"""Checkpoints are exact, the last few are kept, damaged ones are refused, and a kill leaves the one before whole."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.files.checked import write_atomically
from tfdml.run.directory import checkpoints as checkpoint
from tfdml.run.directory.checkpoints import CheckpointError, CheckpointFolder, restore, snapshot

FILES = ("arrays.npz", "state.json", "manifest.json")


def content(step):
    """Arrays and state of a step: every kind that a run has, and floats that only equality of bits tells apart."""
    random = np.random.default_rng(step)
    odd = np.array([0x7FC00001, 0x80000000, 0x00000001, 0x7F800000], np.uint32).view(np.float32)
    arrays = [
        ("00000|head/kernel", random.normal(size=(4, 3)).astype("float32")),
        ("00001|iterations", np.int64(step)),
        ("00002|seed", np.array([step, 2**32 - 1], np.uint32)),
        ("00003|odd", odd),
        ("00004|empty", np.zeros((0, 3), "float32")),
    ]
    return arrays, {"log": {"events": step}, "best": None, "recall": 0.1 + step}


def assert_is(read, step):
    found_step, arrays, state = read
    expected, expected_state = content(step)
    assert (found_step, state) == (step, expected_state)
    assert [name for name, _ in arrays] == [name for name, _ in expected]
    for (name, found), (_, wanted) in zip(arrays, expected, strict=True):
        assert (found.shape, found.dtype, found.tobytes()) == (np.shape(wanted), wanted.dtype, wanted.tobytes()), name


def never(message):
    pytest.fail(f"warned: {message}")


@pytest.fixture
def two_checkpoints(tmp_path):
    """A folder with the checkpoints of steps 1 and 2."""
    folder = CheckpointFolder(tmp_path / "checkpoints")
    for step in (1, 2):
        folder.write(step, *content(step))
    return folder


def test_nothing_there(tmp_path):
    assert CheckpointFolder(tmp_path / "none").read_newest(never) is None
    assert CheckpointFolder(tmp_path).read_newest(never) is None


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_keeps_the_last_few(tmp_path, keep):
    folder = CheckpointFolder(tmp_path, keep=keep)
    for step in (5, 10, 9_999_999, 123_456_789):
        folder.write(step, *content(step))
    assert folder.steps() == [5, 10, 9_999_999, 123_456_789][-keep:]
    assert_is(folder.read_newest(never), 123_456_789)


def test_other_things_in_the_folder_are_left_alone(two_checkpoints):
    (two_checkpoints.folder / "step-last").mkdir()
    (two_checkpoints.folder / "step-00000009").write_text("a file")
    (two_checkpoints.folder / "notes.txt").write_text("mine")
    assert_is(two_checkpoints.read_newest(never), 2)
    two_checkpoints.write(3, *content(3))
    assert two_checkpoints.steps() == [1, 2, 3]
    assert (two_checkpoints.folder / "notes.txt").exists()


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


# What a file holds, or None for one that is gone, or a folder.
DAMAGE = {
    "truncated": lambda content: content[: len(content) // 2],
    "one_byte_short": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "emptied": lambda content: b"",
    "zeroed": lambda content: bytes(len(content)),
    "removed": lambda content: None,
    "made_a_folder": lambda content: None,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_the_one_before_is_used(two_checkpoints, name, damage):
    path = two_checkpoints.folder / "step-00000002" / name
    content = DAMAGE[damage](path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    elif damage == "made_a_folder":
        path.mkdir()
    messages = []
    assert_is(two_checkpoints.read_newest(messages.append), 1)
    assert len(messages) == 1
    assert str(two_checkpoints.folder / "step-00000002") in messages[0]
    assert "damaged" in messages[0] and "Using the previous checkpoint" in messages[0]


def test_any_flipped_bit_is_found(two_checkpoints):
    """In every byte of the small files and many of the arrays: never is anything else read than what was written."""
    folder = two_checkpoints.folder / "step-00000002"
    for name in FILES:
        whole = (folder / name).read_bytes()
        places = range(len(whole)) if name != "arrays.npz" else range(0, len(whole), 7)
        for place in places:
            changed = bytearray(whole)
            changed[place] ^= 1 << place % 8
            (folder / name).write_bytes(changed)
            messages = []
            assert_is(two_checkpoints.read_newest(messages.append), 1)
            assert len(messages) == 1, (name, place)
        (folder / name).write_bytes(whole)
    assert_is(two_checkpoints.read_newest(never), 2)


def test_files_of_two_checkpoints_do_not_mix(two_checkpoints):
    for name in FILES[:2]:
        other = (two_checkpoints.folder / "step-00000001" / name).read_bytes()
        (two_checkpoints.folder / "step-00000002" / name).write_bytes(other)
    assert_is(two_checkpoints.read_newest(lambda message: None), 1)


def test_all_damaged_is_an_error_that_says_what_to_do(two_checkpoints):
    for step in two_checkpoints.steps():
        truncated(two_checkpoints.folder / f"step-{step:08d}" / "arrays.npz")
    messages = []
    with pytest.raises(CheckpointError, match="All checkpoints in .* are damaged.*new --run_dir"):
        two_checkpoints.read_newest(messages.append)
    assert len(messages) == 2


@pytest.mark.parametrize("keep", [1, 2])
def test_a_later_damaged_one_does_not_crowd_out_good_ones(tmp_path, keep):
    """Training went on from step 2 as steps 8 and 9 were damaged: what it then writes is what the next start uses."""
    folder = CheckpointFolder(tmp_path, keep=9)
    for step in (1, 2, 8, 9):
        folder.write(step, *content(step))
    folder = CheckpointFolder(tmp_path, keep=keep)
    for step in (8, 9):
        truncated(tmp_path / f"step-{step:08d}" / "arrays.npz")
    assert_is(folder.read_newest(lambda message: None), 2)
    folder.write(3, *content(3))
    assert_is(folder.read_newest(never), 3)
    assert folder.steps() == [2, 3][-keep:]


def test_a_folder_that_was_renamed_is_not_taken_for_another_step(two_checkpoints):
    folder = two_checkpoints.folder
    (folder / "step-00000002").rename(folder / "step-00000060")
    messages = []
    assert_is(two_checkpoints.read_newest(messages.append), 1)
    assert len(messages) == 1 and f"{folder / 'step-00000060'} is damaged" in messages[0]
    assert "it was written as the checkpoint of step 2" in messages[0]


def model_of(units):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units), keras.layers.BatchNormalization()])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def kept(model):
    return model.variables + model.optimizer.variables


def test_snapshot_comes_back_into_another_model():
    strategy = tf.distribute.get_strategy()
    trained, fresh = model_of(4), model_of(4)
    trained.fit(np.eye(3, dtype="float32"), np.ones((3, 4), "float32"), verbose=0)
    arrays = snapshot(kept(trained), strategy)
    assert len({name for name, _ in arrays}) == len(arrays)
    names = [variable.path.partition("/")[2] or variable.path for variable in kept(trained)]
    renamed = [(f"{name.partition('|')[0]}|{variable.path}", array) for (name, array), variable in
               zip(arrays, kept(fresh), strict=True)]  # fmt: skip
    before = [variable.numpy() for variable in kept(fresh)]
    restore(kept(fresh), renamed, strategy)
    after = [variable.numpy() for variable in kept(fresh)]
    for name, found, wanted in zip(names, after, kept(trained), strict=True):
        assert found.tobytes() == wanted.numpy().tobytes(), name
    assert any(found.tobytes() != old.tobytes() for found, old in zip(after, before, strict=True))


def test_a_snapshot_of_another_model_is_refused():
    strategy = tf.distribute.get_strategy()
    model = model_of(4)
    arrays = snapshot(kept(model), strategy)
    with pytest.raises(CheckpointError, match=f"has {len(arrays) - 1} variables but the model has {len(arrays)}"):
        restore(kept(model), arrays[1:], strategy)
    name, array = arrays[0]
    with pytest.raises(CheckpointError, match=r"shape \(3, 5\) does not match .*kernel of shape \(3, 4\)"):
        restore(kept(model), [(name, np.zeros((3, 5), "float32")), *arrays[1:]], strategy)
    with pytest.raises(CheckpointError, match="other/kernel.* does not match"):
        restore(kept(model), [("00000|other/kernel", array), *arrays[1:]], strategy)


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
    calls, flush = [], os.fsync

    def full_at_last(descriptor):
        calls.append(descriptor)
        (full if len(calls) == at else flush)(descriptor)

    monkeypatch.setattr(os, "fsync", full_at_last)
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
    assert f"The checkpoint of step {newest[0]} still exists" in message
    two_checkpoints.write(3, *content(3))
    assert_is(two_checkpoints.read_newest(never), 3)


def full(descriptor):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_at_the_first_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="There is no earlier checkpoint"):
        CheckpointFolder(tmp_path).write(3, *content(3))
    assert CheckpointFolder(tmp_path).read_newest(never) is None


def test_write_atomically_holds_the_old_or_the_new(tmp_path, monkeypatch):
    path = tmp_path / "flags.txt"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    write_atomically(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["flags.txt"] and path.read_bytes() == b"new"
