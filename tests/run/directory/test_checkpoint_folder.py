"""Checkpoints are exact, the last few are kept, and damaged ones are refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.run.checkpoints import FILES, assert_is, content, never
from tfdml.run.directory.checkpoints import CheckpointError, CheckpointFolder, restore, snapshot


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
    with pytest.raises(CheckpointError, match=f"holds {len(arrays) - 1} variables, the model has {len(arrays)}"):
        restore(kept(model), arrays[1:], strategy)
    name, array = arrays[0]
    with pytest.raises(CheckpointError, match=r"shape \(3, 5\) does not fit .*kernel of shape \(3, 4\)"):
        restore(kept(model), [(name, np.zeros((3, 5), "float32")), *arrays[1:]], strategy)
    with pytest.raises(CheckpointError, match="other/kernel.* does not fit"):
        restore(kept(model), [("00000|other/kernel", array), *arrays[1:]], strategy)
