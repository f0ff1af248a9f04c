"""`EmbeddingJob`: a folder of embeddings that is being made, in parts that any process may make in any order."""

import dataclasses
import shutil
import uuid
from pathlib import Path

import numpy as np

from tfdml.files.checked_files import read_manifest, write_manifest
from tfdml.files.embedding_shards import FORMAT, MANIFEST, VERSION, EmbeddingShards
from tfdml.files.shard import Shard, are_entries, checked_shard, shard_name, write_shard

PLAN, PLAN_FORMAT = "unfinished.json", "unfinished folder of tfdml embeddings"
NOTE_FORMAT = "note of a tfdml shard"
# What must be equal for a folder to be gone on with, and what to say where it is not.
PLANNED = {
    "model": "embeddings by another model",
    "dimension": "embeddings of another dimension",
    "images": "embeddings of other images",
    "total": "embeddings of another number of images",
    "shard_rows": "shards of another number of images: --shard_rows was {}",
}


@dataclasses.dataclass(frozen=True)
class EmbeddingJob:
    """A folder in which shards are written, until all are there and the manifest makes `EmbeddingShards` of them.

    Shard n has the rows of the list from `n * shard_rows` on. Beside it, until the end, a note has its fingerprint and
    its unreadable images; a shard without one, or of other content, counts as missing.

    Args:
        folder: its path.
        plan: name to value of `PLANNED`.
    """

    folder: Path
    plan: dict

    @classmethod
    def of(cls, out, images, *, model, dimension, shard_rows):
        """Returns the job of a folder.

        Args:
            out: the folder, which exists.
            images: `ImageList`.
            model: hash of the model.
            dimension: number of dimensions of an embedding.
            shard_rows: images of a shard.
        """
        plan = {"model": model, "dimension": dimension, "images": images.digest(), "total": len(images)}
        return cls(Path(out), {**plan, "shard_rows": shard_rows})

    def begin(self, images):
        """Begins, or goes on in a folder that the same command has begun or completed; a ValueError in others."""
        if (self.folder / PLAN).exists():
            self._check(read_manifest(self.folder / PLAN, PLAN_FORMAT, VERSION))
        elif (self.folder / MANIFEST).exists():
            manifest = EmbeddingShards(self.folder).manifest
            self._check(manifest)
            self._reopen(images, manifest)
        else:
            write_manifest(self.folder / PLAN, PLAN_FORMAT, VERSION, self.plan)
        self._remove_leftovers()

    def missing(self):
        """Returns the numbers of the shards that are not there, or damaged."""
        if not (self.folder / PLAN).exists():
            return []
        return [number for number in range(self._count()) if self._noted(number) is None]

    def rows(self, number):
        """Returns the rows of the list, a range, that a shard has."""
        size = self.plan["shard_rows"]
        return range(number * size, min((number + 1) * size, self.plan["total"]))

    def write(self, number, images, kept, embeddings, bad):
        """Writes a shard; several processes may write the same one at a time.

        Args:
            number: its number.
            images: `ImageList` of its rows.
            kept: list of the rows of `images` that could be read.
            embeddings: `[len(kept), D]` array.
            bad: path to reason of the other images.
        """
        columns = [[column[row] for row in kept] for column in (images.paths, images.labels)]
        shard = Shard(np.array(kept, np.int64) + self.rows(number).start, *columns, embeddings)
        attempt = self.folder / f".writing-{uuid.uuid4().hex}"
        attempt.mkdir()
        try:
            written, note = write_shard(attempt, number, shard) if kept else {}, self._note(number)
            write_manifest(attempt / note.name, NOTE_FORMAT, VERSION, {"shard": written, "bad": bad})
            for name in (*written, note.name):
                (attempt / name).rename(self.folder / name)
        finally:
            shutil.rmtree(attempt, ignore_errors=True)

    def finish(self):
        """Writes the manifest of all shards, which must be there; returns the `EmbeddingShards`."""
        if (self.folder / PLAN).exists():
            # Of two attempts, shard and note may be of one each.
            missing = [shard_name(number) for number in self.missing()]
            if missing:
                raise ValueError(f"{missing[0]} in {self.folder} is missing or damaged; repeat the command to go on.")
            shards, bad = {}, {}
            for number in range(self._count()):
                note = self._read_note(number)
                shards |= note["shard"]
                bad |= note["bad"]
            count = sum(shard["rows"] for shard in shards.values())
            content = {**self.plan, "count": count, "next_id": self.plan["total"], "next_shard": self._count()}
            write_manifest(self.folder / MANIFEST, FORMAT, VERSION, {**content, "shards": shards, "bad": bad})
            (self.folder / PLAN).unlink()
        for number in range(self._count()):
            self._note(number).unlink(missing_ok=True)
        self._remove_leftovers()
        return EmbeddingShards(self.folder)

    def _check(self, found):
        for name, what in PLANNED.items():
            if found.get(name) != self.plan[name]:
                raise ValueError(f"--out={self.folder} has {what.format(found.get(name))}. Give a new folder.")

    def _reopen(self, images, manifest):
        """Makes a complete folder one that is being made, if shards are missing or damaged."""
        written = ({name: manifest["shards"].get(name)} for name in map(shard_name, range(self._count())))
        entries = [{name: about for name, about in entry.items() if about} for entry in written]
        whole = {number: entry for number, entry in enumerate(entries) if self._is_whole(entry)}
        if len(whole) == len(entries):
            return
        for number, entry in whole.items():
            paths = images.part(self.rows(number)).paths
            bad = {path: manifest["bad"][path] for path in paths if path in manifest["bad"]}
            write_manifest(self._note(number), NOTE_FORMAT, VERSION, {"shard": entry, "bad": bad})
        write_manifest(self.folder / PLAN, PLAN_FORMAT, VERSION, self.plan)
        (self.folder / MANIFEST).unlink()

    def _remove_leftovers(self):
        """Removes what killed processes were writing."""
        for leftover in self.folder.glob(".writing-*"):
            shutil.rmtree(leftover) if leftover.is_dir() and not leftover.is_symlink() else leftover.unlink()

    def _count(self):
        return -(-self.plan["total"] // self.plan["shard_rows"])

    def _note(self, number):
        return (self.folder / shard_name(number)).with_suffix(".json")

    def _read_note(self, number):
        note = read_manifest(self._note(number), NOTE_FORMAT, VERSION)
        if not (isinstance(note.get("bad"), dict) and are_entries(note.get("shard"))):
            raise ValueError(f"{self._note(number)} is damaged: an entry is missing or wrong.")
        return note

    def _noted(self, number):
        """Returns the note of a shard that is there and whole, or None."""
        try:
            note = self._read_note(number)
        except ValueError:
            return None
        return note if self._is_whole(note["shard"]) else None

    def _is_whole(self, entry):
        try:
            for name, about in entry.items():
                checked_shard(self.folder, name, about)
        except ValueError:
            return False
        return True
