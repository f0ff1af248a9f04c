"""Folders that are whole or not there, and that one process at a time writes."""

import os

import pytest

from tfdml.files.checked import whole_folder


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_folder_is_there_when_it_is_whole(tmp_path):
    with whole_folder(tmp_path / "new" / "out", "export") as folder:
        (folder / "a").write_text("1")
        assert not (tmp_path / "new" / "out").exists()
    assert names(tmp_path / "new") == ["out"] and names(tmp_path / "new" / "out") == ["a"]


def test_an_empty_folder_is_replaced_and_a_full_one_is_not(tmp_path):
    (tmp_path / "out").mkdir()
    with whole_folder(tmp_path / "out", "export") as folder:
        (folder / "a").write_text("1")
    with pytest.raises(ValueError, match="Another process has written the export .*/out meanwhile"):
        with whole_folder(tmp_path / "out", "export"):
            pytest.fail("It is written again.")
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == ["a"]


def test_of_two_at_once_the_first_is_whole(tmp_path):
    with whole_folder(tmp_path / "out", "export") as folder:
        (folder / "a").write_text("1")
        with pytest.raises(ValueError, match="Another process is writing the export .*/out. Wait for it"):
            with whole_folder(tmp_path / "out", "export"):
                pytest.fail("Two are written at once.")
        (folder / "b").write_text("2")
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == ["a", "b"]


def test_nothing_is_left_of_one_that_fails(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with whole_folder(tmp_path / "out", "export") as folder:
            (folder / "a").write_text(str(1 / 0))
    assert not names(tmp_path)


def test_what_a_kill_left_is_cleared(tmp_path):
    (tmp_path / ".writing-out").mkdir()
    (tmp_path / ".writing-out" / "half").touch()
    (tmp_path / ".writing-out.lock").touch()
    with whole_folder(tmp_path / "out", "export") as folder:
        (folder / "a").touch()
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == ["a"]


def test_a_lock_that_its_holder_has_removed_is_not_taken_for_one(tmp_path, monkeypatch):
    """Between the opening of the file and the look at it, another process ends, and a third one begins."""
    lock, before = tmp_path / ".writing-out.lock", os.fstat

    def then(descriptor):
        monkeypatch.setattr(os, "fstat", before)
        lock.unlink()
        lock.touch()
        return before(descriptor)

    monkeypatch.setattr(os, "fstat", then)
    with whole_folder(tmp_path / "out", "export"):
        with pytest.raises(ValueError, match="Another process is writing"):
            with whole_folder(tmp_path / "out", "export"):
                pytest.fail("Two are written at once.")


@pytest.mark.parametrize("parent", ["file", "file/sub"])
def test_an_error_names_the_folder_and_not_the_lock(parent, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as caught:
        with whole_folder(tmp_path / parent / "out", "export"):
            pytest.fail("There is no such folder.")
    assert caught.value.filename == str(tmp_path / parent / "out")
