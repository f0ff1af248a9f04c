"""Keeps other processes from changing a folder."""

import contextlib
import fcntl
from pathlib import Path

LOCK = ".lock"


@contextlib.contextmanager
def locked(path, what):
    """Locks a folder for this process; a ValueError if another one has done so.

    Args:
        path: the folder.
        what: what it is, such as `index`.
    """
    with open(Path(path) / LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"Another process is changing the {what} {path}; wait for it.") from None
        yield
