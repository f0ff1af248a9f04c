"""Embeds a list of images into shards."""

import errno
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pipelines.datasets import Split
from pipelines.reading.unreadable import why_unreadable
from tfdml.progress_bar import ProgressBar

# Files that are read at once.
READS = 8
# Errors of a file itself, or by `ImageList.read`, which has no number. Any other, such as that of a disk that is lost,
# may be gone when the command is repeated.
OF_A_FILE = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR}
OF_A_FILE |= {errno.ELOOP, errno.ENAMETOOLONG}


def embed_into(shards, images, model, *, on_read=None, shard_rows=4096, batch_size=64):
    """Embeds the images that are not in the shards yet; those that cannot be read are noted there.

    Args:
        shards: `EmbeddingShards` to add to.
        images: `ImageList`.
        model: `ExportedModel`.
        on_read: function that is called with the path and the contents of each image that could be read; or None.
        shard_rows: most rows in a shard.
        batch_size: images that the model processes at once.
    """
    there = shards.paths()
    rows = [row for row, path in enumerate(images.paths) if path not in there]
    bar = ProgressBar(len(images), "image", done=len(images) - len(rows))
    for start in range(0, len(rows), shard_rows):
        part = rows[start : start + shard_rows]
        kept, *found = embed_rows(images, part, model, on_read=on_read, batch_size=batch_size, on_batch=bar.add)
        shards.append(*[[column[row] for row in kept] for column in (images.paths, images.labels)], *found)


def embed_rows(images, rows, model, *, on_read=None, on_batch=None, batch_size=64):
    """Embeds some rows of a list; returns those that could be read, their embeddings, and path to reason of others.

    Args:
        images, model, on_read, batch_size: see `embed_into`.
        rows: list of rows.
        on_batch: function that is called with the number of images after each batch; or None.
    """
    kept, embeddings, bad = [], [np.zeros((0, model.dimension), np.float32)], {}
    for batch, contents, reasons in _read(images, rows, batch_size):
        found, valid = _embedded(model, contents)
        for place, row in enumerate(batch):
            path = images.paths[row]
            if not valid[place]:
                bad[path] = reasons[place] or _why(contents[place], found[place])
                continue
            kept.append(row)
            if on_read:
                on_read(path, contents[place])
        embeddings.append(found[valid])
        if on_batch:
            on_batch(len(batch))
    return kept, np.concatenate(embeddings), bad


def _embedded(model, contents):
    """Returns embeddings, and whether each is one. Files that could not be read are empty."""
    given = np.array([bool(each) for each in contents])
    embeddings, valid = np.zeros((len(contents), model.dimension), np.float32), np.zeros(len(contents), bool)
    if given.any():
        embeddings[given], valid[given] = model.embed_contents([each for each in contents if each])
    return embeddings, valid & np.isfinite(embeddings).all(axis=1)


def _read(images, rows, batch_size):
    """Yields batches of rows with the contents of their files, and why one cannot be read; reads one ahead."""

    def read(row):
        try:
            return images.read(row), None
        except OSError as error:
            if error.errno not in OF_A_FILE:
                told = f"{images.paths[row]} cannot be read now: {error.strerror}. Repeat the command to go on."
                raise OSError(told) from error
            return b"", error.strerror or str(error)

    with ThreadPoolExecutor(READS) as threads:
        ahead = None
        for batch in [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)] + [None]:
            submitted = batch and (batch, [threads.submit(read, row) for row in batch])
            if ahead:
                yield ahead[0], *zip(*[future.result() for future in ahead[1]], strict=True)
            ahead = submitted


def _why(contents, embedding):
    if not contents:
        return "the file is empty"
    split = Split(np.array([contents], dtype=object), np.zeros(1, np.int64))
    blamed = "the model cannot read it" if np.isfinite(embedding).all() else "its embedding is NaN or infinite"
    return why_unreadable(split, 0) or blamed
