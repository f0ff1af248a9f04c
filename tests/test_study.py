"""The command of all studies: of modules, or of flagfiles."""

import json
import re

import pytest
from absl import flags
from absl.testing import flagsaver

from benchmarks.studies.rows import lifted
from tests.commands import ROOT, Command, assert_one_error, run
from tests.run_helpers import train_flags
from tfdml import study
from tfdml.console.flags import resolve
from tfdml.run.study import driver

LIFTED = "benchmarks.studies.rows.lifted"


def test_a_study_is_declared_by_a_module_unless_there_is_such_a_file(tmp_path, monkeypatch):
    assert study.study_of([LIFTED], [], ["recall_at_1"]) is lifted.STUDY
    monkeypatch.chdir(tmp_path)
    (tmp_path / LIFTED).touch()
    assert list(study.study_of([LIFTED], [], ["recall_at_1"]).rows) == ["benchmarks.studies.rows"]


@pytest.mark.parametrize("given", [["lifte"], ["a.flags"], ["no.such.module"], [LIFTED, "configs/study.flags"]])
def test_what_is_neither_a_flagfile_nor_a_module_is_told(given):
    message = rf"or a module that declares a study. Received: {re.escape(given[0])}, which does not exist\."
    with pytest.raises(ValueError, match=message):
        study.study_of(given, [], ["recall_at_1"])


@pytest.mark.parametrize("flag, instead", [("--seed=5", "--seeds"), ("--run_dir=elsewhere", "--runs")])
def test_flags_that_a_study_sets_for_each_run_are_refused(flag, instead):
    for given in ([flag], [f"--set={flag}"]):
        done = run("tfdml.study", "configs/study.flags", *given)
        assert_one_error(done, f"{flag} has no effect on a study. Use {instead} instead.")


def test_a_module_without_a_study_is_told():
    with pytest.raises(ValueError, match="The module json must declare STUDY, a tfdml.run.study.study.Study"):
        study.study_of(["json"], [], ["recall_at_1"])


def test_the_example_of_the_docs_is_a_study(tmp_path, monkeypatch):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/studies.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my_study_of_the_docs.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(ROOT)
    found = study.study_of(["my_study_of_the_docs"], [], ["recall_at_1"])
    assert found.settings.keys() == found.rows.keys() == {"triplet", "margin"}
    for name, settings in found.settings.items():
        for setting in settings:
            resolve([*found.flags(name), *setting, *found.searching, "--evaluate_on=validation"])


def test_flags_that_the_command_does_not_have_are_those_of_training(monkeypatch, tmp_path):
    asked = []

    def run_study(*given):
        asked.append(given)
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "run_study", run_study)
    with flagsaver.flagsaver(), pytest.raises(KeyboardInterrupt):
        given = [LIFTED, "--epochs=5", "--seeds=1,2", "--set=--steps=3", "--row=lifted", "--noprojector", "--pairwise"]
        _, *rest = flags.FLAGS(["study", *given], known_only=True)
        study.main(rest)
    (found, seeds, of_training, only, folder, records, measured) = asked[0]
    assert found is lifted.STUDY and seeds == ["1", "2"] and only == ["lifted"]
    assert of_training == ["--steps=3", "--epochs=5", "--noprojector"]
    assert (folder, records, measured) == ("runs/lifted", "", True)


@pytest.mark.parametrize("seeds", ["0,0", "1,x", "00,0", ""])
def test_seeds_that_are_none_or_come_twice_are_told(seeds):
    with flagsaver.flagsaver(), pytest.raises(ValueError, match=f"Received: --seeds={seeds}"):
        _, *rest = flags.FLAGS(["study", LIFTED, f"--seeds={seeds}"])
        study.main(rest)


def test_a_file_that_cannot_be_written_is_told_before_anything_is_trained(tmp_path):
    done = run("tfdml.study", LIFTED, f"--out={tmp_path}/none/table.csv")
    assert_one_error(done, f"--out={tmp_path}/none/table.csv: the folder {tmp_path}/none does not exist")


@pytest.mark.nightly
def test_intervals_are_measured_on_the_models_by_the_command(tmp_path):
    flagfiles = [tmp_path / "a.flags", tmp_path / "b.flags"]
    for flagfile, rate in zip(flagfiles, ("1e-3", "1e-2"), strict=True):
        lengths = ["--epochs=1", "--steps_per_epoch=2", "--eval_every=1"]
        flags = [each for each in train_flags("", *lengths) if not each.startswith("--run_dir")]
        flagfile.write_text("\n".join([*flags, f"--optimizer=sgd(learning_rate={rate})"]))
    given = [*map(str, flagfiles), "--seeds=0", f"--runs={tmp_path / 'runs'}", "--intervals"]
    # Not in a fork, which has imported all that a command postpones.
    done = Command("tfdml.study", *given).wait()
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"\| difference from a \|.*\n\| b \|.*\| [+-][\d.]+ \([+-][\d.]+ to [+-][\d.]+\) \|$", done.stdout, re.S
    )
    assert (tmp_path / "runs" / "curves.svg").stat().st_size > 1000
    # Again, without training.
    done = run("tfdml.study", *given, "--format=json", f"--out={tmp_path / 'tables.json'}")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    untrained, *rows = json.loads((tmp_path / "tables.json").read_text())["rows"]["rows"]
    results = [json.loads((tmp_path / "runs" / f"{name}-seed0" / "result.json").read_text()) for name in "ab"]
    assert untrained["best R@1"]["mean"] == results[0]["untrained"]["recall_at_1"]
    assert [row["final R@1"]["mean"] for row in rows] == [each["metrics"]["recall_at_1"] for each in results]
    assert rows[1]["difference from a"].keys() == {"difference", "low", "high"}
