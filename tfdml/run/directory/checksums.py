"""Checksums that show whether the files of a run are unchanged."""

import hashlib
from pathlib import Path

from tfdml.files.checked import damaged, read_bytes, read_record, write_atomically, write_manifest

NAME, FORMAT, VERSION = "checksums.json", "checksums of a tfdml run", 1


class Checksums:
    """`checksums.json` of a run directory, with the size and the SHA-256 of each file as it was written.

    The entry of a file is removed before the file changes and written again afterwards. If the process is killed in
    between, the file has no entry and is not checked. In a run without `checksums.json`, no file is checked.
    """

    def __init__(self, folder):
        self.path = Path(folder) / NAME

    def write(self, name, content):
        """Writes a file, which has either the old or the new content even if the machine stops."""
        self.forget(name)
        write_atomically(self.path.with_name(name), content)
        self.note(name, hashlib.sha256(content), len(content))

    def note(self, name, digest, size):
        """Writes the entry of a file, with the size and `digest`, a `hashlib.sha256`, of the written content."""
        self._write({**self._entries(), name: {"bytes": size, "sha256": digest.hexdigest()}})

    def forget(self, name):
        entries = self._entries()
        if entries.pop(name, None):
            self._write(entries)

    def has(self, name):
        return name in self._entries()

    def read(self, name, may_grow=False):
        """Returns the content of a file, or None without a file. Raises a ValueError if it differs from its entry.

        With `may_grow`, the file may continue after the content that its entry describes, as a log does.
        """
        # The entry is read before the file, because a run in progress can append to the file at any time.
        entry, path = self._entries().get(name), self.path.with_name(name)
        content = read_bytes(path) if path.exists() else None
        if not entry or content is not None and entry == _entry_of(content[: entry["bytes"]] if may_grow else content):
            return content
        if entry != self._entries().get(name):
            # Another process has written the file in the meantime.
            return self.read(name, may_grow)
        if content is None:
            raise ValueError(f"{path} is missing. Restore it. To continue without it, remove {self.path}.")
        advice = f"Restore it. To read it as it is now, remove {self.path}."
        raise damaged(path, "its checksum differs from the one that was written", advice)

    def _entries(self):
        entries = {"format": FORMAT, "version": VERSION, "files": _are_entries}
        try:
            return read_record(self.path, entries, "Remove it to read the run's files without checks.")["files"]
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
