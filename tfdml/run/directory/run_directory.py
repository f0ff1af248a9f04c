"""The folder of a run: its flags, model, log, environment and result."""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
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

# Maximum number of characters of a line that an error shows.
LONGEST = 200
WITHOUT_RESULT = "If you remove it, the run writes it again."


# Maximum number of groups of runs in a comparison, which letters name.
MOST_GROUPS = 26


def groups_of(text, most=MOST_GROUPS):
    """Returns a list of run directories per group in `--run_dirs`: `A0,A1:B0,B1`, or `A,B` with one run per group."""
    groups = [[run_dir.strip() for run_dir in part.split(",")] for part in text.split(":")]
    if len(groups) == 1:
        groups = [[run_dir] for run_dir in groups[0]]
    if not 2 <= len(groups) <= most or not all(run_dir for group in groups for run_dir in group):
        raise ValueError(
            f"--run_dirs must be A,B, or several runs per group such as A0,A1:B0,B1, with at most {most} groups. "
            f"Received: --run_dirs={text!r}."
        )
    run_dirs = [run_dir for group in groups for run_dir in group]
    twice = [run_dir for run_dir in run_dirs if run_dirs.count(run_dir) > 1]
    if twice:
        raise ValueError(f"--run_dirs must name different runs. Received: {twice[0]} more than once.")
    return groups


def environment():
    """Returns a dictionary with the software versions of this process and the machine."""
    # Imported here, because callers that only read a run do not need them.
    import keras
    import tensorflow as tf

    # The metadata of faiss shows which build is installed. Importing faiss would be slow.
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
        **({"commit": commit} if (commit := _commit()) else {}),
        "Keras": keras.__version__,
        "TensorFlow": tf.__version__,
        **faiss,
        "NumPy": np.__version__,
        "Python": platform.python_version(),
        "machine": ", ".join([platform.platform(), *gpus]),
    }


def _commit():
    """Returns the commit of the checkout that tfdml is imported from, with `-dirty` if files differ, or ""."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


NAME = "metrics.jsonl"


class LogLines:
    """Reads and appends to `metrics.jsonl` of a run directory, which has a checksum of all that was written."""

    def __init__(self, folder):
        self.path = Path(folder) / NAME
        self._checksums = Checksums(folder)
        self._digest, self._size = hashlib.sha256(), 0

    def read(self):
        """Returns the complete lines as bytes. Raises a ValueError if lines are lost."""
        lines = (self._checksums.read(NAME, may_grow=True) or b"").splitlines(keepends=True)
        return [line for line in lines if line.endswith(b"\n")]

    def append(self, line):
        """Writes a line and waits until it is on disk."""
        with open(self.path, "ab", opener=open_unlinked) as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._note(line)

    def keep(self, lines):
        """Truncates the log to these lines, which are its first lines."""
        content = b"".join(lines)
        self._digest, self._size = hashlib.sha256(), 0
        # The checksum comes first: it also matches the longer file, in case the process is killed before the write.
        self._note(content)
        write_atomically(self.path, content)

    def _note(self, content):
        self._digest.update(content)
        self._size += len(content)
        self._checksums.note(NAME, self._digest, self._size)


LOCK = ".lock"
# Start of the error about a locked folder.
TAKEN = "Another process is training in"
# Seconds to wait for the training process of a killed command to end.
ENDING = 10.0
# Flags that may change when a run resumes: they change no result, or specify where images are stored. (The numbers of
# images are compared with the first start.)
MAY_CHANGE = names_with(may_change=True)


class RunDirectory:
    """The folder of a run, with `flags.txt`, `dataset.json`, `metrics.jsonl`, `result.json`, `model.keras` and so on.

    The folder need not exist. `Checksums` show whether the first four files are unchanged.
    """

    # Prefixes of files that a folder may have before a run claims it, because a process was killed during `claim`.
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
        """The folder of the checkpoints. Like the next three, it is a ValueError if the folder is a link."""
        return folder_in(self.path, "checkpoints", "run")

    @property
    def references(self):
        return folder_in(self.path, "references", "run")

    @property
    def report(self):
        return folder_in(self.path, "report", "run")

    @property
    def tensorboard(self):
        return folder_in(self.path, "tensorboard", "run")

    def tensorboard_of(self, name):
        """Returns the folder `report` or `hparams` inside TensorBoard's folder. Raises a ValueError if it is a link."""
        return folder_in(self.tensorboard, name, "folder")

    def check_claim(self, serialized, may_change=()):
        """Raises an error if a run with these flags cannot use the folder.

        `serialized` is `{name: "--name=value"}`. Flags in `may_change` may differ from the flags in the folder, as may
        flags that change no result.
        """
        for name, line in serialized.items():
            if len(line.splitlines()) != 1:
                raise ValueError(f"--{name} has a line break in its value, which flags.txt cannot store: {line!r}.")
        if self._flags.exists():
            self._refuse_other_flags(serialized, set(may_change))
        elif self.path.exists() and not (self.path.is_dir() and all(map(self._may_be_there, self.path.iterdir()))):
            raise ValueError(
                f"--run_dir={self.path} exists but is not a tfdml run directory. Use a new or empty folder."
            )
        nearest = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(f"Cannot write to --run_dir={self.path}: {nearest} is not a folder.")
        if not os.access(nearest, os.W_OK):
            raise PermissionError(f"Cannot write to --run_dir={self.path}: {nearest} is read-only.")

    def check_free(self, patience=0.0):
        """Raises an error if another process still trains in the folder after `patience` seconds.

        `claim` checks this again.
        """
        if (self.path / LOCK).exists():
            self._lock(patience).close()

    def has_begun(self):
        """Whether the run has trained for at least one step. Without a step, nothing in the folder is worth keeping."""
        saved = self.has_checkpoint or self._result.exists() or self.final_model.exists()
        return saved or any(event["step"] > 0 for event in self.events()[-1:])

    def claim(self, serialized):
        """Claims the folder for a run by locking it and writing the run's flags."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # The lock lasts until the process ends, because two processes would overwrite each other's checkpoints.
            self._held = self._held or self._lock()
            if self._flags.exists() and not self.has_begun():
                self._clear()
            if self._result.exists():
                # It is the result of a shorter run, which now continues. If this process is killed before the flags
                # change, the shorter run ends again.
                self._checksums.forget(self._result.name)
                self._result.unlink()
                self.final_model.unlink(missing_ok=True)
            self._write(self._flags, "".join(f"{line}\n" for line in serialized.values()))
        except OSError as error:
            raise OSError(f"Cannot write to --run_dir={self.path}: {error.strerror or error}.") from error

    @property
    def has_flags(self):
        """Whether the folder belongs to a run. An ensemble's folder does once its members are joined."""
        return self._flags.is_file()

    def settings(self):
        return self._saved_flags()[0]

    def serialized(self):
        """Returns the flags of the run, as `{name: "--name=value"}`."""
        return self._saved_flags()[1]

    def model_file(self, which):
        """Returns the path of the `best` or `final` model. Raises an error if it is missing or damaged."""
        path = {"best": self.model, "final": self.final_model}[which]
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist, because the run has no {which} model yet.")
        if damage := damage_of(path):
            raise damaged(path, damage, "Use the run's other model, or train again.")
        return path

    def write_result(self, result):
        self._write(self._result, json.dumps(result, indent=2) + "\n")

    def result(self):
        """Returns the result of a complete run, or None."""
        # If a user removes the file, the run writes it again.
        return self._read_json(self._result, {}, WITHOUT_RESULT) if self._result.is_file() else None

    def complete_result(self):
        """Returns the result of a run. Raises an error if the run is not complete."""
        result = self.result()
        if result is None:
            raise ValueError(f"The run in {self.path} is not complete. To resume it, repeat its command.")
        best = result.get("best")
        if not (isinstance(best, dict) and all(_is_step(each.get("step")) for each in (result, best))):
            raise damaged(self._result, "a step is missing", WITHOUT_RESULT)
        return result

    def record_dataset(self, record):
        """Writes the result of `splits.to_record`, unless it is empty."""
        if record:
            self._write(self._dataset, json.dumps(record, indent=2) + "\n")

    def recorded_dataset(self):
        """Returns the dictionary that `record_dataset` wrote, or an empty one."""
        entries = dict.fromkeys(("images", "flags", "classes", "initial_model", "initial_weights"), dict | None)
        return self._read_json(self._dataset, entries, "Train again in another --run_dir.") or {}

    def events(self, kind=""):
        """Returns the events of the log, or the events of one kind. A line that is still being written is skipped."""
        events = [
            record_of(line, f"{self.metrics}, line {number},", {"step": _is_step}, "Remove the line.")
            for number, line in enumerate(LogLines(self.path).read(), 1)
        ]
        return [event for event in events if event.get("event") == kind] if kind else events

    @property
    def has_checkpoint(self):
        return any(self.checkpoints.glob("step-*"))

    def _lock(self, patience=0.0):
        """Returns the lock file, open and locked, after waiting for it for up to `patience` seconds."""
        last = time.monotonic() + patience
        while True:
            try:
                return open_locked(self.path / LOCK)
            except BlockingIOError:
                if time.monotonic() >= last:
                    raise ValueError(f"{TAKEN} --run_dir={self.path}. Wait until it ends.") from None
            time.sleep(0.05)

    def _clear(self):
        """Removes the files of a run without a step."""
        # The checksums are removed first, so that no checksum of a missing file is left if the process is killed.
        for path in (self._checksums.path, self.model, self.adapter, self.metrics, self.logger, self._dataset):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.tensorboard, ignore_errors=True)

    def _may_be_there(self, entry):
        """Whether a folder may contain such an entry before a run claims it."""
        return entry.name == "report" or entry.name.startswith(self.beside_a_run)

    def _saved_flags(self):
        if not self.has_flags:
            raise FileNotFoundError(f"{self.path} is not a tfdml run directory, because it has no flags.txt.")
        content, has_checksum = self._checksums.read(self._flags.name), self._checksums.has(self._flags.name)
        try:
            text = text_of(content)
            lines = text.splitlines()
            stray = [line for line in lines if not line.startswith("--") or line.startswith("--flagfile")]
            if stray:
                raise ValueError(f"every line must be --name=value. Received: {stray[0][:LONGEST]!r}")
            settings, serialized = flags.parse(text)
            if not has_checksum and (not text.endswith("\n") or len(lines) < len(serialized)):
                raise ValueError(f"it is cut off. Expected {len(serialized)} flags and the end of the last line")
            return settings, serialized
        except (FlagsError, ValueError, RecursionError) as error:
            # absl's suggestions recurse once per letter of a name, so a name with a thousand letters is too deep.
            raise ValueError(
                f"{self._flags} cannot be read: {reason_of(error)}. It is damaged or from another tfdml version."
            ) from None

    def _refuse_other_flags(self, serialized, may_change):
        _, saved = self._saved_flags()
        different = {
            name: f"{saved[name]} before, {line} now"
            for name, line in serialized.items()
            if saved[name] != line and name not in MAY_CHANGE
        }
        if different.keys() - may_change and self.has_begun():
            raise ValueError(
                f"--run_dir={self.path} contains a run with other flags ({'; '.join(different.values())}). To resume "
                "it, use the same flags. To train a new run, use another --run_dir."
            )

    def _write(self, path, text):
        self._checksums.write(path.name, text.encode())

    def _read_json(self, path, entries, advice):
        """Returns the content of a file, which is a dictionary, or None without a file; see `record_of`."""
        content = self._checksums.read(path.name)
        return None if content is None else record_of(content, path, entries, advice)


def _is_step(value):
    # TensorBoard can store steps below 2^63.
    return isinstance(value, int) and 0 <= value < 2**63
