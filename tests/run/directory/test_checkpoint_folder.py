"""Checkpoints are exact, the last few are kept, and damaged ones are refused."""

import pytest

from tests.run.checkpoints import FILES, assert_is, content, never
from tfdml.run.directory.checkpoints import CheckpointError, CheckpointFolder


def test_comes_back_bit_for_bit(two_checkpoints):
    assert_is(two_checkpoints.read_newest(never), 2)


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


def one_byte_short(path):
    path.write_bytes(path.read_bytes()[:-1])


def longer(path):
    path.write_bytes(path.read_bytes() + b"\0")


def emptied(path):
    path.write_bytes(b"")


def zeroed(path):
    path.write_bytes(bytes(path.stat().st_size))


def removed(path):
    path.unlink()


def made_a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage", [truncated, one_byte_short, longer, emptied, zeroed, removed, made_a_folder], ids=lambda f: f.__name__
)
def test_damaged_file_the_one_before_is_used(two_checkpoints, name, damage):
    damage(two_checkpoints.folder / "step-00000002" / name)
    messages = []
    assert_is(two_checkpoints.read_newest(messages.append), 1)
    assert len(messages) == 1
    assert str(two_checkpoints.folder / "step-00000002") in messages[0]
    assert "damaged" in messages[0] and "Using the one before" in messages[0]


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
    with pytest.raises(CheckpointError, match="Every checkpoint in .* is damaged.*new --run_dir"):
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


def test_damaged_one_is_written_anew(two_checkpoints):
    truncated(two_checkpoints.folder / "step-00000002" / "arrays.npz")
    two_checkpoints.write(2, *content(2))
    assert_is(two_checkpoints.read_newest(never), 2)


def test_a_folder_that_was_renamed_is_not_taken_for_another_step(two_checkpoints):
    folder = two_checkpoints.folder
    (folder / "step-00000002").rename(folder / "step-00000060")
    messages = []
    assert_is(two_checkpoints.read_newest(messages.append), 1)
    assert len(messages) == 1 and f"{folder / 'step-00000060'} is damaged" in messages[0]
    assert "it was written as that of step 2" in messages[0]
