"""Runs the command lines as a user does, on data small enough for a CPU.

As a script it is a process that has imported TensorFlow and forks for each command, which spares the commands the
import; everything else, flags, exit status, output, signals, is as in a process of their own.
"""

import atexit
import fcntl
import functools
import gc
import io
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS_PER_EPOCH, EPOCHS = 20, 2
# Seconds after which a process hangs; far above what any takes, since machines may be slow and busy.
PATIENCE = 1800

MODEL_FLAGS = [
    "--image_size=24",
    "--backbone=small(width=8, stages=2)",
    "--head=linear(dropout=0.3)",
    "--embedding_size=16",
    "--sampler=pxk(classes=4, per_class=4)",
    "--train_transform=random_resized_crop(area=(0.5, 1.0))|flip",
    "--noprojector",
]
LENGTH_FLAGS = [f"--epochs={EPOCHS}", f"--steps_per_epoch={STEPS_PER_EPOCH}", "--optimizer=adam(learning_rate=0.003)"]

# Measured at every evaluation, and at the end.
RETRIEVAL = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8", "r_precision", "map_at_r", "queries")
METRICS = (*RETRIEVAL[:-1], "nmi", "f1", "queries")

# Nearly all that a step can have; the backbone waits for 24 of 40 steps.
EVERYTHING = [
    "--loss=ranked_list(negative_temperature=20.0, final_negative_temperature=0.0)",
    "--optimizer=adamw(learning_rate=0.01, weight_decay=0.01)",
    "--schedule=cosine(warmup_epochs=0.5, floor=0.1)",
    "--lr_multipliers=backbone=0.5,embedding=2",
    "--warmup_epochs=1.2",
    "--nodecay_biases_and_norms",
    "--clip_norm=0.5",
    "--ema=0.9",
]
# The environment's variable with the folder that all processes of the tests share.
SHARED_FOLDER = "TFDML_TESTS_FOLDER"


def train_flags(run_dir, *more):
    """Flags of a run of two epochs with augmentation, dropout and batch norm; later ones override."""
    data = ["--dataset=toycars(classes=16, images_per_class=8, image_size=24)", f"--data_dir={pictures()}"]
    return [*data, *MODEL_FLAGS, *LENGTH_FLAGS, f"--run_dir={run_dir}", *more]


def straight_flags(run_dir, *more):
    """Flags of `straight_run`, in another folder; later ones override."""
    return train_flags(run_dir, *EVERYTHING, *more)


@functools.cache
def scratch():
    """A folder of this process for the whole session."""
    folder = Path(tempfile.mkdtemp(prefix="tfdml-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def made_once(name, make):
    """Returns a path that all processes share, made by `make(path)`: the first process makes it, others wait."""
    path = Path(os.environ[SHARED_FOLDER]) / name
    complete = path.with_suffix(".complete")
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            make(path)
            complete.touch()
    return path


@functools.cache
def pictures():
    """Folder with the pictures rendered, so that no command tells of rendering."""
    from pipelines.datasets.toycars import toycars

    return made_once("pictures", lambda path: toycars(data_dir=path, classes=16, images_per_class=8, image_size=24))


@functools.cache
def straight_run():
    """Run directory of two epochs without a stop, with nearly all that a run can have, by the real command line."""

    def make(run_dir):
        done = Command("tfdml.train", *straight_flags(run_dir)).wait()
        assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr

    return made_once("straight", make)


class Command:
    """`python -m module flags...` in a process of its own.

    After `wait`, `returncode`, `stdout` and `stderr` are set.
    """

    def __init__(self, module, *flags, environment=()):
        self._environment = dict(environment)
        self._output = Path(tempfile.mkdtemp(dir=scratch()))
        self.pid = self._start(module, list(flags), self._output / "stdout", self._output / "stderr")

    def _start(self, module, flags, stdout, stderr):
        hidden = ("TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "PYTHONWARNINGS")
        environment = {key: value for key, value in os.environ.items() if key not in hidden} | self._environment
        arguments = [sys.executable, "-m", module, *flags]
        with open(stdout, "wb") as out, open(stderr, "wb") as err:
            self._process = subprocess.Popen(
                arguments,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                # Where the tests run in the background, the shell has told them to ignore Ctrl-C.
                preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )
        return self._process.pid

    def poll(self):
        """The exit status, or None while it runs."""
        return self._process.poll()

    def until(self, condition):
        """Waits for a condition to come true while the command runs."""
        given_up = time.monotonic() + PATIENCE
        while not condition():
            assert self.poll() is None, f"ended with {self.poll()} before that: {self.wait().stderr}"
            assert time.monotonic() < given_up, "waited in vain"
            time.sleep(0.002)
        return self

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)
        return self.wait()

    def wait(self):
        given_up = time.monotonic() + PATIENCE
        while self.poll() is None:
            if time.monotonic() > given_up:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.005)
        self.returncode = self.poll()
        self.stdout, self.stderr = ((self._output / name).read_text() for name in ("stdout", "stderr"))
        return self


class Forked(Command):
    """A command in a fork of the process that has imported TensorFlow already."""

    _returncode = None

    def _start(self, module, flags, stdout, stderr):
        about = {"module": module, "flags": flags, "environment": self._environment}
        return _ask({**about, "stdout": str(stdout), "stderr": str(stderr)})

    def poll(self):
        if self._returncode is None:
            self._returncode = _ask({"poll": self.pid})
        return self._returncode


def run(module, *flags):
    """Runs a command to its end, in a fork."""
    return Forked(module, *flags).wait()


def train(run_dir, *more):
    """Trains to the end, in a fork."""
    return run("tfdml.train", *train_flags(run_dir, *more))


def steps(run_dir):
    """Steps of the checkpoints that are there, oldest first."""
    return sorted(int(entry.name.removeprefix("step-")) for entry in (Path(run_dir) / "checkpoints").glob("step-*"))


def events(run_dir):
    """Events of metrics.jsonl without wall times; a line that is still being written is left out."""
    path = Path(run_dir) / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [{name: value for name, value in event.items() if name != "seconds"} for event in found]


def result(run_dir):
    """result.json without wall times."""
    found = json.loads((Path(run_dir) / "result.json").read_text())
    return {name: value for name, value in found.items() if name != "seconds"}


def saved_model(path):
    """The content of a `.keras` file but for its date: configuration, and bytes and type of every weight."""
    import h5py

    with zipfile.ZipFile(path) as archive:
        content = {"config": json.loads(archive.read("config.json"))}
        file = h5py.File(io.BytesIO(archive.read("model.weights.h5")))

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            content[name] = (item.shape, str(item.dtype), item[()].tobytes())

    file.visititems(visit)
    return content


def load_newest(run_dir):
    """The arrays file of the newest checkpoint."""
    import numpy as np

    return np.load(Path(run_dir) / "checkpoints" / f"step-{steps(run_dir)[-1]:08d}" / "arrays.npz")


def variable_names(run_dir):
    """Names of the variables in the newest checkpoint."""
    with load_newest(run_dir) as stored:
        return [str(name) for name in stored["names"]]


def newest_arrays(run_dir):
    """Bytes of every variable in the newest checkpoint: weights, optimizer, seeds."""
    with load_newest(run_dir) as stored:
        return {name: (stored[name].shape, str(stored[name].dtype), stored[name].tobytes()) for name in stored}


def assert_same_run(run_dir, expected):
    """All that two runs leave is equal bit for bit, wall times aside."""
    same(dict(enumerate(events(run_dir))), dict(enumerate(events(expected))))
    same(result(run_dir), result(expected))
    assert steps(run_dir)[-1] == steps(expected)[-1]
    same(newest_arrays(run_dir), newest_arrays(expected))
    for name in ("model.keras", "final.keras"):
        same(saved_model(run_dir / name), saved_model(expected / name))


def same(found, expected):
    """Two dictionaries are equal and not empty; if not, says where they differ."""
    assert expected
    different = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
    shown = {key: (str(found.get(key))[:300], str(expected.get(key))[:300]) for key in sorted(different, key=str)[:3]}
    assert not different, shown


# What TensorFlow's own code writes when an image cannot be decoded; no log level of Python reaches it.
DECODER_NOISE = re.compile(
    r"[EWI]0000 00:00:\d+\.\d+ +\d+ (jpeg_mem|local_rendezvous)\.cc:\d+\] .*|\t \[\[.*\]\]"
    r"|WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR",
    re.ASCII,
)
FLAG_ERROR, FLAG_HELP = "FATAL Flags parsing error: ", "Pass --helpshort or --helpfull to see help on flags."


def assert_one_error(done, *words):
    """The command ended in one clear line that holds these words."""
    assert done.returncode > 0, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if not DECODER_NOISE.fullmatch(line)]
    if lines and lines[-1] == FLAG_HELP:
        assert lines.pop() and lines[0].startswith(FLAG_ERROR), done.stderr
    else:
        assert lines and lines[0].startswith("Error: "), done.stderr
    assert len(lines) == 1, done.stderr
    missing = [word for word in words if word not in lines[0]]
    assert not missing, (missing, lines[0])


@functools.cache
def _server():
    process = subprocess.Popen(
        [sys.executable, __file__], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    return process


def _ask(request):
    server = _server()
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


def _serve():
    """Answers requests; returns, in a fork, what that fork is to run."""
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        if "poll" in request:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                answers.close()
                return request
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return None


def _become(request):
    nothing = os.open(os.devnull, os.O_RDONLY)
    opened = [nothing, *(os.open(request[name], os.O_WRONLY | os.O_CREAT, 0o600) for name in ("stdout", "stderr"))]
    for descriptor, standard in zip(opened, (0, 1, 2), strict=True):
        os.dup2(descriptor, standard)
    os.environ.update(request["environment"])
    sys.argv = [request["module"], *request["flags"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    import tfdml.run.training  # noqa: F401

    # Full collections would walk through all of TensorFlow, in every fork.
    gc.collect()
    gc.freeze()
    todo = _serve()
    if todo is not None:
        _become(todo)
