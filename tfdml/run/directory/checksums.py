"""`Checksums`: tells whether the files of a run are what was written."""

import hashlib
from pathlib import Path

from tfdml.files.checked import damaged, read_bytes, read_record, write_atomically, write_manifest

NAME, FORMAT, VERSION = "checksums.json", "checksums of a tfdml run", 1


class Checksums:
    """`checksums.json` of a run directory: of each file, how many bytes were written, and their SHA-256.

    The entry of a file is removed before the file changes and comes back after it, so that a kill leaves a file without
    one, which is not checked. Nor are the files of a run without a `checksums.json`.
    """

    def __init__(self, folder):
        self.path = Path(folder) / NAME

    def write(self, name, content):
        """Writes a file that holds either the old or the new bytes, whenever the machine stops."""
        self.forget(name)
        write_atomically(self.path.with_name(name), content)
        self.note(name, hashlib.sha256(content), len(content))

    def note(self, name, digest, size):
        """Writes the entry of a file: the size, and `digest`, a `hashlib.sha256`, of what was written."""
        self._write({**self._entries(), name: {"bytes": size, "sha256": digest.hexdigest()}})

    def forget(self, name):
        entries = self._entries()
        if entries.pop(name, None):
            self._write(entries)

    def has(self, name):
        return name in self._entries()

    def read(self, name, may_grow=False):
        """Returns the content of a file, or None if there is none; raises a ValueError if it is not what was written.

        With `may_grow`, more may follow what was written, as in a log.
        """
        # Before the file, which a run that is still going on makes longer meanwhile.
        entry, path = self._entries().get(name), self.path.with_name(name)
        content = read_bytes(path) if path.exists() else None
        if not entry or content is not None and entry == _entry_of(content[: entry["bytes"]] if may_grow else content):
            return content
        if entry != self._entries().get(name):
            # Another process has written it meanwhile.
            return self.read(name, may_grow)
        if content is None:
            raise ValueError(f"{path} is missing. Restore it; or, to do without it, remove {self.path}.")
        advice = f"Restore it; or, if it is to be read as it is now, remove {self.path}."
        raise damaged(path, "its checksum is another one than when it was written", advice)

    def _entries(self):
        entries = {"format": FORMAT, "version": VERSION, "files": _are_entries}
        try:
            return read_record(self.path, entries, "Remove it to read the run's files unchecked.")["files"]
        except FileNotFoundError:
            return {}

    def _write(self, entries):
        write_manifest(self.path, FORMAT, VERSION, {"files": entries})


def _entry_of(content):
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _are_entries(entries):
    wanted = {"bytes": int, "sha256": str}
    return isinstance(entries, dict) and all(
        isinstance(entry, dict) and {name: type(value) for name, value in entry.items()} == wanted
        for entry in entries.values()
    )
