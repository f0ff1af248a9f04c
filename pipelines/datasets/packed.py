"""A dataset in shards, as written by `python -m pipelines.pack`."""

import functools
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pipelines.dataset import Dataset, Split
from pipelines.packing import CLASSES, COLUMNS, FORMAT, LEVEL, MANIFEST, VERSION
from pipelines.stored import PackedImages, Places, is_remote, read_part
from tfdml.files.checked import damaged, read_manifest
from tfdml.files.shards import read_columns, values_of
from tfdml.registry import register
from tfdml.registry.arguments import FilePath

# Number of tables to read in parallel.
THREADS = 8
PACK_ANEW = "Pack the dataset again."
PLACES = {"offset": np.int64, "length": np.int32, "checksum": np.uint32}


@register("dataset", "packed")
def packed(path: FilePath | None = None, data_dir: FilePath | None = None) -> Dataset:
    """Loads a dataset from the shards written by `python -m pipelines.pack`, on a local disk or in a bucket.

    Labels are in memory, and images are read from the shards when they are needed.

    Args:
        path: Folder of the shards, or `None`. Can be a folder that `tf.io.gfile` reads, such as `gs://bucket/packed`.
            If `None`, `data_dir` is used. Defaults to `None`.
        data_dir: Folder of the shards, or `None`. Defaults to `None`.
    """
    if not (path or data_dir):
        raise ValueError(
            "The folder of the packed dataset is missing. Pass data_dir, --data_dir on the command line, or "
            "packed(path=...)."
        )
    folder = path or data_dir
    folder = folder if is_remote(folder) else os.path.expanduser(folder)
    manifest = read_manifest(os.path.join(folder, MANIFEST), FORMAT, VERSION, {}, PACK_ANEW, read=_whole)
    try:
        classes = _table(folder, CLASSES, manifest["classes"])
        parts = {part: _split(folder, about, classes, part) for part, about in manifest["parts"].items()}
        return Dataset(manifest["dataset"], parts.get("train"), parts["test"], protocol=manifest["protocol"])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise damaged(folder, "an entry is missing or wrong", PACK_ANEW) from error


def _split(folder, about, classes, part):
    shards = about["shards"]
    outside = [name for name in shards if os.path.basename(name) != name]
    if outside:
        raise ValueError(
            f"The manifest in {folder} names {outside[0]!r}, which is not a shard in this folder. Do not use this "
            "dataset."
        )
    paths = [os.path.join(folder, f"{name}.tar") for name in shards]
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(_check_size, paths, (shard["bytes"] for shard in shards.values())))
        names = [f"{name}.parquet" for name in shards]
        read = functools.partial(_columns, folder)
        columns = list(threads.map(read, names, (shard["table"] for shard in shards.values())))
    lengths = [len(of_shard["offset"]) for of_shard in columns]
    shard = np.repeat(np.arange(len(paths), dtype=np.int32), lengths)
    joined = {name: np.concatenate([of_shard.pop(name) for of_shard in columns]) for name in list(columns[0])}
    places = Places(shard, *(joined.pop(name) for name in PLACES))
    of_class = {name: values_of(classes[name]) for name in classes.column_names}

    def found(column):
        rows = zip(of_class["part"], of_class["label"], of_class[column], strict=True)
        return {label: value for of, label, value in rows if of == part and value is not None}

    levels = {name.removeprefix(LEVEL): found(name) for name in of_class if name.startswith(LEVEL)}
    about = {"class_names": found("name") or None, "class_groups": found("group") or None, "levels": levels or None}
    return Split(PackedImages(paths, places), **joined, **about)


def _columns(folder, name, expected):
    """Returns the columns of a shard's table by name, except for the names of its images."""
    table, found = _table(folder, name, expected, {*PLACES, *COLUMNS, "boxes", "captions"}), {}
    for column in table.column_names:
        values = table[column].combine_chunks()
        try:
            if column == "boxes":
                found[column] = values.flatten().to_numpy().reshape(-1, 4)
            elif column == "captions":
                found[column] = np.empty(len(values), object)
                found[column][:] = list(map(tuple, values.to_pylist()))
            else:
                values = values.to_numpy(zero_copy_only=False)
                found[column] = values.astype(PLACES.get(column, values.dtype), copy=False)
        except (ValueError, TypeError, OverflowError) as error:
            path = os.path.join(folder, name)
            raise damaged(path, f"the column {column!r} does not have the expected type", PACK_ANEW) from error
    return found


def _table(folder, name, expected, columns=None):
    """Returns a table with the columns that exist; with all if `columns` is None."""
    path = os.path.join(folder, name)
    try:
        content = _whole(path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error}). {PACK_ANEW}") from None
    if hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise damaged(path, "its checksum differs from the manifest", PACK_ANEW)
    try:
        return read_columns(content, columns)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}. {PACK_ANEW}") from None


def _check_size(path, expected):
    size, advice = _size(path), "Copy it again, or pack the dataset again."
    if size is None:
        raise ValueError(f"{path} is missing. {advice}")
    if size != expected:
        raise damaged(path, f"it has {size:,} bytes but was written with {expected}", advice)


def _size(path):
    """Returns the size of a file in bytes, or None if it does not exist."""
    if is_remote(path):
        import tensorflow as tf

        return tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None
    return os.path.getsize(path) if os.path.isfile(path) else None


def _whole(path):
    size = _size(path)
    if size is None:
        raise FileNotFoundError(f"{path} does not exist")
    return read_part(path, 0, size)
