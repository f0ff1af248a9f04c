"""The folder of a run: its flags, model, log, environment and result."""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import time
from importlib import metadata
from pathlib import Path

import numpy as np
from absl.flags import Error as FlagsError

from tfdml.console import flags
from tfdml.console.settings import names_with
from tfdml.console.startup import __version__
from tfdml.files.checked import (
    damaged,
    folder_in,
    open_locked,
    open_unlinked,
    reason_of,
    record_of,
    text_of,
    write_atomically,
)
from tfdml.run.directory.checksums import Checksums
from tfdml.run.directory.model_archive import damage_of

# Letters of a line in an error.
LONGEST = 200
WITHOUT_RESULT = "Without it the run makes it anew."


# How many groups of runs are compared: as many as there are letters.
MOST_GROUPS = 26


def groups_of(text, most=MOST_GROUPS):
    """Returns a list of run directories for each group in `--run_dirs`: `A0,A1:B0,B1`, or `A,B`, each run a group."""
    groups = [[run_dir.strip() for run_dir in part.split(",")] for part in text.split(":")]
    if len(groups) == 1:
        groups = [[run_dir] for run_dir in groups[0]]
    if not 2 <= len(groups) <= most or not all(run_dir for group in groups for run_dir in group):
        raise ValueError(
            f"Expected --run_dirs=A,B, or several of each as A0,A1:B0,B1, of up to {most} groups; received {text!r}."
        )
    run_dirs = [run_dir for group in groups for run_dir in group]
    twice = [run_dir for run_dir in run_dirs if run_dirs.count(run_dir) > 1]
    if twice:
        raise ValueError(f"Expected different runs in --run_dirs, received {twice[0]} more than once.")
    return groups


def environment():
    """Returns versions of the software of this process, and the machine, name to text."""
    # Here, because what only reads a run starts without them.
    import keras
    import tensorflow as tf

    # Which build of faiss is installed, without loading it, which is slow.
    faiss = {}
    for name in ("faiss-cpu", "faiss-gpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            faiss[name] = metadata.version(name)
    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return {
        "tfdml": __version__,
        "Keras": keras.__version__,
        "TensorFlow": tf.__version__,
        **faiss,
        "NumPy": np.__version__,
        "Python": platform.python_version(),
        "machine": ", ".join([platform.platform(), *gpus]),
    }


NAME = "metrics.jsonl"


class LogLines:
    """Appends to `metrics.jsonl` of a run directory, and reads it: what has been written has a checksum."""

    def __init__(self, folder):
        self.path = Path(folder) / NAME
        self._checksums = Checksums(folder)
        self._digest, self._size = hashlib.sha256(), 0

    def read(self):
        """Returns whole lines, bytes; raises a ValueError if some are lost."""
        lines = (self._checksums.read(NAME, may_grow=True) or b"").splitlines(keepends=True)
        return [line for line in lines if line.endswith(b"\n")]

    def append(self, line):
        """Writes a line, which is on the disk when this returns."""
        with open(self.path, "ab", opener=open_unlinked) as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._note(line)

    def keep(self, lines):
        """Makes the log these lines, the first ones of it."""
        content = b"".join(lines)
        self._digest, self._size = hashlib.sha256(), 0
        # Of what stays, so that a kill before it is written harms nothing.
        self._note(content)
        write_atomically(self.path, content)

    def _note(self, content):
        self._digest.update(content)
        self._size += len(content)
        self._checksums.note(NAME, self._digest, self._size)


LOCK = ".lock"
# How the error of a folder that is locked begins.
TAKEN = "Another process is training in"
# Seconds to wait for the process of a command that was killed, which then ends, too.
ENDING = 10.0
# Flags with other values of which a run goes on: they change no result, or say where images are, whose numbers are
# compared with those at its beginning.
MAY_CHANGE = names_with(may_change=True)


class RunDirectory:
    """`flags.txt`, `dataset.json`, `metrics.jsonl`, `result.json`, `checkpoints/`, `model.keras` and so on of a run.

    The folder need not exist. `Checksums` of the first four files prove that they are what was written.
    """

    # Prefixes of files that a folder may have before it is a run's: a kill in the middle of `claim` leaves them.
    beside_a_run = (".writing-", LOCK)

    def __init__(self, path):
        self.path = Path(path)
        self.model, self.final_model = self.path / "model.keras", self.path / "final.keras"
        self.adapter = self.path / "adapter.weights.h5"
        self.metrics = self.path / NAME
        self.logger = self.path / "logger.json"
        self._flags = self.path / "flags.txt"
        self._dataset = self.path / "dataset.json"
        self._result = self.path / "result.json"
        self._checksums = Checksums(self.path)
        self._held = None

    @property
    def checkpoints(self):
        """The folder of the checkpoints; a ValueError if it is a link, as of the two below."""
        return folder_in(self.path, "checkpoints", "run")

    @property
    def report(self):
        return folder_in(self.path, "report", "run")

    @property
    def tensorboard(self):
        return folder_in(self.path, "tensorboard", "run")

    def tensorboard_of(self, name):
        """Returns the folder `report` or `hparams` in TensorBoard's; a ValueError if it is a link."""
        return folder_in(self.tensorboard, name, "folder")

    def check_claim(self, serialized, may_change=()):
        """Raises if the folder cannot be this run's: it is another's, or cannot be written.

        `serialized` is `{name: "--name=value"}`, and flags named in `may_change` may differ from what is there, besides
        those that change no result.
        """
        for name, line in serialized.items():
            if len(line.splitlines()) != 1:
                raise ValueError(f"--{name} has a line break in its value, which flags.txt cannot hold: {line!r}.")
        if self._flags.exists():
            self._refuse_other_flags(serialized, set(may_change))
        elif self.path.exists() and not (self.path.is_dir() and all(map(self._may_be_there, self.path.iterdir()))):
            raise ValueError(f"--run_dir={self.path} exists and is no run of tfdml; give a new or empty folder.")
        nearest = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(f"Cannot write to --run_dir={self.path}: {nearest} is no folder.")
        if not os.access(nearest, os.W_OK):
            raise PermissionError(f"Cannot write to --run_dir={self.path}: {nearest} is read-only.")

    def check_free(self, patience=0.0):
        """Raises if another process is still training in the folder after `patience` seconds; `claim` asks again."""
        if (self.path / LOCK).exists():
            self._lock(patience).close()

    def has_begun(self):
        """Whether a step has been taken: what a run without one has left is not worth keeping."""
        saved = self.has_checkpoint or self._result.exists() or self.final_model.exists()
        return saved or any(event["step"] > 0 for event in self.events()[-1:])

    def claim(self, serialized):
        """Makes the folder this run's by writing its flags."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Until the process ends, however it ends; two at once would undo each other's checkpoints.
            self._held = self._held or self._lock()
            if self._flags.exists() and not self.has_begun():
                self._clear()
            if self._result.exists():
                # That of a shorter run, which goes on; a kill before the flags change leaves one that is to end again.
                self._checksums.forget(self._result.name)
                self._result.unlink()
                self.final_model.unlink(missing_ok=True)
            self._write(self._flags, "".join(f"{line}\n" for line in serialized.values()))
        except OSError as error:
            raise OSError(f"Cannot write to --run_dir={self.path}: {error.strerror or error}.") from error

    @property
    def has_flags(self):
        """Whether the folder is a run's; that of an ensemble is one when its members are joined."""
        return self._flags.is_file()

    def settings(self):
        return self._saved_flags()[0]

    def serialized(self):
        """Returns the flags that the run was made with, as `{name: "--name=value"}`."""
        return self._saved_flags()[1]

    def model_file(self, which):
        """Returns the path of the `best` or `final` model, which is whole."""
        path = {"best": self.model, "final": self.final_model}[which]
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist: the run has no {which} model yet.")
        if damage := damage_of(path):
            raise damaged(path, damage, "Use the run's other model, or train again.")
        return path

    def write_result(self, result):
        self._write(self._result, json.dumps(result, indent=2) + "\n")

    def result(self):
        """Returns the result of a run that is complete, or None."""
        # Who removes it has it made anew.
        return self._read_json(self._result, {}, WITHOUT_RESULT) if self._result.is_file() else None

    def complete_result(self):
        """Returns the result of a run, which must be complete."""
        result = self.result()
        if result is None:
            raise ValueError(f"The run in {self.path} is not complete; repeat its command to resume it.")
        best = result.get("best")
        if not (isinstance(best, dict) and all(_is_step(each.get("step")) for each in (result, best))):
            raise damaged(self._result, "a step is missing", WITHOUT_RESULT)
        return result

    def record_dataset(self, record):
        """Writes what `splits.to_record` returns, if that is anything."""
        if record:
            self._write(self._dataset, json.dumps(record, indent=2) + "\n")

    def recorded_dataset(self):
        """Returns the dictionary that `record_dataset` wrote; empty if it wrote none."""
        entries = dict.fromkeys(("images", "flags", "classes", "initial_model"), dict | None)
        return self._read_json(self._dataset, entries, "Train again, in another --run_dir.") or {}

    def events(self, kind=""):
        """Returns the events of the log, of one kind if it is named; except for a line that is still being written."""
        events = [
            record_of(line, f"{self.metrics}, line {number},", {"step": _is_step}, "Remove the line.")
            for number, line in enumerate(LogLines(self.path).read(), 1)
        ]
        return [event for event in events if event.get("event") == kind] if kind else events

    @property
    def has_checkpoint(self):
        return any(self.checkpoints.glob("step-*"))

    def _lock(self, patience=0.0):
        """Returns the lock file, open and locked, and tries for so many seconds."""
        last = time.monotonic() + patience
        while True:
            try:
                return open_locked(self.path / LOCK)
            except BlockingIOError:
                if time.monotonic() >= last:
                    raise ValueError(f"{TAKEN} --run_dir={self.path}; wait for it.") from None
            time.sleep(0.05)

    def _clear(self):
        """Removes what a run without a step has left."""
        # The checksums first: a kill in between must not leave them of files that are gone.
        for path in (self._checksums.path, self.model, self.adapter, self.metrics, self.logger, self._dataset):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.tensorboard, ignore_errors=True)

    def _may_be_there(self, entry):
        """Whether a folder may have such an entry before it is a run's."""
        return entry.name == "report" or entry.name.startswith(self.beside_a_run)

    def _saved_flags(self):
        if not self.has_flags:
            raise FileNotFoundError(f"{self.path} is no run directory of tfdml: it has no flags.txt.")
        content, has_checksum = self._checksums.read(self._flags.name), self._checksums.has(self._flags.name)
        try:
            text = text_of(content)
            lines = text.splitlines()
            stray = [line for line in lines if not line.startswith("--") or line.startswith("--flagfile")]
            if stray:
                raise ValueError(f"expected --name=value on every line, received {stray[0][:LONGEST]!r}")
            settings, serialized = flags.parse(text)
            if not has_checksum and (not text.endswith("\n") or len(lines) < len(serialized)):
                raise ValueError(f"it is cut off: expected {len(serialized)} flags, and the end of the last line")
            return settings, serialized
        except (FlagsError, ValueError, RecursionError) as error:
            # For a name of a thousand letters absl's suggestions take as many calls.
            raise ValueError(
                f"{self._flags} cannot be read: {reason_of(error)}. It is damaged, or of another version."
            ) from None

    def _refuse_other_flags(self, serialized, may_change):
        _, saved = self._saved_flags()
        different = {
            name: f"{saved[name]} there, {line} now"
            for name, line in serialized.items()
            if saved[name] != line and name not in MAY_CHANGE
        }
        if different.keys() - may_change and self.has_begun():
            raise ValueError(
                f"--run_dir={self.path} holds a run with other flags ({'; '.join(different.values())}). Give the same "
                "flags to go on with it, or another --run_dir."
            )

    def _write(self, path, text):
        self._checksums.write(path.name, text.encode())

    def _read_json(self, path, entries, advice):
        """Returns the content of a file, a dictionary, or None if there is none; see `record_of`."""
        content = self._checksums.read(path.name)
        return None if content is None else record_of(content, path, entries, advice)


def _is_step(value):
    # What TensorBoard can hold.
    return isinstance(value, int) and 0 <= value < 2**63
