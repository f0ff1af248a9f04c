"""Embeddings on disk: a folder of Parquet files with a manifest, which processes may write in any order."""

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
    read_record,
    reason_of,
    vacated,
    write_manifest,
)
from tfdml.files.parquet_footer import declared_size

NAME = re.compile(r"shard-(\d{6})\.parquet")


class Shard(NamedTuple):
    """Rows of a shard: ids, paths, labels and embeddings.

    Ids, `[N]` int64, are never reused in a folder. A label is `None` if an image has none. Embeddings are float32 `[N,
    D]`.
    """

    ids: np.ndarray
    paths: list
    labels: list
    embeddings: np.ndarray


def shard_name(number):
    """Returns the file name of a shard."""
    return f"shard-{number:06d}.parquet"


def checked_shard(folder, name, entry):
    """Returns the path of a shard. Raises a ValueError if it does not match its entry in the manifest."""
    if not NAME.fullmatch(name):
        raise ValueError(f"The manifest in {folder} names {name!r}, which is not a shard. Do not use this folder.")
    return checked_file(folder, name, {key: value for key, value in entry.items() if key != "rows"})


# Types of stored embeddings. Manifests without an entry have the first one.
DTYPES = ("float32", "float16", "int8")
STEPS = 127


def stored_embeddings(embeddings, dtype):
    """Returns embeddings `[N, D]` in one of `DTYPES`, and for int8 the scale `[N]` of each row, else `None`.

    An int8 row times its scale is the embedding, and its largest number is 127 or -127.
    """
    if dtype != "int8":
        with np.errstate(over="ignore"):
            found = embeddings.astype(dtype)
        if not np.isfinite(found).all():
            raise ValueError(
                f"An embedding contains {np.abs(embeddings).max():g}, but the largest number of float16 is 65,504. Use "
                "--dtype=int8 or --dtype=float32."
            )
        return found, None
    scales = np.abs(embeddings).max(axis=1, initial=0) / np.float32(STEPS)
    return np.round(embeddings / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8), scales


def write_shard(folder, number, shard, dtype=DTYPES[0]):
    """Writes a shard of at least one row, completely or not at all. Returns its manifest entry, a dictionary."""
    # Imported here because it is slow to load.
    import pyarrow
    import pyarrow.parquet

    embeddings, scales = stored_embeddings(shard.embeddings, dtype)
    columns = {
        "id": pyarrow.array(shard.ids, pyarrow.int64()),
        "path": pyarrow.array(shard.paths, pyarrow.string()),
        "label": pyarrow.array(shard.labels, pyarrow.string()),
        "embedding": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(embeddings.ravel()), embeddings.shape[1]),
    }
    if scales is not None:
        columns["scale"] = pyarrow.array(scales, pyarrow.float32())
    path = Path(folder) / shard_name(number)
    temporary = path.with_name(f".writing-{path.name}")
    table = pyarrow.table(columns)
    try:
        # Embeddings hardly compress. Parquet stores integers of one byte in four, unless they are in a dictionary.
        encoded = False if scales is None else ["embedding.list.element"]
        pyarrow.parquet.write_table(table, vacated(temporary), compression="none", use_dictionary=encoded)
        flush(temporary)
    except OSError as error:
        raise OSError(f"Cannot write {path}: {error}. Make room on the disk and repeat the command.") from error
    temporary.replace(path)
    return {path.name: {"rows": len(shard.paths), **fingerprint(path)}}


def are_entries(shards):
    """Returns whether an object is a dictionary from shard names to valid entries."""
    return isinstance(shards, dict) and all(
        isinstance(entry, dict) and isinstance(entry.get("rows"), int) and entry["rows"] > 0
        for entry in shards.values()
    )


# Maximum size of a string, such as a path or a label, in bytes.
MOST_TEXT = 2**16
# Parquet's type for strings.
TEXT = "BYTE_ARRAY"


def read_columns(source, columns=None, check=lambda names: None):
    """Returns the `pyarrow.Table` of a Parquet file, with equal strings stored once. A ValueError means it is damaged.

    The source is a path or the contents of a file. Columns that the file does not have are skipped. `check` gets the
    names of all columns before they are read, and may raise.
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
                raise ValueError(f"it contains the column {twice[0]!r} {names.count(twice[0])} times")
            return found.read(wanted)
        except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
            raise ValueError(reason_of(error)) from None


def is_of_texts(column):
    """Returns whether a column of a table contains strings."""
    import pyarrow

    return pyarrow.types.is_dictionary(column.type) and pyarrow.types.is_string(column.type.value_type)


def values_of(column):
    """Returns a table column as a list, with None for missing values. Equal strings share one object."""
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        return column.to_pylist()
    found = []
    for chunk in column.chunks:
        longest = pyarrow.compute.max(pyarrow.compute.binary_length(chunk.dictionary)).as_py() or 0
        if longest > MOST_TEXT:
            raise ValueError(f"a string has {longest:,} bytes, but at most {MOST_TEXT:,} are allowed")
        # Check that all strings are present and valid UTF-8.
        chunk.validate(full=True)
        known = chunk.dictionary.to_pylist()
        found += [None if place is None else known[place] for place in chunk.indices.to_pylist()]
    return found


# The speed is not in the manifest, because equal embeddings have equal manifests.
SPEED = "speed.json"
FORMAT, VERSION, MANIFEST = "folder of tfdml embeddings", 1, "manifest.json"
ADVICE = "Compute the embeddings again."
ENTRIES = {
    "model": str,
    "dimension": lambda value: isinstance(value, int) and value > 0,
    "next_id": int,
    "next_shard": int,
    "shards": are_entries,
    "bad": dict,
    "dtype": lambda value: value is None or value in DTYPES,
}


class EmbeddingShards:
    """A folder of Parquet files with the columns `id`, `path`, `label` and `embedding`, a list of D numbers.

    The numbers have one of `DTYPES`. With int8, each embedding is multiplied by the column `scale` when it is read.
    The manifest contains the files' fingerprints, the hash of the model, and the images that could not be read. It is
    written after each shard, so a shard is complete or absent even if the machine stops.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder / MANIFEST, FORMAT, VERSION, ENTRIES, ADVICE)

    @classmethod
    def create(cls, folder, *, model, dimension):
        """Creates an empty folder for embeddings of a model, which is identified by its hash."""
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
    def dtype(self):
        """Type in which embeddings are stored, one of `DTYPES`. They are read as float32."""
        return self.manifest.get("dtype", DTYPES[0])

    @property
    def images_per_second(self):
        """Speed at which one process read and embedded the images, or None if it is not known."""
        try:
            return read_record(self.folder / SPEED, {"images_per_second": float}, ADVICE)["images_per_second"]
        except FileNotFoundError:
            return None

    @property
    def bad(self):
        """Dictionary from the paths of unreadable images to the reasons."""
        return self.manifest["bad"]

    def __len__(self):
        return sum(shard["rows"] for shard in self.manifest["shards"].values())

    def copy_to(self, folder):
        """Copies the embeddings to a folder that does not exist. Returns its `EmbeddingShards`."""
        copy = Path(folder)
        copy.mkdir(parents=True)
        for name, entry in self.manifest["shards"].items():
            shutil.copyfile(checked_shard(self.folder, name, entry), copy / name)
            flush(copy / name)
        content = {name: self.manifest[name] for name in ENTRIES if name in self.manifest}
        write_manifest(copy / MANIFEST, FORMAT, VERSION, content)
        return EmbeddingShards(copy)

    def append(self, paths, labels, embeddings, bad=None, ids=None):
        """Adds a shard if there are embeddings, and records unreadable images in `bad`, from paths to reasons.

        `ids`, `[N]` int64, must be new. If `None`, the shard gets the next ids.
        """
        first, number = self.manifest["next_id"], self.manifest["next_shard"]
        shards, read = dict(self.manifest["shards"]), set(paths)
        ids = np.arange(first, first + len(paths)) if ids is None else ids
        if paths:
            shard = Shard(ids, paths, labels, np.asarray(embeddings, np.float32))
            shards |= write_shard(self.folder, number, shard, self.dtype)
        bad = {path: why for path, why in self.bad.items() if path not in read} | (bad or {})
        next_id = max([first, *(1 + ids).tolist()])
        self._change({"next_id": next_id, "next_shard": number + 1, "shards": shards, "bad": bad})

    def skip_ids(self, next_id, bad):
        """Reserves all ids below `next_id`, and records unreadable images in `bad`, from paths to reasons."""
        self._change({"next_id": max(self.manifest["next_id"], next_id), "bad": bad})

    def forget_bad(self, paths):
        """Removes these paths, a set, from the unreadable images."""
        self._change({"bad": {path: why for path, why in self.bad.items() if path not in paths}})

    def remove(self, ids):
        """Removes the rows with these ids, a set, from the disk as well."""
        shards, number = {}, self.manifest["next_shard"]
        for name, entry in self.manifest["shards"].items():
            shard = self._read(name)
            keep = [place for place, id in enumerate(shard.ids.tolist()) if id not in ids]
            if len(keep) == len(shard.paths):
                shards[name] = entry
            elif keep:
                kept = [[column[place] for place in keep] for column in (shard.paths, shard.labels)]
                left = Shard(shard.ids[keep], *kept, shard.embeddings[keep])
                shards |= write_shard(self.folder, number, left, self.dtype)
                number += 1
        self._change({"shards": shards, "next_shard": number})

    def blocks(self, start=0):
        """Yields the `Shard`s in order, from the one that starts at row `start`. Each is checked before it is read."""
        for name, entry in self.manifest["shards"].items():
            if start <= 0:
                yield self._read(name)
            start -= entry["rows"]

    def paths(self, without=frozenset()):
        """Returns the set of all paths, except for rows with ids in the set `without`."""
        return {
            path
            for block in self.blocks()
            for id, path in zip(block.ids.tolist(), block.paths, strict=True)
            if id not in without
        }

    def rows(self, rows):
        """Returns the embeddings `[R, D]` of rows `[R]`, which must be sorted."""
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
        # Remove shards that were replaced, or that a killed process left without an entry.
        for path in self.folder.iterdir():
            if NAME.fullmatch(path.name) and path.name not in self.manifest["shards"]:
                path.unlink()

    def _read(self, name):
        entry = self.manifest["shards"][name]
        path, rows = checked_shard(self.folder, name, entry), entry["rows"]
        try:
            table = read_columns(path)
            if len(table) != rows or not is_of_texts(table["path"]) or table["path"].null_count:
                raise ValueError(f"expected {rows:,} rows with a path, but found {len(table):,}")
            if not is_of_texts(table["label"]) and table["label"].null_count < rows:
                raise ValueError(f"labels must be strings, but have the type {table['label'].type}")
            embeddings = table["embedding"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            embeddings = np.asarray(embeddings, np.float32).reshape(rows, self.dimension)
            if self.dtype == "int8":
                embeddings = embeddings * table["scale"].to_numpy()[:, None]
            columns = [values_of(table[column]) for column in ("path", "label")]
            return Shard(table["id"].to_numpy(), *columns, embeddings)
        except (OSError, KeyError, ValueError, AttributeError, TypeError, OverflowError) as error:
            raise ValueError(f"{path} is not a shard of embeddings: {reason_of(error)}. Create it again.") from error


PLAN, PLAN_FORMAT = "unfinished.json", "unfinished folder of tfdml embeddings"
NOTE_FORMAT = "note of a tfdml shard"
# Values that must be equal to resume writing to a folder, and the descriptions of others for the error.
PLANNED = {
    "model": "embeddings from another model",
    "dimension": "embeddings with another dimension",
    "images": "embeddings of other images",
    "total": "embeddings of another number of images",
    "shard_rows": "shards with another number of images (--shard_rows was {})",
    "dtype": "embeddings of another type (--dtype was {})",
}


@dataclasses.dataclass(frozen=True)
class EmbeddingJob:
    """A folder into which shards are written, until all exist and the manifest turns them into `EmbeddingShards`.

    Shard n has the rows of the list from `n * shard_rows` on. Until the end, a note next to it has its fingerprint and
    its unreadable images. A shard without a note, or with other content, counts as missing. The plan has the values of
    `PLANNED`.
    """

    folder: Path
    plan: dict

    @classmethod
    def of(cls, out, images, *, model, dimension, shard_rows, dtype=DTYPES[0]):
        """Returns the job of an existing folder, for an `ImageList` and a model, which is identified by its hash."""
        plan = {"model": model, "dimension": dimension, "images": images.digest(), "total": len(images)}
        return cls(Path(out), {**plan, "shard_rows": shard_rows, "dtype": dtype})

    def begin(self, images):
        """Starts a folder, or resumes one that the same command has started or completed. Others are a ValueError."""
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
        """Returns the numbers of the shards that are missing or damaged."""
        if not (self.folder / PLAN).exists():
            return []
        return [number for number in range(self._count()) if self._noted(number) is None]

    def rows(self, number):
        """Returns the range of the list's rows that belong to a shard."""
        size = self.plan["shard_rows"]
        return range(number * size, min((number + 1) * size, self.plan["total"]))

    def write(self, number, images, kept, embeddings, bad):
        """Writes a shard. Several processes may write the same shard at the same time.

        `images` is the `ImageList` of its rows, `kept` lists the rows that could be read, and `bad` maps the paths of
        the others to the reasons.
        """
        paths, labels = ([column[row] for row in kept] for column in (images.paths, images.labels))
        shard = Shard(np.array(kept, np.int64) + self.rows(number).start, paths, labels, embeddings)
        attempt = self.folder / f".writing-{uuid.uuid4().hex}"
        attempt.mkdir()
        try:
            written, note = write_shard(attempt, number, shard, self.plan["dtype"]) if kept else {}, self._note(number)
            write_manifest(attempt / note.name, NOTE_FORMAT, VERSION, {"shard": written, "bad": bad})
            for name in (*written, note.name):
                (attempt / name).rename(self.folder / name)
        finally:
            shutil.rmtree(attempt, ignore_errors=True)

    def finish(self):
        """Writes the manifest of all shards, which must exist. Returns the `EmbeddingShards`."""
        if (self.folder / PLAN).exists():
            notes = [self._noted(number) for number in range(self._count())]
            # If two processes wrote the same shard, the shard and the note may be from different attempts.
            if None in notes:
                name = shard_name(notes.index(None))
                raise ValueError(f"{name} in {self.folder} is missing or damaged. Repeat the command to continue.")
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
        found = {"dtype": DTYPES[0], **found}
        for name, what in PLANNED.items():
            if found.get(name) != self.plan[name]:
                raise ValueError(f"--out={self.folder} contains {what.format(found.get(name))}. Use a new folder.")

    def _reopen(self, images, manifest):
        """Turns a complete folder into an unfinished one if shards are missing or damaged."""
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
        """Removes unfinished files of killed processes."""
        for leftover in self.folder.glob(".writing-*"):
            shutil.rmtree(leftover) if leftover.is_dir() and not leftover.is_symlink() else leftover.unlink()

    def _count(self):
        return -(-self.plan["total"] // self.plan["shard_rows"])

    def _note(self, number):
        return (self.folder / shard_name(number)).with_suffix(".json")

    def _noted(self, number):
        """Returns the note of a shard that exists and is complete, or None."""
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
