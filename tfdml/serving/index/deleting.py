"""Deletes images from indexes: at once from what a search finds, and from the disk when the index is compacted."""

import os
from pathlib import Path

import numpy as np

from tfdml.files.checked import locked, naming
from tfdml.files.shards import EmbeddingShards
from tfdml.serving.index.index_build import GONE, build, index_of_kind
from tfdml.serving.index.index_folder import IndexFolder


def delete_images(out, paths, compact=True):
    """Deletes images from an index; returns how many were deleted, and how many are left.

    If the index has none of them, nothing is left to do: a command that was killed at its end may be repeated.

    Args:
        out: folder of the index.
        paths: list of paths, as the index has them or relative to the working folder.
        compact: whether they are erased from all files, which builds the index anew. Otherwise they are marked, and
            erased when a fifth of the rows is.
    """
    folder = IndexFolder(out)
    folder.manifest()
    with naming(folder.path), locked(folder.path, "index"):
        earlier = finish_deletion(folder)
        rows = folder.read_rows(folder.manifest())
        present = _present(folder, rows, compact)
        there = present | earlier
        names = {_name_of(path, out, there) for path in paths}
        unknown = sorted(names - there)
        if len(unknown) == len(names):
            return 0, len(present)
        if unknown:
            raise ValueError(f"{unknown[0]} is not in the index {out}, and nothing is deleted.")
        _delete(folder, rows, names & present, present, compact)
        return len(names), len(present - names)


def delete_ids(folder, ids, compact=False):
    """Deletes images from an index by their ids; a ValueError if it has no image with one of them.

    Args:
        folder: `IndexFolder`.
        ids: set of integers.
        compact: see `delete_images`.
    """
    with naming(folder.path), locked(folder.path, "index"):
        finish_deletion(folder)
        rows = folder.read_rows(folder.manifest())
        live = rows.selected()
        unknown = sorted(ids - set(rows.ids[live].tolist()))
        if unknown:
            raise ValueError(f"{unknown[0]} is not in the index {folder.path}, and nothing is deleted.")
        chosen = np.flatnonzero(live & np.isin(rows.ids, list(ids)))
        _delete(folder, rows, {rows.paths[row] for row in chosen}, _present(folder, rows, compact), compact)


def compact_index(out):
    """Erases images that are marked as deleted from all files of an index; returns how many images it has.

    Args:
        out: folder of the index.
    """
    folder = IndexFolder(out)
    folder.manifest()
    with naming(folder.path), locked(folder.path, "index"):
        finish_deletion(folder)
        if folder.read_rows(folder.manifest()).deleted.any():
            _erase(folder, set())
        return folder.size()


def finish_deletion(folder):
    """Erases the images whose erasure has begun, as far as that is not done; returns their names.

    Args:
        folder: `IndexFolder`.
    """
    names = folder.begun_deletion() if folder.exists() else set()
    if names:
        _erase(folder, names)
        folder.end_deletion()
    return names


def _present(folder, rows, compact):
    """Returns the set of the paths of all images; where files are read anyway, also of those that are only embedded."""
    there = {rows.paths[row] for row in np.flatnonzero(~rows.deleted)}
    if not compact:
        return there
    return there | EmbeddingShards(folder.embeddings).paths(without=rows.deleted_ids)


def _delete(folder, rows, names, present, compact):
    left = len(present - names)
    if not left:
        raise ValueError(f"These are all images of the index {folder.path}; remove the folder instead.")
    if not names:
        return
    if compact:
        _check_size(folder.manifest()["spec"], left)
        folder.begin_deletion(names)
        finish_deletion(folder)
        return
    deleted = _mark(folder, rows, names)
    for file in _files(folder, names):
        file.unlink(missing_ok=True)
    if np.mean(deleted) >= GONE and _is_enough(folder.manifest()["spec"], left):
        _erase(folder, set())


def _mark(folder, rows, names):
    """Marks the rows with these paths as deleted, and returns the mask `[N]` of all that are."""
    deleted = rows.deleted | np.array([path in names for path in rows.paths])
    if (deleted != rows.deleted).any():
        folder.mark_deleted(deleted)
    return deleted


def _erase(folder, names):
    """Builds the index anew without the rows that are deleted, and those with these paths, and removes their files."""
    manifest, shards = folder.manifest(), EmbeddingShards(folder.embeddings)
    files = _files(folder, names)
    rows = folder.read_rows(manifest)
    deleted = _mark(folder, rows, names)
    # Also those that are embedded and not yet in the index.
    gone = {
        id
        for block in shards.blocks()
        for id, path in zip(block.ids.tolist(), block.paths, strict=True)
        if path in names
    }
    shards.remove(gone | set(rows.ids[deleted].tolist()))
    build(folder, shards, manifest["spec"], manifest["metric"], anew=True)
    for file in files:
        file.unlink(missing_ok=True)


def _files(folder, names):
    """Returns the files in the index of these images: those of a dataset in memory."""
    return [Path(folder.file_of(name)) for name in names if not os.path.isabs(name) and os.sep in name]


def _check_size(spec, count):
    """Raises a ValueError if there is no index of this kind for so few images."""
    try:
        index_of_kind(spec).of_size(count)
    except ValueError as error:
        raise ValueError(f"{count} images would be left, and nothing is deleted: {error}") from None


def _is_enough(spec, count):
    try:
        _check_size(spec, count)
    except ValueError:
        return False
    return True


def _name_of(path, out, there):
    """Returns the name in the index of an image with this path."""
    names = (str(path), os.path.relpath(path, out), os.path.abspath(path))
    return next((name for name in names if name in there), names[-1])
