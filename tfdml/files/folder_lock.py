"""Keeps other processes from changing a folder, and makes folders that are whole or not there."""

import contextlib
import os
from pathlib import Path

from tfdml.files.checked_files import cleared, flush, naming, open_locked

LOCK = ".lock"


def new_folder(path, what, flag=""):
    """Returns the path of a folder to write to; a ValueError unless it has a name, and is empty or does not exist.

    Args:
        path: the folder.
        what: what is written.
        flag: the flag that names the folder, for errors, such as `--out`; if empty, no flag does.
    """
    folder, name = Path(path), f"{flag}={path}" if flag else str(path)
    if not path:
        raise ValueError(f"{flag or 'The path'} is missing: the folder for {what}.")
    # It is written under another name first.
    if folder.name in ("", ".."):
        raise ValueError(f"{name} cannot be replaced; give a folder by a name of its own.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{name} exists and is not empty; give a new folder.")
    return folder


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


@contextlib.contextmanager
def whole_folder(path, what):
    """Returns a context with a folder to fill, which becomes `path` where no error ends it, and is removed otherwise.

    Args:
        path: the folder, which must be empty or not exist. It is not made before it is whole.
        what: what it is, such as `exported model`.

    Raises:
        ValueError: If another process is writing the folder, or has written it.
    """
    path = Path(path)
    unfinished = path.with_name(f".writing-{path.name}")
    with naming(path), _writing(path, unfinished.with_name(f"{unfinished.name}.lock"), what):
        if path.exists() and any(path.iterdir()):
            raise ValueError(f"Another process has written the {what} {path} meanwhile. Use a new or empty folder.")
        # A process that was killed leaves what it had written.
        cleared(unfinished).mkdir()
        try:
            yield unfinished
            flush(unfinished)
            unfinished.rename(path)
        finally:
            cleared(unfinished)


@contextlib.contextmanager
def _writing(path, lock, what):
    """Locks a file next to a folder, which does not exist yet, and removes the file at the end.

    Args:
        path: the folder.
        lock: path of the file.
        what: what the folder is.
    """
    try:
        # The lock names a parent that is a file as what it is; `mkdir` would say that it exists.
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        file = _open_present(lock)
    except BlockingIOError:
        raise ValueError(f"Another process is writing the {what} {path}. Wait for it, or use another folder.") from None
    except OSError as error:
        # Nobody knows the name of the lock.
        error.filename = str(path)
        raise
    with file:
        try:
            yield
        finally:
            lock.unlink()


def _open_present(lock):
    """Opens and locks a file that exists once it is locked: the process that held it before may have removed it."""
    while True:
        file = open_locked(lock)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(lock, follow_symlinks=False)):
                return file
        file.close()
