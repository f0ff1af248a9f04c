"""What all command lines do before they import TensorFlow: help, mistyped flags, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import flags as absl_flags

from tests.commands import PATIENCE, ROOT, Command
from tests.run_helpers import train_flags
from tfdml import registry
from tfdml.__main__ import COMMANDS
from tfdml.console import command, flags
from tfdml.console.command import WRITE, in_place_of
from tfdml.console.startup import tensorflow_reason

# Python then tells on standard error what it imports.
TELLING = {"PYTHONPROFILEIMPORTTIME": "1"}


def shown_flags(text):
    """`{flag: default}` in the order of the help."""
    lines = [line.removeprefix("  --").partition("=") for line in text.splitlines() if line.startswith("  --")]
    return {name: default for name, _, default in lines}


def test_help_of_training_shows_every_flag_by_topic_with_its_default():
    done = Command("tfdml.train", "--epochs=3", "--help", environment=TELLING).wait()
    assert done.returncode == 0
    assert "tfdml" in done.stderr and "tensorflow" not in done.stderr and "keras" not in done.stderr
    assert "numpy" not in done.stderr
    values = absl_flags.FlagValues()
    names = flags.define_training(values)
    shown = shown_flags(done.stdout)
    assert shown.keys() == {*names, "run_dir", "member", "scale_to_data", "list", "debug"}
    assert (shown["epochs"], shown["loss"], shown["projector"], shown["data_dir"]) == ("0", "triplet", "true", "")
    assert "Number of dimensions of the embedding. (a positive integer)" in done.stdout
    assert "(one of float32, mixed_bfloat16, mixed_float16)" in done.stdout.replace("\n      ", " ")
    found = [name for some in flags.topics().values() for name in some]
    assert [name for name in shown if name in found] == found and sorted(found) == names
    assert [topic for topic in flags.topics() if f"\n{topic}:\n" not in done.stdout] == []


@pytest.mark.slow
@pytest.mark.parametrize("module", [*(f"tfdml.{name}" for name in COMMANDS), "pipelines.check"])
def test_help_of_each_command_line(module):
    done = Command(module, "--helpshort", environment=TELLING).wait()
    assert done.returncode == 0
    assert "tfdml" in done.stderr and "tensorflow" not in done.stderr and "keras" not in done.stderr
    assert f"python -m {module}" in done.stdout.splitlines()[0] + done.stdout.splitlines()[2]
    assert "debug" in shown_flags(done.stdout) and "logtostderr" not in done.stdout
    assert f"Usage: python -m {module} " in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--help", "--list"])
def test_a_reader_who_has_seen_enough_gets_no_error(flag):
    """As in `... --help | head`."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "tfdml.train", flag], stdout=write, stderr=subprocess.PIPE, cwd=ROOT, timeout=PATIENCE
    )
    os.close(write)
    assert (done.returncode, done.stderr.decode()) == (-signal.SIGPIPE, "")


@pytest.fixture
def program(tmp_path):
    """The script that pip makes."""
    script = tmp_path / "tfdml"
    script.write_text("import sys\nfrom tfdml.__main__ import main\nsys.exit(main())\n")
    return script


def printed(*arguments):
    environment = os.environ | TELLING | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "tfdml" in done.stderr and "tensorflow" not in done.stderr and "keras" not in done.stderr
    return done


def test_the_package_and_the_program_list_the_commands(program):
    for way in (["-m", "tfdml"], ["-m", "tfdml", "--help"], [str(program)]):
        done = printed(*way)
        assert done.returncode == 0
        assert [line for line in done.stdout.splitlines() if line.startswith("  train ")] == [
            "  train            Trains an embedding model"
        ]
    with_main = {path.stem for path in (ROOT / "tfdml").glob("*.py") if '__name__ == "__main__"' in path.read_text()}
    assert with_main - {"__main__"} == set(COMMANDS)


def test_the_program_runs_a_command(program):
    done = printed(str(program), "train", "--help")
    assert done.returncode == 0 and "Usage: python -m tfdml.train " in done.stdout
    done = printed(str(program), "trian")
    assert done.returncode == 1 and "Error: Unknown command 'trian'. Did you mean 'train'?" in done.stderr


def test_helpfull_shows_flags_of_absl_too():
    done = Command("tfdml.evaluate", "--helpfull").wait()
    assert (done.returncode, done.stderr) == (0, "")
    assert "logtostderr" in done.stdout and "--run_dir" in done.stdout


def test_a_mistyped_flag_is_told_before_tensorflow_is_imported():
    done = Command("tfdml.train", "--epoch=3", environment=TELLING).wait()
    assert done.returncode == 1 and "Use --epochs." in done.stderr
    assert "tfdml" in done.stderr and "tensorflow" not in done.stderr and "keras" not in done.stderr


@pytest.mark.parametrize("name", WRITE)
def test_what_stands_in_place_of_another_programs_flag_is_a_flag(name):
    values = absl_flags.FlagValues()
    names = {*flags.define_training(values), "run_dir", "k"}
    assert name not in names and in_place_of(name, names) and in_place_of(name, {"index"}) is None
    spec = re.search(r"--(\w+)=(['\"])(.*?)\2", WRITE[name])
    if spec:
        registry.create(spec[1], spec[3])


def test_an_error_in_a_graph_is_told_by_its_sentence():
    def loss(labels, found):
        tf.debugging.assert_less(labels, 3.0, message="There is no such class.")
        return keras.losses.mean_squared_error(labels, found)

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(loss=loss)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Graph execution error") as caught:
        model.fit(np.zeros((2, 1)), np.full((2, 1), 7.0), verbose=0)
    assert tensorflow_reason(caught.value).startswith("There is no such class.")


@pytest.mark.parametrize(
    "message, told",
    [
        ("{{function_node f}} Expected 3 values [Op:Reshape]", "Expected 3 values"),
        ("2 root error(s) found.\n  (0) INVALID_ARGUMENT:  Expected 3 values\n\t [[{{node x}}]]", "Expected 3 values"),
        ("", ""),
    ],
)
def test_the_sentence_of_an_error(message, told):
    assert tensorflow_reason(tf.errors.InvalidArgumentError(None, None, message)) == told


def imports_tensorflow(pid):
    try:
        return "tensorflow" in Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_training_without_flags_says_first_what_it_does_where_and_how_long():
    command = Command("tfdml.train")
    done = command.until(lambda: imports_tensorflow(command.pid)).kill(signal.SIGINT)
    what, where, starting = done.stdout.splitlines()
    for word in ("--dataset=toycars", "--backbone=small", "--loss=triplet", "2,000 steps", "20 minutes", "--help"):
        assert word in what
    folder = where.split()[2].rstrip(".")
    assert folder.startswith("runs/") and f"--run_dir={folder}" in where and starting == "Starting TensorFlow ..."
    assert not (ROOT / folder).exists()


def child_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else None


def test_ctrl_c_while_tensorflow_is_imported():
    command = Command("tfdml.evaluate", "--run_dir=none")
    done = command.until(lambda: imports_tensorflow(command.pid)).kill(signal.SIGINT)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_ctrl_c_while_the_run_of_a_study_imports_tensorflow(tmp_path):
    flagfile = tmp_path / "short.flags"
    flagfile.write_text("\n".join(train_flags(tmp_path / "unused")))
    study = Command("tfdml.study", str(flagfile), "--seeds=0,1", f"--runs={tmp_path}/runs")
    study.until(lambda: child_of(study.pid) and imports_tensorflow(child_of(study.pid)))
    # A terminal sends it to both.
    os.kill(child_of(study.pid), signal.SIGINT)
    done = study.kill(signal.SIGINT)
    assert (done.returncode, done.stdout) == (75, "")
    first, *_, last = done.stderr.splitlines()
    assert first.startswith("Run 1 of 2: ") and last.startswith("The study stopped in this run.")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "word, line",
    [
        ("--steps=3", "--steps=3"),
        ("--loss=triplet(mining='hard')", "--loss=\"triplet(mining='hard')\""),
        ("--run_dir=runs/my run", '--run_dir="runs/my run"'),
        ("my photos/a.jpg", '"my photos/a.jpg"'),
        ("--blend", "--blend"),
        ("", '""'),
        ('--where=label == "cup"', "'--where=label == \"cup\"'"),
        ("--out=$HOME", "'--out=$HOME'"),
        ("--a b=c", '"--a b=c"'),
    ],
)
def test_a_shell_takes_printed_words_as_they_are(word, line):
    assert flags.command_line("python", word) == f"python {line}"
    shown = subprocess.run(f"printf %s {line}", shell=True, capture_output=True, text=True, check=True).stdout
    assert shown == word


@pytest.mark.nightly
def test_messages_of_the_packages_are_printed_bare_and_once():
    code = (
        "import logging; from tfdml.console import command\n"
        "def main():\n"
        "    for name in ('tfdml.run', 'pipelines.check'):\n"
        "        logging.getLogger(name).info('Hello from %s', name)\n"
        "    logging.getLogger('tfdml.run').warning('Careful')\n"
        "command.run(main, imports=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "Hello from tfdml.run\nHello from pipelines.check\n" and done.stderr == "Warning: Careful\n"


def test_columns_of_a_table_are_as_wide_as_their_longest_cell():
    rows = [["", "A", "flags"], ["Recall@1", "0.5", "--seed=1"], ["map", "12.25", ""]]
    assert command.aligned(rows, left=(0, 2)).split("\n") == [
        "              A  flags",
        "Recall@1    0.5  --seed=1",
        "map       12.25",
    ]
    assert command.aligned(rows[1:]).split("\n")[1] == "map       12.25"
