"""Checkpoints of a run on disk, which are exact, atomic and verified."""

import json
import shutil
from pathlib import Path

import numpy as np

from tfdml.files.checked import BROKEN, check_zip, damaged, fingerprint, flush, json_of, read_bytes, write_flushed
from tfdml.runtime.sharded_variable import ShardedVariable

ARRAYS, STATE, MANIFEST = "arrays.npz", "state.json", "manifest.json"


class CheckpointError(OSError):
    """A checkpoint could not be written or does not match the model. The message includes what to do."""


class CheckpointFolder:
    """A folder with the newest checkpoints of a run."""

    def __init__(self, folder, keep=3):
        self.folder = Path(folder)
        self.keep = keep

    def steps(self):
        """Returns the steps of the existing checkpoints, oldest first."""
        names = [entry.name for entry in self.folder.glob("step-*") if entry.is_dir()]
        return sorted(int(name.removeprefix("step-")) for name in names if name.removeprefix("step-").isdigit())

    def write(self, step, arrays, state):
        """Writes a checkpoint, then removes all except the newest `keep` checkpoints.

        `arrays` are pairs of a name and a NumPy array. `state` must be serializable as JSON.
        """
        target, temporary = self._path(step), self.folder / f".writing-{step:08d}"
        try:
            for leftover in self.folder.glob(".writing-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            temporary.mkdir(parents=True)
            by_place = {f"array{place}": array for place, (_, array) in enumerate(arrays)}
            names = np.array([name for name, _ in arrays])
            write_flushed(temporary / ARRAYS, lambda file: np.savez(file, names=names, **by_place))
            write_flushed(temporary / STATE, lambda file: file.write(json.dumps(state).encode()))
            manifest = {"step": step, **{name: fingerprint(temporary / name) for name in (ARRAYS, STATE)}}
            write_flushed(temporary / MANIFEST, lambda file: file.write(json.dumps(manifest).encode()))
            flush(temporary)
            shutil.rmtree(target, ignore_errors=True)
            temporary.rename(target)
            flush(self.folder)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            earlier = self.steps()
            kept = f"The checkpoint of step {earlier[-1]} still exists" if earlier else "There is no earlier checkpoint"
            raise CheckpointError(
                f"Cannot write the checkpoint of step {step} to {self.folder}: {error.strerror or error}. {kept}. "
                "Make room, then run the same command again."
            ) from error
        # Checkpoints of later steps were damaged and skipped, so they are removed first.
        steps = self.steps()
        kept = [earlier for earlier in steps if earlier <= step][-self.keep :]
        for other in set(steps) - set(kept):
            shutil.rmtree(self._path(other), ignore_errors=True)

    def read_newest(self, warn):
        """Returns the newest undamaged checkpoint, `(step, arrays, state)`, or None without checkpoints.

        If all are damaged, it raises an error. `warn` is called with a message for each damaged one that it skips.
        """
        for step in reversed(self.steps()):
            try:
                return (step, *_read(self._path(step), step))
            except MemoryError:
                # The checkpoint may be intact.
                raise
            except BROKEN as error:
                warn(str(damaged(f"The checkpoint {self._path(step)}", error, "Using the previous checkpoint.")))
        if self.steps():
            raise CheckpointError(f"All checkpoints in {self.folder} are damaged. Train again in a new --run_dir.")
        return None

    def _path(self, step):
        return self.folder / f"step-{step:08d}"


def snapshot(variables, strategy):
    """Returns `[(name, array), ...]` of Keras variables as this process holds them. Names include their position."""

    def value_of(variable):
        if isinstance(variable, ShardedVariable):
            return variable.numpy()
        return strategy.experimental_local_results(variable.value)[0].numpy()

    return [(f"{place:05d}|{variable.path}", value_of(variable)) for place, variable in enumerate(variables)]


def restore(variables, arrays, strategy):
    """Assigns the values of a snapshot to the variables in all replicas, or raises an error that names a wrong one."""
    if len(variables) != len(arrays):
        raise CheckpointError(
            f"The checkpoint has {len(arrays)} variables but the model has {len(variables)}, so it belongs to another "
            "model."
        )
    for (name, array), variable in zip(arrays, variables, strict=True):
        shape = variable.whole_shape if isinstance(variable, ShardedVariable) else tuple(variable.shape)
        if name.partition("|")[2] != variable.path or array.shape != shape:
            raise CheckpointError(
                f"The checkpoint's variable {name} of shape {array.shape} does not match the model's {variable.path} "
                f"of shape {shape}, so it belongs to another model."
            )
        if isinstance(variable, ShardedVariable):
            variable.assign(array)
            continue
        # Assigning a metric as a whole would divide it among replicas, so each replica is assigned separately.
        for replica in strategy.experimental_local_results(variable.value):
            replica.assign(array)


def _read(folder, step):
    manifest = json_of(read_bytes(folder / MANIFEST))
    if not isinstance(manifest, dict) or manifest.keys() != {ARRAYS, STATE, "step"}:
        raise ValueError(f"{MANIFEST} has missing or unexpected entries")
    if manifest["step"] != step:
        raise ValueError(f"it was written as the checkpoint of step {manifest['step']}")
    for name in (ARRAYS, STATE):
        now = fingerprint(folder / name)
        if now != manifest[name]:
            raise ValueError(f"{name} has {now['bytes']} bytes and its checksum differs from the written one")
    with np.load(folder / ARRAYS, allow_pickle=False) as stored:
        check_zip(stored.zip)
        arrays = [(str(name), stored[f"array{place}"]) for place, name in enumerate(stored["names"])]
    if not all(isinstance(array, np.ndarray) for _, array in arrays):
        raise ValueError(f"{ARRAYS} has an entry that is not an array")
    return arrays, json_of(read_bytes(folder / STATE))
