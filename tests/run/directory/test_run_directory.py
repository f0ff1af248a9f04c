"""The folder of a run: whose it is, what it gives back, its flags, and which runs are compared together."""

import dataclasses
import json
import os
import subprocess
import typing
import zipfile

import pytest
from absl import flags

from tests.run_helpers import parsed
from tfdml.console.flag_fields import AbsolutePath
from tfdml.console.flags import expand_homes, resolve
from tfdml.console.settings import Settings
from tfdml.reporting.reports import mean_curve, merged
from tfdml.run.directory import checksums, run_directory
from tfdml.run.directory.run_directory import RunDirectory, environment, groups_of
from tfdml.run.training import run_training as training


def test_a_new_or_empty_folder_is_claimed(run):
    _, serialized = parsed("--epochs=3")
    run.check_claim(serialized)
    assert not run.path.parent.exists()
    run.path.mkdir(parents=True)
    run.check_claim(serialized)
    run.claim(serialized)
    assert "--epochs=3" in (run.path / "flags.txt").read_text().splitlines()
    assert run.settings().length.epochs == 3


def test_the_same_flags_claim_it_again(run):
    run.claim(parsed("--epochs=3", "--loss=triplet(margin=0.2)")[1])
    before = (run.path / "flags.txt").read_bytes()
    again = parsed("--loss", "triplet(margin=0.2)", "--epochs=9", "--epochs=3", "--noprojector", "--projector")[1]
    run.check_claim(again)
    run.claim(again)
    assert (run.path / "flags.txt").read_bytes() == before


def test_other_flags_are_refused_and_named(run):
    run.claim(parsed("--epochs=3", "--seed=1", "--nodeterministic")[1])
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    with pytest.raises(ValueError) as caught:
        run.check_claim(parsed("--epochs=4", "--seed=1", "--loss=contrastive")[1])
    message = str(caught.value)
    assert str(run.path) in message and "another --run_dir" in message
    for words in (
        "--epochs=3 before, --epochs=4 now",
        "--nodeterministic before, --deterministic now",
        "--loss=contrastive now",
    ):
        assert words in message
    assert "--seed" not in message and "--dataset" not in message
    assert "--epochs=3" in (run.path / "flags.txt").read_text()


def test_a_run_without_a_step_makes_room_for_other_flags(run):
    """What it left, which is the untrained model, goes."""
    run.claim(parsed("--loss=arc_face(classes=3)")[1])
    run.tensorboard.mkdir()
    run.model.write_text("untrained")
    run.metrics.write_text('{"event": "evaluation", "step": 0}\n{"event": "tr')
    corrected = parsed("--loss=arc_face")[1]
    again = RunDirectory(run.path)
    # A process that has ended holds no lock.
    run._held.close()
    again.check_claim(corrected)
    assert run.model.exists()
    again.claim(corrected)
    assert sorted(path.name for path in run.path.iterdir()) == [".lock", "checksums.json", "flags.txt"]
    assert again.settings().batches.loss == "arc_face"


@pytest.mark.parametrize("left", ["result.json", "final.keras", "checkpoints/step-00000020", "metrics.jsonl"])
def test_a_run_that_took_a_step_makes_no_room(run, left):
    run.claim(parsed("--epochs=3")[1])
    (run.path / left).parent.mkdir(exist_ok=True)
    (run.path / left).write_text('{"event": "evaluation", "step": 0}\n{"event": "evaluation", "step": 5}\n')
    with pytest.raises(ValueError, match="--epochs=3 before, --epochs=4 now"):
        run.check_claim(parsed("--epochs=4")[1])


def test_a_folder_where_another_process_trains_is_told_before_any_work(run, monkeypatch):
    settings, serialized = parsed("--epochs=3")
    other = RunDirectory(run.path)
    other.check_free()
    run.claim(serialized)
    monkeypatch.setattr(training, "set_up", lambda *_: pytest.fail("went on"))
    with pytest.raises(ValueError, match=f"Another process is training in --run_dir={run.path}"):
        training.train(settings, other, serialized)


def test_a_process_that_is_about_to_end_is_waited_for(run, monkeypatch):
    run.claim(parsed()[1])
    monkeypatch.setattr(run_directory.time, "sleep", lambda seconds: run._held.close())
    RunDirectory(run.path).check_free(patience=1e6)


@pytest.mark.parametrize("name", ["", "thesis.tex"], ids=["a folder", "a file"])
def test_what_is_no_run_is_refused(tmp_path, name):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=f"--run_dir={tmp_path / name} exists but is not a tfdml run"):
        RunDirectory(tmp_path / name).check_claim(parsed()[1])
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("below", ["run", "a/b/run"])
def test_a_folder_below_a_file_is_refused_before_anything_is_done(tmp_path, below):
    (tmp_path / "file").write_text("mine")
    run = RunDirectory(tmp_path / "file" / below)
    with pytest.raises(OSError, match=f"Cannot write to --run_dir={run.path}: {tmp_path / 'file'} is not a folder"):
        run.check_claim(parsed()[1])
    with pytest.raises(OSError, match=f"Cannot write to --run_dir={run.path}"):
        run.claim(parsed()[1])


def test_a_read_only_folder_is_refused_also_where_root_could_not_see_it(run, monkeypatch):
    run.path.mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: path != run.path)
    with pytest.raises(PermissionError, match=f"Cannot write to --run_dir={run.path}: {run.path} is read-only"):
        run.check_claim(parsed()[1])


@pytest.mark.parametrize("killed_at", ["os.mkdir", "open", "os.rename"])
def test_killed_while_claiming_the_same_command_claims_it(run, monkeypatch, killed_at):
    """Whatever a kill left of a claim, the folder is no stranger's."""

    class Killed(BaseException):
        pass

    def killed(path, content):
        if killed_at != "os.mkdir":
            path.with_name(f".writing-{path.name}").write_bytes(content if killed_at == "os.rename" else b"")
        raise Killed

    monkeypatch.setattr(checksums, "write_atomically", killed)
    with pytest.raises(Killed):
        run.claim(parsed("--epochs=3")[1])
    monkeypatch.undo()
    run.check_claim(parsed("--epochs=3")[1])
    run.claim(parsed("--epochs=3")[1])
    assert run.settings().length.epochs == 3
    assert not (run.path / ".writing-flags.txt").exists()


def test_what_is_recorded_of_the_dataset_comes_back(run):
    run.claim(parsed()[1])
    run.record_dataset({})
    assert run.recorded_dataset() == {} and not (run.path / "dataset.json").exists()
    record = {"flags": {"dataset": "csv(path='/a.csv')"}, "classes": {"train": ["Käfer"], "test": ["b"]}}
    run.record_dataset(record)
    assert run.recorded_dataset() == record
    (run.path / "dataset.json").write_text('{"flags"')
    with pytest.raises(ValueError, match="dataset.json is damaged"):
        run.recorded_dataset()


def test_result(run):
    assert run.result() is None
    run.claim(parsed()[1])
    assert run.result() is None
    given = {"metrics": {"recall_at_1": 0.1}, "step": 3}
    run.write_result(given)
    assert run.result() == given
    assert json.loads((run.path / "result.json").read_text()) == given
    (run.path / "result.json").write_text('{"metrics"')
    with pytest.raises(ValueError, match=f"{run.path / 'result.json'} is damaged"):
        run.result()


def test_events(run):
    run.claim(parsed()[1])
    assert run.events() == []
    run.metrics.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert run.events() == [{"step": 1}, {"step": 2}]
    run.metrics.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(ValueError, match=f"{run.metrics}, line 2, is damaged: .* Remove the line"):
        run.events()


@pytest.mark.parametrize(
    "line",
    [{"step": 10**400}, {"step": 2**63}, {"step": -1}, {"step": 1, "loss": 10**400}, {"step": 1, "more": [-(10**400)]}],
)
def test_numbers_that_nothing_can_draw_are_damage(run, line):
    run.claim(parsed()[1])
    run.metrics.write_text(f'{{"step": {2**63 - 1}}}\n{json.dumps(line)}\n')
    with pytest.raises(ValueError, match=f"{run.metrics}, line 2, is damaged: .* Remove the line"):
        run.events()
    (run.path / "result.json").write_text(json.dumps({"best": line, "step": 1}))
    with pytest.raises(ValueError, match=f"^{run.path / 'result.json'} is damaged"):
        run.complete_result()


@pytest.mark.parametrize("which, name", [("best", "model.keras"), ("final", "final.keras")])
def test_model_file(run, which, name):
    path = run.path / name
    run.claim(parsed()[1])
    with pytest.raises(FileNotFoundError, match=f"{path} does not exist, because the run has no {which} model yet"):
        run.model_file(which)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", bytes(range(256)) * 8)
    assert run.model_file(which) == path
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[500] ^= 1
    for damaged in (whole[: len(whole) // 2], b"", bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{path} is damaged"):
            run.model_file(which)


def test_each_run_is_a_group_unless_groups_are_given():
    assert groups_of("a,b") == [["a"], ["b"]] and groups_of("a, b,c", 3) == [["a"], ["b"], ["c"]]
    assert groups_of("a0,a1:b") == [["a0", "a1"], ["b"]] and groups_of("a:b,c:d", 3)[1] == ["b", "c"]


@pytest.mark.parametrize("text", ["", "a", "a:", ":a", "a,:b", "a:b,,c", "a,b,c:d:e:f"])
def test_malformed_groups(text):
    with pytest.raises(ValueError, match="--run_dirs must be A,B, or several runs per group such as A0,A1:B0,B1, wi"):
        groups_of(text, 3)


def test_a_run_is_in_one_group_once():
    with pytest.raises(ValueError, match="--run_dirs must name different runs. Received: a more than once"):
        groups_of("a,b:c,a")


def test_curves_of_seeds_become_their_mean_where_all_have_been():
    assert mean_curve([([0, 5, 10], [0.0, 0.5, 1.0]), ([0, 5, 10, 15], [1.0, 0.7, 0.0, 9.0])]) == (
        [0, 5, 10],
        [0.5, pytest.approx(0.6), 0.5],
    )
    assert mean_curve([([0], [1.0]), ([5], [1.0])]) == ([], [])


def test_flags_of_seeds_stand_beside_each_other():
    several = [{"loss": "margin", "seed": 0}, {"loss": "margin", "seed": 1}, {"loss": "margin", "seed": 1}]
    assert merged(several) == {"loss": "margin", "seed": "0, 1"}


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


def test_a_home_folder_is_found_wherever_a_path_begins(tmp_path, monkeypatch):
    home = str(tmp_path)
    monkeypatch.setenv("HOME", home)
    assert resolve(["--initial_weights=~/a.weights.h5"])["initial_weights"] == f"--initial_weights={home}/a.weights.h5"
    values = flags.FlagValues()
    flags.DEFINE_string("run_dirs", "", "", flag_values=values)
    flags.DEFINE_list("delete", [], "", flag_values=values)
    values(["command", "--run_dirs=~/a,~/b:~,c~d", "--delete=~/x.jpg,y~.jpg"])
    expand_homes(values)
    assert values.run_dirs == f"{home}/a,{home}/b:{home},c~d"
    assert values.delete == [f"{home}/x.jpg", "y~.jpg"]


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
    with pytest.raises(ValueError, match=f"^{path} cannot be read: every line must be --name=value"):
        run.settings()


def test_the_environment_names_the_commit_of_a_checkout_and_whether_it_was_changed(tmp_path, monkeypatch):
    package = tmp_path / "checkout" / "tfdml" / "run" / "directory"
    package.mkdir(parents=True)
    monkeypatch.setattr(run_directory, "__file__", str(package / "run_directory.py"))
    # An installed package is not in a checkout.
    assert "commit" not in environment()
    git = ["git", "-C", str(tmp_path / "checkout"), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    (tmp_path / "checkout" / "file").write_text("one")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "One"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert environment()["commit"] == commit
    (tmp_path / "checkout" / "file").write_text("two")
    assert environment()["commit"] == f"{commit}-dirty"
