"""Embeddings on disk: a folder of Parquet files with a manifest, which any process may write in any order."""

import dataclasses
import io
import re
import shutil
import uuid
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfdml.files.checked import (
    check_growth,
    checked_file,
    fingerprint,
    flush,
    open_file,
    read_manifest,
    reason_of,
    vacated,
    write_manifest,
)
from tfdml.files.parquet_footer import declared_size

NAME = re.compile(r"shard-(\d{6})\.parquet")


class Shard(NamedTuple):
    """Rows of a shard, as ids, paths, labels and embeddings.

    Ids, `[N]` int64, are never used twice in a folder. A label is `None` if an image has none. Embeddings are `[N, D]`
    float32.
    """

    ids: np.ndarray
    paths: list
    labels: list
    embeddings: np.ndarray


def shard_name(number):
    """Returns the name of the file of a shard."""
    return f"shard-{number:06d}.parquet"


def checked_shard(folder, name, entry):
    """Returns the path of a shard; a ValueError if it is not what its entry in the manifest says was written."""
    if not NAME.fullmatch(name):
        raise ValueError(f"The manifest in {folder} names {name!r}, which is no shard; do not use it.")
    return checked_file(folder, name, {key: value for key, value in entry.items() if key != "rows"})


def write_shard(folder, number, shard):
    """Writes a shard of at least one row, whole or not at all; returns its entry in the manifest, a dictionary."""
    # Imported here because it is slow to load.
    import pyarrow
    import pyarrow.parquet

    flat = pyarrow.array(shard.embeddings.ravel(), pyarrow.float32())
    columns = {
        "id": pyarrow.array(shard.ids, pyarrow.int64()),
        "path": pyarrow.array(shard.paths, pyarrow.string()),
        "label": pyarrow.array(shard.labels, pyarrow.string()),
        "embedding": pyarrow.FixedSizeListArray.from_arrays(flat, shard.embeddings.shape[1]),
    }
    path = Path(folder) / shard_name(number)
    temporary = path.with_name(f".writing-{path.name}")
    table = pyarrow.table(columns)
    try:
        # Embeddings do not compress.
        pyarrow.parquet.write_table(table, vacated(temporary), compression="none", use_dictionary=False)
        flush(temporary)
    except OSError as error:
        raise OSError(f"Cannot write {path}: {error}. Make room, then run it again.") from error
    temporary.rename(path)
    return {path.name: {"rows": len(shard.paths), **fingerprint(path)}}


def are_entries(shards):
    """Whether something is a dictionary from names of shards to their entries."""
    return isinstance(shards, dict) and all(
        isinstance(entry, dict) and isinstance(entry.get("rows"), int) and entry["rows"] > 0
        for entry in shards.values()
    )


# Bytes of a text, such as a path or a label.
MOST_TEXT = 2**16
# The type that texts have.
TEXT = "BYTE_ARRAY"


def read_columns(source, columns=None, check=lambda names: None):
    """Returns the `pyarrow.Table` of a file, in which equal texts are there once; a ValueError if it cannot be read.

    The source is a path or the content of a file. Columns that the file does not have are left out. `check` gets the
    names of all of its columns before they are read, and may raise.
    """
    # Imported here because it is slow to load.
    import pyarrow
    import pyarrow.parquet

    with io.BytesIO(source) if isinstance(source, bytes) else open_file(source) as file:
        try:
            check_growth(declared_size(file), file.seek(0, io.SEEK_END))
            found = pyarrow.parquet.ParquetFile(file)
            leaves = [found.metadata.schema.column(place) for place in range(found.metadata.num_columns)]
            texts = [leaf.path for leaf in leaves if leaf.physical_type == TEXT]
            found = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
            names = found.schema_arrow.names
            check(names)
            wanted = [name for name in columns or names if name in names]
            twice = [name for name in wanted if names.count(name) > 1]
            if twice:
                raise ValueError(f"it has the column {twice[0]!r} {names.count(twice[0])} times")
            return found.read(wanted)
        except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
            raise ValueError(reason_of(error)) from None


def is_of_texts(column):
    """Whether a column of a table holds texts."""
    import pyarrow

    return pyarrow.types.is_dictionary(column.type) and pyarrow.types.is_string(column.type.value_type)


def values_of(column):
    """Returns the values of a column of a table, a list, with None where one is missing; equal texts are one object."""
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        return column.to_pylist()
    found = []
    for chunk in column.chunks:
        longest = pyarrow.compute.max(pyarrow.compute.binary_length(chunk.dictionary)).as_py() or 0
        if longest > MOST_TEXT:
            raise ValueError(f"a text has {longest:,} bytes, and may have {MOST_TEXT:,}")
        # That every text is there, and is UTF-8.
        chunk.validate(full=True)
        known = chunk.dictionary.to_pylist()
        found += [None if place is None else known[place] for place in chunk.indices.to_pylist()]
    return found


FORMAT, VERSION, MANIFEST = "folder of tfdml embeddings", 1, "manifest.json"
ADVICE = "Make the embeddings anew."
ENTRIES = {
    "model": str,
    "dimension": lambda value: isinstance(value, int) and value > 0,
    "next_id": int,
    "next_shard": int,
    "shards": are_entries,
    "bad": dict,
}


class EmbeddingShards:
    """A folder of Parquet files with the columns `id`, `path`, `label` and `embedding`, a list of D float32.

    The manifest has their fingerprints, the hash of the model, and the images that could not be read. It is written
    after each shard, so that a shard is in it or is not there, whenever the machine stops.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder / MANIFEST, FORMAT, VERSION, ENTRIES, ADVICE)

    @classmethod
    def create(cls, folder, *, model, dimension):
        """Creates an empty folder for embeddings of a model, which its hash names."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        content = {"model": model, "dimension": dimension, "next_id": 0, "next_shard": 0, "shards": {}, "bad": {}}
        write_manifest(Path(folder) / MANIFEST, FORMAT, VERSION, content)
        return cls(folder)

    @property
    def model(self):
        """Hash of the model that computed the embeddings."""
        return self.manifest["model"]

    @property
    def dimension(self):
        return self.manifest["dimension"]

    @property
    def bad(self):
        """Path to reason of the images that could not be read."""
        return self.manifest["bad"]

    def __len__(self):
        return sum(shard["rows"] for shard in self.manifest["shards"].values())

    def copy_to(self, folder):
        """Copies the embeddings to a folder, which must not be there; returns its `EmbeddingShards`."""
        copy = Path(folder)
        copy.mkdir(parents=True)
        for name, entry in self.manifest["shards"].items():
            shutil.copyfile(checked_shard(self.folder, name, entry), copy / name)
            flush(copy / name)
        write_manifest(copy / MANIFEST, FORMAT, VERSION, {name: self.manifest[name] for name in ENTRIES})
        return EmbeddingShards(copy)

    def append(self, paths, labels, embeddings, bad=None, ids=None):
        """Adds a shard, if there is an embedding, and notes why other images could not be read, `bad`, path to reason.

        No other row may have one of the `ids`, `[N]` int64. If `None`, the shard gets the next ones.
        """
        first, number = self.manifest["next_id"], self.manifest["next_shard"]
        shards, read = dict(self.manifest["shards"]), set(paths)
        ids = np.arange(first, first + len(paths)) if ids is None else ids
        if paths:
            shards |= write_shard(self.folder, number, Shard(ids, paths, labels, np.asarray(embeddings, np.float32)))
        bad = {path: why for path, why in self.bad.items() if path not in read} | (bad or {})
        next_id = max([first, *(1 + ids).tolist()])
        self._change({"next_id": next_id, "next_shard": number + 1, "shards": shards, "bad": bad})

    def skip_ids(self, next_id, bad):
        """Gives no row an id below this one any more, and notes images that could not be read, path to reason."""
        self._change({"next_id": max(self.manifest["next_id"], next_id), "bad": bad})

    def forget_bad(self, paths):
        """Forgets that these images, a set of paths, could not be read."""
        self._change({"bad": {path: why for path, why in self.bad.items() if path not in paths}})

    def remove(self, ids):
        """Removes the rows with these ids, a set, also from the disk."""
        shards, number = {}, self.manifest["next_shard"]
        for name, entry in self.manifest["shards"].items():
            shard = self._read(name)
            keep = [place for place, id in enumerate(shard.ids.tolist()) if id not in ids]
            if len(keep) == len(shard.paths):
                shards[name] = entry
            elif keep:
                kept = [[column[place] for place in keep] for column in (shard.paths, shard.labels)]
                shards |= write_shard(self.folder, number, Shard(shard.ids[keep], *kept, shard.embeddings[keep]))
                number += 1
        self._change({"shards": shards, "next_shard": number})

    def blocks(self, start=0):
        """Yields the `Shard`s in order, each checked before it is read, from a row on, at which a shard begins."""
        for name, entry in self.manifest["shards"].items():
            if start <= 0:
                yield self._read(name)
            start -= entry["rows"]

    def paths(self, without=frozenset()):
        """Returns the set of all paths, but for those of rows whose ids are in a set."""
        return {
            path
            for block in self.blocks()
            for id, path in zip(block.ids.tolist(), block.paths, strict=True)
            if id not in without
        }

    def rows(self, rows):
        """Returns the embeddings `[R, D]` of rows `[R]`, ascending."""
        found, first = [], 0
        for block in self.blocks():
            begin, end = np.searchsorted(rows, [first, first + len(block.ids)])
            found.append(block.embeddings[rows[begin:end] - first])
            first += len(block.ids)
        return np.concatenate(found)

    def _change(self, changes):
        content = {name: value for name, value in self.manifest.items() if name not in ("format", "version")}
        write_manifest(self.folder / MANIFEST, FORMAT, VERSION, {**content, **changes})
        self.manifest |= changes
        # Of shards that were replaced, or that a kill left without an entry.
        for path in self.folder.iterdir():
            if NAME.fullmatch(path.name) and path.name not in self.manifest["shards"]:
                path.unlink()

    def _read(self, name):
        entry = self.manifest["shards"][name]
        path, rows = checked_shard(self.folder, name, entry), entry["rows"]
        try:
            table = read_columns(path)
            if len(table) != rows or not is_of_texts(table["path"]) or table["path"].null_count:
                raise ValueError(f"expected {rows:,} rows with a path each, received {len(table):,}")
            if not is_of_texts(table["label"]) and table["label"].null_count < rows:
                raise ValueError(f"expected labels that are texts, received {table['label'].type}")
            embeddings = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            columns = [values_of(table[column]) for column in ("path", "label")]
            return Shard(table["id"].to_numpy(), *columns, embeddings.reshape(rows, self.dimension))
        except (OSError, KeyError, ValueError, AttributeError, TypeError, OverflowError) as error:
            raise ValueError(f"{path} is no shard of embeddings: {reason_of(error)}. Make it anew.") from error


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

    Shard n has the rows of the list from `n * shard_rows` on. Next to it, until the end, a note has its fingerprint and
    its unreadable images; a shard without one, or of other content, counts as missing. The plan has the values of
    `PLANNED`.
    """

    folder: Path
    plan: dict

    @classmethod
    def of(cls, out, images, *, model, dimension, shard_rows):
        """Returns the job of a folder that exists, for an `ImageList` and a model, which its hash names."""
        plan = {"model": model, "dimension": dimension, "images": images.digest(), "total": len(images)}
        return cls(Path(out), {**plan, "shard_rows": shard_rows})

    def begin(self, images):
        """Begins, or goes on in a folder that the same command has begun or completed; a ValueError in others."""
        if (self.folder / PLAN).exists():
            self._check(read_manifest(self.folder / PLAN, PLAN_FORMAT, VERSION, {}, ADVICE))
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

        `images` is the `ImageList` of its rows, `kept` those of them that could be read, and `bad` maps the paths of
        the others to the reasons.
        """
        paths, labels = ([column[row] for row in kept] for column in (images.paths, images.labels))
        shard = Shard(np.array(kept, np.int64) + self.rows(number).start, paths, labels, embeddings)
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
            notes = [self._noted(number) for number in range(self._count())]
            # Of two attempts, shard and note may be of one each.
            if None in notes:
                name = shard_name(notes.index(None))
                raise ValueError(f"{name} in {self.folder} is missing or damaged; repeat the command to go on.")
            shards = {name: entry for note in notes for name, entry in note["shard"].items()}
            bad = {path: reason for note in notes for path, reason in note["bad"].items()}
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
        shards, names = manifest["shards"], [shard_name(number) for number in range(self._count())]
        # All images of a shard without an entry were unreadable.
        entries = [{name: shards[name]} if name in shards else {} for name in names]
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

    def _noted(self, number):
        """Returns the note of a shard that is there and whole, or None."""
        entries = {"bad": dict, "shard": are_entries}
        try:
            note = read_manifest(self._note(number), NOTE_FORMAT, VERSION, entries, ADVICE)
        except ValueError:
            return None
        return note if self._is_whole(note["shard"]) else None

    def _is_whole(self, entry):
        try:
            for name, expected in entry.items():
                checked_shard(self.folder, name, expected)
        except ValueError:
            return False
        return True
