"""Embeddings of files, by the names that lists of pairs call them."""

import os

import numpy as np

from tfdml.files.embeddings import read_arrays
from tfdml.files.shards import EmbeddingShards


def named_embeddings(path):
    """Returns embeddings `[N, d]` and a dictionary from name to row.

    Args:
        path: folder of `python -m tfdml.embed`, whose paths are the names; `.npz` file with `embeddings` and `names`;
            `.npz` or `.npy` file without names, where these are the numbers of rows, from 0.
    """
    if os.path.isdir(path):
        blocks = list(EmbeddingShards(path).blocks())
        if not blocks:
            raise ValueError(f"{path} has no embeddings.")
        names = [name for block in blocks for name in block.paths]
        return np.concatenate([block.embeddings for block in blocks]), _rows(path, names)
    if os.path.splitext(path)[1] not in (".npy", ".npz"):
        raise ValueError(f"{path}: with --pairs, expected a folder, or a file that ends in .npy or .npz.")
    found = read_arrays(path)
    embeddings = found.get("embeddings")
    if embeddings is None or embeddings.ndim != 2 or embeddings.dtype.kind not in "fiu" or not embeddings.size:
        raise ValueError(f"{path}: expected embeddings [N, d] of numbers.")
    names = found.get("names", np.arange(len(embeddings)))
    if names.shape != embeddings.shape[:1]:
        raise ValueError(f"{path}: expected names [N], one for each of {len(embeddings)}; received {names.shape}.")
    names = np.char.decode(names, "utf-8", "replace") if names.dtype.kind == "S" else names
    return embeddings, _rows(path, [str(name) for name in names.tolist()])


def _rows(path, names):
    rows = {name: row for row, name in enumerate(names)}
    if len(rows) < len(names):
        raise ValueError(f"{path}: {len(names) - len(rows)} of {len(names)} names come more than once.")
    return rows
