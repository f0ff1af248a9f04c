"""The folder of a search."""

import contextlib
import dataclasses
from pathlib import Path

from tfdml.files.checked import LOCK, folder_in, locked, read_manifest, write_manifest
from tfdml.run.tuning.search_state import SearchState

FILE, FORMAT, VERSION = "tune.json", "tfdml search of settings", 1
# The flag of the time that a search may take.
TIME = "minutes"
# Letters of a flag in an error.
LONGEST = 200
# What a folder may have before it is a search's: a kill may leave it.
BESIDE = (LOCK, f".writing-{FILE}")


class SearchDirectory:
    """`tune.json`, `best.flags` and `trials/` of a search.

    Args:
        path: the folder; it need not exist.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.best_flags = self.path / "best.flags"
        self._file = self.path / FILE

    def trial(self, number):
        """The run directory of a trial."""
        return folder_in(self.path, "trials", "search") / f"{number:03}"

    def log(self, number):
        """The file with what the processes of a trial print."""
        return self.trial(number).with_suffix(".log")

    @contextlib.contextmanager
    def claimed(self, flags):
        """A context in which the folder is this search's alone; gives the `SearchState`.

        Args:
            flags: `flags` of the state. A ValueError if the folder holds a search with others, or something else. The
                time may be another one until it has been planned.
        """
        if self.path.exists() and not self._file.exists() and self._holds_anything():
            raise ValueError(f"--tune_dir={self.path} exists and is no search of tfdml; give a new or empty folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path, "search"):
            state = self._read() if self._file.exists() else SearchState(flags)
            _check_same(self.path, state.flags, flags, () if state.plan else (TIME,))
            state.flags = flags
            (self.trial(0).parent).mkdir(exist_ok=True)
            self.write(state)
            yield state

    def write(self, state):
        """Writes the state in place of the one that is there."""
        write_manifest(self._file, FORMAT, VERSION, dataclasses.asdict(state))

    def _read(self):
        content = read_manifest(self._file, FORMAT, VERSION)
        try:
            return SearchState.of(content)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            why = "an entry is missing or wrong. Give another --tune_dir."
            raise ValueError(f"{self._file} is damaged: {why}") from None

    def _holds_anything(self):
        return not self.path.is_dir() or any(entry.name not in BESIDE for entry in self.path.iterdir())


def _check_same(path, saved, flags, may_change):
    different = [
        f"{' '.join(saved.get(name, 'none').split())[:LONGEST]} there, {line} now"
        for name, line in flags.items()
        if saved.get(name) != line and name not in may_change
    ]
    if different:
        raise ValueError(
            f"--tune_dir={path} holds a search with other flags ({'; '.join(different)}). Give the same flags to go on "
            "with it, or another --tune_dir."
        )
