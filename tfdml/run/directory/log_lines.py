"""`LogLines`: the lines of a run's log, none of which is lost in silence."""

import hashlib
import os
from pathlib import Path

from tfdml.files.checked import open_unlinked, write_atomically
from tfdml.run.directory.checksums import Checksums

NAME = "metrics.jsonl"


class LogLines:
    """Appends to `metrics.jsonl`, and reads it: what has been written has a checksum.

    Args:
        folder: the run directory.
    """

    def __init__(self, folder):
        self.path = Path(folder) / NAME
        self._checksums = Checksums(folder)
        self._digest, self._size = hashlib.sha256(), 0

    def read(self):
        """Returns the lines, bytes; one that is still being written is left out. A ValueError if some are lost."""
        lines = (self._checksums.read(NAME, may_grow=True) or b"").splitlines(keepends=True)
        return [line for line in lines if line.endswith(b"\n")]

    def append(self, line):
        """Writes a line, which is on the disk when this returns."""
        with open(self.path, "ab", opener=open_unlinked) as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._took(line)
        self._note()

    def keep(self, lines):
        """Makes the log these lines, the first ones of it."""
        content = b"".join(lines)
        self._digest, self._size = hashlib.sha256(), 0
        self._took(content)
        # Of what stays, so that a kill before it is written harms nothing.
        self._note()
        write_atomically(self.path, content)

    def _took(self, content):
        self._digest.update(content)
        self._size += len(content)

    def _note(self):
        self._checksums.note(NAME, self._digest, self._size)
