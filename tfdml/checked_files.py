"""Files that are whole or not there, and fingerprints that tell damaged ones."""

import hashlib
import os
from pathlib import Path


def write_atomically(path, content):
    """Writes bytes so that `path` holds either the old or the new content, whenever the machine stops."""
    path = Path(path)
    temporary = path.with_name(f".writing-{path.name}")
    write_flushed(temporary, lambda file: file.write(content))
    temporary.rename(path)


def write_flushed(path, fill):
    """Writes a file, and returns when it is on the disk.

    Args:
        path: the file.
        fill: function that writes to it, opened for bytes.
    """
    with open(path, "wb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())


def flush(path):
    """Makes sure that a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fingerprint(path):
    """Returns size and SHA-256 of a file, as a manifest has them."""
    with open(path, "rb") as file:
        return {"bytes": os.path.getsize(path), "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
