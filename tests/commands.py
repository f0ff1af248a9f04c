"""Runs the command lines as a user does, on data small enough for a CPU.

As a script it is a process that has imported TensorFlow and forks for each command, which spares the commands the
import; everything else, flags, exit status, output, signals, is as in a process of their own.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import itertools
import json
import os
import pkgutil
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from absl import flags

ROOT = Path(__file__).resolve().parents[1]
# Seconds after which a process hangs; far above what any takes, since machines may be slow and busy.
PATIENCE = 900


@functools.cache
def scratch():
    """A folder of this process for the whole session."""
    folder = Path(tempfile.mkdtemp(prefix="tfdml-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def functions_of(module):
    """Imports a command for its functions, without its flags, whose names other commands use, too."""
    others = [flags.FLAGS[name] for name in flags.FLAGS]
    try:
        _remove_flags()
        return importlib.import_module(module)
    finally:
        _remove_flags()
        # A flag with a short name is there twice.
        for flag in {flag.name: flag for flag in others}.values():
            flags.FLAGS[flag.name] = flag


def _remove_flags():
    for name in list(flags.FLAGS):
        delattr(flags.FLAGS, name)


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

    def printed(self):
        """What it has printed so far."""
        written = self._output / "stdout"
        return written.read_text() if written.exists() else ""

    def until(self, condition):
        """Waits for a condition to come true while the command runs."""

        def happened():
            if condition():
                return True
            assert self.poll() is None, f"ended with {self.poll()} before that: {self.wait().stderr}"
            return False

        until(happened)
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


def until(condition):
    """Waits for a condition to come true."""
    given_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < given_up, "waited in vain"
        time.sleep(0.002)


def processes_with(*parts):
    """Ids of the processes whose command lines have these parts."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # One that has ended is left out.
        with contextlib.suppress(OSError):
            line = os.fsdecode((process / "cmdline").read_bytes())
            found += [int(process.name)] * all(str(part) in line for part in parts)
    return found


# The environment's variable that says where a fork is killed: "pathlib:Path rename 3" is before the third call of that
# function. So a kill comes in the middle of what is written, however fast it is.
DIES_AT = "TFDML_TESTS_DIES_AT"


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


def ok(module, *flags):
    """Runs a command that must end well, in a fork."""
    done = run(module, *flags)
    assert done.returncode == 0, done.stderr
    return done


def last_json(done):
    """Returns what the last line says that a command has printed, which must have ended well."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# What TensorFlow's own code writes when an image cannot be decoded; no log level of Python reaches it.
DECODER_NOISE = re.compile(
    r"[EWI]0000 00:00:\d+\.\d+ +\d+ (jpeg_mem|local_rendezvous)\.cc:\d+\] .*|\t \[\[.*\]\]"
    r"|WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR",
    re.ASCII,
)


def assert_one_error(done, *words):
    """The command ended in one clear line that holds these words."""
    assert done.returncode > 0, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if not DECODER_NOISE.fullmatch(line)]
    assert len(lines) == 1 and lines[0].startswith("Error: "), done.stderr
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


def _die_at(owner, name, call):
    owner, calls = pkgutil.resolve_name(owner), itertools.count(1)
    function = getattr(owner, name)

    def counted(*arguments, **options):
        if next(calls) == int(call):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    setattr(owner, name, counted)


def _become(request):
    nothing = os.open(os.devnull, os.O_RDONLY)
    opened = [nothing, *(os.open(request[name], os.O_WRONLY | os.O_CREAT, 0o600) for name in ("stdout", "stderr"))]
    for descriptor, standard in zip(opened, (0, 1, 2), strict=True):
        os.dup2(descriptor, standard)
    os.environ.update(request["environment"])
    if DIES_AT in os.environ:
        _die_at(*os.environ[DIES_AT].split())
    # Where the tests run in the background, the shell has told them to ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [request["module"], *request["flags"]]
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        status = ended.code or 0
    else:
        status = 0
    # As Python ends, but without taking TensorFlow apart, which takes longer than many a command.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    # What commands import later, too.
    import faiss  # noqa: F401
    import tensorboard.summary  # noqa: F401

    import tfdml.run.training.run_training  # noqa: F401

    # Full collections would walk through all of TensorFlow, in every fork.
    gc.collect()
    gc.freeze()
    todo = _serve()
    if todo is not None:
        _become(todo)
