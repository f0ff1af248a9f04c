"""The command of all studies: by name, or of flagfiles."""

import re

import pytest
from absl import flags
from absl.testing import flagsaver

from benchmarks import study
from benchmarks.studies.rows import lifted
from tests.commands import Command
from tests.run_helpers import train_flags


def test_a_study_is_found_by_its_name(tmp_path):
    assert study.study_of(["lifted"], [], ["recall_at_1"]) is lifted.STUDY
    flagfile = tmp_path / "lifted.flags"
    flagfile.touch()
    assert list(study.study_of([str(flagfile)], [], ["recall_at_1"]).rows) == ["lifted"]


@pytest.mark.parametrize(
    "given, what",
    [([], "received none"), (["lifte"], "there is no lifte"), (["lifted", "ranked_list"], "there is no lifted")],
)
def test_what_is_no_study_is_told_with_those_there_are(given, what):
    with pytest.raises(ValueError, match=rf"Expected flagfiles, or one study of .*lifted, omniglot, .*; {what}\."):
        study.study_of(given, [], ["recall_at_1"])


def test_flags_that_the_command_does_not_have_are_those_of_training(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(study, "print_study", lambda *given, **options: asked.append((*given, options)))
    with flagsaver.flagsaver():
        given = ["lifted", "--epochs=5", "--seeds=1,2", "--set=--steps=3", "--row=lifted", "--noprojector"]
        _, *rest = flags.FLAGS(["study", *given], known_only=True)
        study.main(rest)
    (found, seeds, of_training, options) = asked[0]
    assert found is lifted.STUDY and seeds == ["1", "2"] and options["only"] == ["lifted"]
    assert of_training == ["--steps=3", "--epochs=5", "--noprojector"]


@pytest.mark.slow
def test_intervals_are_measured_on_the_models_by_the_command(tmp_path):
    flagfiles = [tmp_path / "a.flags", tmp_path / "b.flags"]
    for flagfile, rate in zip(flagfiles, ("1e-3", "1e-2"), strict=True):
        lengths = ["--epochs=1", "--steps_per_epoch=2", "--eval_every=1"]
        flags = [each for each in train_flags("", *lengths) if not each.startswith("--run_dir")]
        flagfile.write_text("\n".join([*flags, f"--optimizer=sgd(learning_rate={rate})"]))
    given = [*map(str, flagfiles), "--seeds=0", f"--runs={tmp_path / 'runs'}", "--intervals"]
    # Not in a fork, which has imported all that a command postpones.
    done = Command("benchmarks.study", *given).wait()
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"\| difference from a \|.*\n\| b \|.*\| [+-][\d.]+ \([+-][\d.]+ to [+-][\d.]+\) \|$", done.stdout, re.S
    )
