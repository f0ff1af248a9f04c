"""Has another process read files, which is stopped when it hangs or takes too much memory."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tensorflow as tf

from tests.commands import ROOT
from tests.fuzz.hostile_texts import MODULE, SAVED_MODEL, SECRET

# Of CPU without those of the system, which on virtual machines may take many to find memory.
CPU_SECONDS = 10
WALL_SECONDS, BYTES = 100, 2 * 2**30
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Watched:
    """A context manager: a process that reads files of a module's `TARGETS`, one after another.

    In `folder` its working folder is made, with a module, a secret and a SavedModel that no file may reach.
    """

    def __init__(self, module, folder):
        self._module, self._hostile, self._process = module, Path(folder) / "hostile", None
        self._scratch = tempfile.mkdtemp(dir=folder)
        _write_hostile(self._hostile)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop()

    def read(self, target, folder):
        """Returns what happened when a target read a folder, a dictionary: see `tests.fuzz.reader`."""
        if self._process is None:
            self._start()
        before, start = self._used(), time.monotonic()
        self._process.stdin.write(json.dumps({"target": target, "folder": str(folder)}) + "\n")
        self._process.stdin.flush()
        while not select.select([self._process.stdout], [], [], 0.02)[0]:
            seconds, memory = (now - then for now, then in zip(self._used(), before, strict=True))
            if seconds > CPU_SECONDS or time.monotonic() - start > WALL_SECONDS:
                return self._given_up(f"hung: {seconds:.0f} s of CPU")
            if memory > BYTES:
                return self._given_up(f"took {memory / 2**20:.0f} MiB")
        line = self._process.stdout.readline()
        return json.loads(line) if line else self._given_up(f"died with {self._process.wait()}")

    def _start(self):
        environment = {**os.environ, "PYTHONPATH": f"{self._hostile}:{ROOT}", "TMPDIR": self._scratch}
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("reader.py"), self._module, self._hostile],
            cwd=self._hostile,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n", "the process did not start"

    def _stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _given_up(self, why):
        self._stop()
        return {"error": why, "expected": False, "noted": []}

    def _used(self):
        """Seconds of CPU, in its own code, and bytes of memory that the process has taken."""
        try:
            process = Path("/proc") / str(self._process.pid)
            fields = process.joinpath("stat").read_text().rpartition(")")[2].split()
            resident = int(process.joinpath("statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0.0, 0
        return int(fields[11]) / TICKS, resident * PAGE


def write_saved_model(folder, mark):
    """Writes a SavedModel that writes the file `mark` as soon as it is loaded, and returns images as they are."""
    builder = tf.compat.v1.saved_model.Builder(str(folder))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        images = tf.compat.v1.placeholder(tf.float32, [None, None, None, 3])
        signature = tf.compat.v1.saved_model.predict_signature_def({"images": images}, {"output": images + 0})
        loaded = tf.io.write_file(str(mark), "the SavedModel was loaded")
        signatures = {"serving_default": signature}
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, main_op=loaded)
    builder.save()


def _write_hostile(folder):
    """Writes the module, the secret and the SavedModel, each of which leaves a mark when it is used."""
    marks = folder / "marks"
    marks.mkdir(parents=True)
    folder.joinpath(f"{MODULE}.py").write_text(f"open({str(marks / 'module')!r}, 'w').close()\n")
    folder.joinpath(SECRET).write_text("--dataset=toycars\n")
    write_saved_model(folder / SAVED_MODEL, marks / "saved_model")
