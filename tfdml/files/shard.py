"""`Shard`: rows of embeddings, and the Parquet file that has them."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfdml.files.checked_files import checked_file, fingerprint, flush, vacated

NAME = re.compile(r"shard-(\d{6})\.parquet")


class Shard(NamedTuple):
    """Rows of a shard.

    Args:
        ids: `[N]` int64, never used twice in a folder.
        paths: list of N texts.
        labels: list of N texts, or None where an image has none.
        embeddings: `[N, D]` float32.
    """

    ids: np.ndarray
    paths: list
    labels: list
    embeddings: np.ndarray


def shard_name(number):
    """Returns the name of the file of a shard."""
    return f"shard-{number:06d}.parquet"


def checked_shard(folder, name, entry):
    """Returns the path of a shard, or raises a ValueError if it is not what was written.

    Args:
        folder: the folder that it must be in.
        name: its name.
        entry: its entry in the manifest.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"The manifest in {folder} names {name!r}, which is no shard; do not use it.")
    return checked_file(folder, name, {key: value for key, value in entry.items() if key != "rows"})


def write_shard(folder, number, shard):
    """Writes a file that is whole or not there, and returns its entry in the manifest, a dictionary.

    Args:
        folder: where to.
        number: number of the shard.
        shard: `Shard` of at least one row.
    """
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
    # Embeddings do not compress.
    try:
        table = pyarrow.table(columns)
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
