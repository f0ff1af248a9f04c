"""The flags of a run come back from its folder as they were."""

import dataclasses
import typing

import pytest

from tests.run_helpers import parsed
from tfdml.console.settings import AbsolutePath, Settings

# Of flags that do not take every text; others have what a command line or a file might change.
OTHER_VALUES = {
    "image_size": "31x17",
    "baselines": "linear",
    "data_dir": "/my data/Bilder für alle #1",
    "validation_classes": "0.30000000000000004",
    "seed": "2147483647",
}


def other_value(field):
    """Text of another value than the default of a setting."""
    if field.name in OTHER_VALUES:
        return OTHER_VALUES[field.name]
    if typing.get_origin(field.type) is typing.Literal:
        return next(choice for choice in typing.get_args(field.type) if choice != field.default)
    if field.type is bool:
        return str(not field.default)
    if field.type in (int, float):
        bound = field.metadata["flag"].upper_bound
        return str(field.default + 3 if bound is None else field.type(bound / 4))
    return f"/{field.name}=1,b" if field.type == AbsolutePath else f'{field.name}(a=1e-3, name="x y")'


def other_values():
    parts = dataclasses.fields(Settings)
    return [f"--{each.name}={other_value(each)}" for part in parts for each in dataclasses.fields(part.type)]


def test_every_flag_comes_back(run):
    default, (settings, serialized) = parsed()[0].values(), parsed(*other_values())
    assert [name for name, value in settings.values().items() if value == default[name]] == []
    run.claim(serialized)
    assert run.settings() == settings
    run.check_claim(serialized)


def test_flags_txt_is_a_flagfile(run, tmp_path):
    """Given back, inside another flagfile, and with later flags that override it."""
    settings, serialized = parsed(*other_values())
    run.claim(serialized)
    assert parsed(f"--flagfile={run.path / 'flags.txt'}") == (settings, serialized)
    outer = tmp_path / "outer.flags"
    outer.write_text(f"# a comment\n--epochs=1\n--flagfile={run.path / 'flags.txt'}\n--embedding_size=64\n")
    found, _ = parsed("--epochs=2", f"--flagfile={outer}", "--seed=5")
    assert found == settings.replace(embedding_size=64, seed=5)
    found, _ = parsed(f"--flagfile={outer}", "--epochs=2")
    assert found.length.epochs == 2


def test_paths_mean_the_same_in_every_working_directory(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = ["--data_dir=photos", "--ignore_images=../bad.jsonl", "--cache_dir=cache"]
    run.claim(parsed(*relative)[1])
    run.check_claim(parsed(*relative)[1])
    monkeypatch.chdir("/")
    found = run.settings()
    assert (found.data.data_dir, found.images.cache_dir) == (str(tmp_path / "photos"), str(tmp_path / "cache"))
    assert found.data.ignore_images == str(tmp_path.parent / "bad.jsonl")


def test_a_run_goes_on_with_other_flags_that_change_no_result(run):
    run.claim(parsed("--data_dir=photos", "--ignore_images=photos/bad.jsonl", "--keep_checkpoints=2")[1])
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    given = parsed("--data_dir=moved", "--ignore_images=moved/bad.jsonl", "--cache=bytes", "--logger=wandb")[1]
    run.check_claim(given)
    run.claim(given)
    assert run.serialized() == given


@pytest.mark.parametrize("path", ["", "~/photos", "gs://bucket/photos", "/photos"])
def test_paths_that_stay_as_they_are(path):
    assert parsed(f"--data_dir={path}")[0].data.data_dir == path


@pytest.mark.parametrize("text", ["--epochs=many\n", "--flag_of_a_later_version=1\n", "--epochs\n", "half a l"])
def test_damaged_flags_are_an_error_that_names_the_file(run, text):
    run.claim(parsed()[1])
    (run.path / "flags.txt").write_text(text)
    for ask in (run.settings, lambda: run.check_claim(parsed()[1])):
        with pytest.raises(ValueError) as caught:
            ask()
        assert str(run.path / "flags.txt") in str(caught.value)


def without_checksum(run, *lines):
    run.claim(parsed()[1])
    (run.path / "checksums.json").unlink()
    (run.path / "flags.txt").write_text("".join(lines))
    return str(run.path / "flags.txt")


LINES = [f"{line}\n" for line in parsed("--protocol=query_gallery", "--warmup_epochs=1.5", "--noprojector")[1].values()]


@pytest.mark.parametrize(
    "lines", [[], LINES[:5], LINES[:-1], [*LINES[:-1], LINES[-1][:-1]], [*LINES[:-1], LINES[-1][:-3]]]
)
def test_flags_that_were_cut_are_refused_also_without_a_checksum(run, lines):
    """A run would be evaluated on another dataset, or by another protocol."""
    path = without_checksum(run, *lines)
    with pytest.raises(ValueError, match=f"^{path} cannot be read: it is cut off"):
        run.settings()


def test_flags_of_a_run_name_no_other_file(run, tmp_path):
    (tmp_path / "other.flags").write_text("--epochs=9\n")
    path = without_checksum(run, f"--flagfile={tmp_path}/other.flags\n", *LINES)
    with pytest.raises(ValueError, match=f"^{path} cannot be read: expected --name=value on every line"):
        run.settings()
