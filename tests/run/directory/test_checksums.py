"""Files of a run that are not what was written are refused by name."""

import json
from pathlib import Path

import pytest

from tests.run_helpers import parsed
from tfdml.run.directory.checksums import Checksums
from tfdml.run.directory.run_directory import RunDirectory
from tfdml.run.loggers import RunLog

EVENTS = [{"event": "evaluation", "step": step, "recall_at_1": step / 10} for step in range(4)]
READERS = {
    "flags.txt": lambda run: run.serialized(),
    "dataset.json": lambda run: run.recorded_dataset(),
    "metrics.jsonl": lambda run: run.events(),
    "result.json": lambda run: run.result(),
}


@pytest.fixture
def log(run):
    """The log of a run whose folder has all files that have checksums."""
    run.claim(parsed("--epochs=3", "--protocol=query_gallery")[1])
    run.record_dataset({"images": {"test": 7}, "classes": {"train": ["a"], "test": ["b"]}})
    log = RunLog(run.path)
    for event in EVENTS:
        log.write(event["event"], event["step"], {"recall_at_1": event["recall_at_1"]})
    run.write_result({"step": 3, "best": {"step": 3, "recall_at_1": 0.3}})
    return log


def cut(content, line=-1):
    """Without a line; without the last one as if the file had never been longer."""
    lines = content.splitlines(keepends=True)
    del lines[line]
    return b"".join(lines)


DAMAGE = {
    "emptied": lambda content: b"",
    "cut": cut,
    "without_a_line": lambda content: cut(content, 1),
    "another_number": lambda content: content.replace(b"3", b"4").replace(b"7", b"8"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_what_is_not_what_was_written_is_refused_by_name(run, log, name, damage):
    before = READERS[name](run)
    whole = (run.path / name).read_bytes()
    (run.path / name).write_bytes(damage(whole))
    with pytest.raises(ValueError, match=f"^{run.path / name} is damaged: its checksum differs ") as caught:
        READERS[name](RunDirectory(run.path))
    assert "\n" not in str(caught.value) and f"remove {run.path}/checksums.json" in str(caught.value)
    (run.path / name).write_bytes(whole)
    assert READERS[name](RunDirectory(run.path)) == before


@pytest.mark.parametrize("name", ["dataset.json", "metrics.jsonl"])
def test_a_file_that_is_gone_is_missed(run, log, name):
    (run.path / name).unlink()
    with pytest.raises(ValueError, match=f"^{run.path / name} is missing"):
        READERS[name](run)


def test_a_result_that_was_removed_is_made_anew(run, log):
    (run.path / "result.json").unlink()
    assert run.result() is None
    run.write_result({"step": 4})
    assert run.result() == {"step": 4}


def test_runs_without_checksums_are_read(run, log):
    found = {name: read(run) for name, read in READERS.items()}
    (run.path / "checksums.json").unlink()
    assert {name: read(RunDirectory(run.path)) for name, read in READERS.items()} == found


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", '{"format": "checksums of a tfdml run", "version": 1}'])
def test_damaged_checksums_are_told(run, log, text):
    (run.path / "checksums.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=f"^{run.path}/checksums.json is damaged: .* Remove it"):
        run.settings()


def test_any_flipped_bit_of_the_checksums_is_told_or_means_no_checksum(run, log):
    """Never is anything else read than what was written."""
    path = run.path / "checksums.json"
    whole, expected = path.read_bytes(), run.serialized()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 7]) + whole[place + 1 :])
        try:
            assert RunDirectory(run.path).serialized() == expected
        except ValueError as error:
            assert str(run.path) in str(error)


def test_a_kill_between_a_file_and_its_checksum_harms_nothing(run, log, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Checksums, "note", killed)
    with pytest.raises(KeyboardInterrupt):
        run.write_result({"step": 5})
    assert run.result() == {"step": 5}
    with pytest.raises(KeyboardInterrupt):
        log.write("evaluation", 4, {"recall_at_1": 0.4})
    assert len(run.events()) == len(EVENTS) + 1


def resumed(run, events):
    again = RunLog(run.path)
    again.set_state({"events": events})
    again.write("evaluation", 9, {"recall_at_1": 0.9})
    return [event["step"] for event in run.events()]


def test_what_came_after_the_checkpoint_goes_also_where_a_line_is_torn(run, log):
    with open(run.metrics, "ab") as file:
        file.write(b'{"event": "evalu')
    assert len(run.events()) == len(EVENTS)
    assert resumed(run, 2) == [0, 1, 9]


def test_a_run_does_not_go_on_with_a_log_that_lost_lines(run, log, caplog):
    run.metrics.write_bytes(cut(cut(run.metrics.read_bytes())))
    with pytest.raises(ValueError, match=f"^{run.metrics} is damaged: its checksum"):
        resumed(run, 3)
    (run.path / "checksums.json").unlink()
    with caplog.at_level("WARNING"):
        assert resumed(run, 3) == [0, 1, 9]
    assert f"{run.metrics} lacks 1 events" in caplog.text
    run.metrics.unlink()
    (run.path / "checksums.json").unlink()
    assert resumed(run, 3) == [9]


def killed_at(count, unlink):
    """`Path.unlink` of a process that is killed before it has removed so many files."""
    left = iter(range(count))

    def one(path, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        unlink(path, **options)

    return one


@pytest.mark.parametrize("count", range(4))
def test_a_kill_while_a_run_without_a_step_is_cleared_leaves_one_that_starts(run, count, monkeypatch):
    run.claim(parsed("--epochs=3")[1])
    run.record_dataset({"images": {"test": 7}})
    RunLog(run.path).write("evaluation", 0, {"recall_at_1": 0.1})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed_at(count, Path.unlink))
        with pytest.raises(KeyboardInterrupt):
            run._clear()
    assert not run.has_begun()


def test_a_file_that_another_process_writes_meanwhile_is_read_again(run, log, monkeypatch):
    other, real, times = Checksums(run.path), Checksums._entries, []

    def overtaken(self):
        found = real(self)
        times.append(1)
        if len(times) == 1:
            other.write("result.json", b"{}")
        return found

    monkeypatch.setattr(Checksums, "_entries", overtaken)
    assert Checksums(run.path).read("result.json") == b"{}"


def test_a_log_that_is_damaged_in_a_line_is_told_without_a_checksum(run, log):
    (run.path / "checksums.json").unlink()
    for line in (b'{"st', b"[]", b'{"event": "train"}', b"[" * 100_000, b"\xff"):
        run.metrics.write_bytes(b'{"step": 1}\n' + line + b"\n")
        with pytest.raises(ValueError, match=f"^{run.metrics}, line 2, is damaged"):
            run.events()


def test_the_checksums_are_of_plain_json(run, log):
    found = json.loads((run.path / "checksums.json").read_text())
    assert sorted(found["files"]) == sorted(READERS)
    assert found["files"]["flags.txt"]["bytes"] == (run.path / "flags.txt").stat().st_size
