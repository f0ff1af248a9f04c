"""Writes the images of a dataset into shards: tar files, each with a Parquet table of its records."""

import contextlib
import hashlib
import io
import tarfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipelines.checks import ENDING_OF
from pipelines.datasets.loading import check_names
from pipelines.stored import local, refuse_vectors
from tfdml.files.checked import (
    LOCK,
    fingerprint,
    locked,
    read_bytes,
    read_record,
    write_atomically,
    write_flushed,
    write_manifest,
    write_record,
)

FORMAT, VERSION, MANIFEST, PLAN, CLASSES = "packed tfdml dataset", 1, "manifest.json", "plan.json", "classes.parquet"
# Columns of a split that are stored unchanged.
COLUMNS = ("labels", "cameras", "groups", "is_query", "is_gallery")
# Start of the name of a column with the categories of classes at a level.
LEVEL = "level:"
BLOCK = tarfile.BLOCKSIZE


class ShardRows(NamedTuple):
    """A shard to write: the name of its files without extension, its part of the dataset, and the rows in that part."""

    name: str
    part: str
    rows: range


def pack(dataset, folder, images, on_images=lambda count: None):
    """Packs a dataset into a folder and skips complete shards of an earlier, interrupted call.

    A shard has `images` images. `on_images` is called with the number of images after they are packed.
    """
    refuse_vectors(dataset, "pipelines.pack")
    if not dataset.has_classes:
        raise ValueError(f"pipelines.pack needs a dataset with classes, but {dataset.name} has none.")
    for split in dataset.splits().values():
        if not split.encoded:
            check_names(split.images)
    folder = Path(local(folder, "--out="))
    shards = [
        ShardRows(f"{part}-{number:05d}", part, range(first, min(first + images, len(split))))
        for part, split in dataset.splits().items()
        for number, first in enumerate(range(0, len(split), images))
    ]
    plan = {"images": images, "protocol": dataset.protocol, "rows": _digest(dataset)}
    with _naming(folder):
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
        if PLAN not in names and any(name != LOCK and not name.startswith(".writing-") for name in names):
            raise ValueError(f"--out={folder} is not empty and not a packed dataset. Use a new or empty folder.")
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "packed dataset"):
        written = _begin(folder, plan)
        for shard in shards:
            with _naming(folder):
                # A damaged plan may contain null here, which must not equal the None of missing files.
                if written.get(shard.name) is None or written[shard.name] != _entry(folder, shard):
                    written[shard.name] = _write_shard(folder, shard, dataset.splits()[shard.part])
                    _write_plan(folder, plan, written)
            on_images(len(shard.rows))
        parts = {part: {"images": len(split), "shards": {}} for part, split in dataset.splits().items()}
        for shard in shards:
            parts[shard.part]["shards"][shard.name] = written[shard.name]
        with _naming(folder):
            _write_classes(dataset, folder / CLASSES)
            about = {"dataset": dataset.name, "protocol": dataset.protocol, "classes": fingerprint(folder / CLASSES)}
            write_manifest(folder / MANIFEST, FORMAT, VERSION, {**about, "parts": parts})


def _begin(folder, plan):
    """Writes the plan and returns the entries of complete shards by name; an error if the folder has another plan."""
    if not (folder / PLAN).exists():
        with _naming(folder):
            _write_plan(folder, plan, {})
    found = read_record(folder / PLAN, {"shards": dict | None}, "Use a new folder.")
    written = found.pop("shards", None) or {}
    if found != plan:
        raise ValueError(
            f"--out={folder} contains shards of another dataset or with another --shard_images. Use a new folder."
        )
    return written


def _write_plan(folder, plan, written):
    write_record(folder / PLAN, {**plan, "shards": written})


def _digest(dataset):
    """Returns a digest of all that is packed except the contents of files, which are only read once."""
    digest = hashlib.sha256()
    for part, split in dataset.splits().items():
        digest.update(f"{part} {len(split)} ".encode())
        for image in split.images:
            digest.update(hashlib.sha256(image).digest() if isinstance(image, bytes) else f"{image}\n".encode())
        for name in (*COLUMNS, "boxes"):
            column = getattr(split, name)
            digest.update(b"none" if column is None else np.ascontiguousarray(column).tobytes())
        digest.update(b"" if split.captions is None else repr(split.captions.tolist()).encode())
    return digest.hexdigest()


@contextlib.contextmanager
def _naming(folder):
    """Adds the folder and advice to errors of writing."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"Cannot pack into {folder}: {error.strerror or error}. Repeat the command to continue with the shards "
            "that are complete."
        ) from error


def _entry(folder, shard):
    """Returns the manifest's entry of a shard, or None if a file is missing."""
    try:
        tar, table = (fingerprint(folder / f"{shard.name}.{ending}") for ending in ("tar", "parquet"))
    except FileNotFoundError:
        return None
    return {**tar, "table": table}


def _write_shard(folder, shard, split):
    """Writes the records and the table of a shard; returns its entry."""
    import pyarrow as pa
    import pyarrow.parquet

    columns = {"name": [], "offset": [], "length": [], "checksum": []}
    temporary = folder / f".writing-{shard.name}.tar"
    try:
        write_flushed(temporary, lambda file: _write_records(file, shard, split, columns))
        temporary.rename(folder / f"{shard.name}.tar")
    finally:
        temporary.unlink(missing_ok=True)
    for name in COLUMNS:
        if getattr(split, name) is not None:
            columns[name] = getattr(split, name)[shard.rows.start : shard.rows.stop]
    if split.captions is not None:
        columns["captions"] = list(map(list, split.captions[shard.rows.start : shard.rows.stop]))
    if split.boxes is not None:
        boxes = pa.array(split.boxes[shard.rows.start : shard.rows.stop].astype(np.int32).reshape(-1))
        columns["boxes"] = pa.FixedSizeListArray.from_arrays(boxes, 4)
    written = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), written)
    write_atomically(folder / f"{shard.name}.parquet", written.getvalue())
    return _entry(folder, shard)


def _write_records(file, shard, split, columns):
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for row in shard.rows:
            content = split.images[row]
            if not split.encoded:
                try:
                    content = read_bytes(content)
                except OSError as error:
                    raise ValueError(
                        f"{content} cannot be read: {error.strerror or error}. Replace it, or skip it with "
                        "--ignore_images."
                    ) from None
            entry = tarfile.TarInfo(f"{row:09d}{ENDING_OF.get(content[:2], '.bin')}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
            # The last block of a record is padded.
            columns["offset"].append(file.tell() - -(-len(content) // BLOCK) * BLOCK)
            columns["length"].append(len(content))
            columns["checksum"].append(zlib.crc32(content))
            columns["name"].append(split.name_of(row))


def _write_classes(dataset, path):
    """Writes the names, the groups and the categories at each level of classes, if they have any."""
    import pyarrow as pa
    import pyarrow.parquet

    splits = dataset.splits()
    levels = list(dict.fromkeys(level for split in splits.values() for level in split.levels or {}))
    rows = []
    for part, split in splits.items():
        columns = [split.class_names, split.class_groups, *((split.levels or {}).get(level) for level in levels)]
        columns = [column or {} for column in columns]
        labels = dict.fromkeys(label for column in columns for label in column)
        rows += [(part, int(label), *(column.get(label) for column in columns)) for label in labels]
    header = ["part", "label", "name", "group", *(f"{LEVEL}{level}" for level in levels)]
    columns = list(map(list, zip(*rows, strict=True))) or [[] for _ in header]
    # Names and groups are text or numbers. A column without values is stored as text.
    arrays = [pa.array(column, pa.string() if set(column) <= {None} else None) for column in columns]
    written = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_arrays(arrays, header), written)
    write_atomically(path, written.getvalue())
