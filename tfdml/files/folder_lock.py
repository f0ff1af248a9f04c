"""Keeps other processes from changing a folder."""

import contextlib
from pathlib import Path

from tfdml.files.checked_files import open_locked

LOCK = ".lock"


@contextlib.contextmanager
def locked(path, what):
    """Locks a folder for this process; a ValueError if another one has done so.

    Args:
        path: the folder.
        what: what it is, such as `index`.
    """
    try:
        file = open_locked(Path(path) / LOCK)
    except BlockingIOError:
        raise ValueError(f"Another process is changing the {what} {path}; wait for it.") from None
    with file:
        yield
