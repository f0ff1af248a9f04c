"""Embeds image lists into shards and clusters the embeddings in a folder."""

import collections
import errno
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from pipelines.datasets import Split
from pipelines.images.decoding import why_costly
from pipelines.reading.unreadable import why_unreadable
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import flush, vacated
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.clustering import distinct_count, kmeans, nearest_centroids
from tfdml.neighbors.nearest import compared_vectors
from tfdml.runtime.backends import has_gpu

# Error codes that concern a single file. Errors that `ImageList.read` creates have the code None. Any other error, such
# as a lost disk, may be gone when the command is repeated.
OF_A_FILE = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR}
OF_A_FILE |= {errno.ELOOP, errno.ENAMETOOLONG}
# Number of files that are read at once, of model calls at once (while one decodes on one core, another can run the
# network), and of batches in progress.
READS, CALLS, BEGUN = 16, 2, 4
# Images per model call. Without a GPU, it is small: the activations of more images do not fit into the processor's
# caches, and their memory is mapped again in each call.
ON_GPU, ON_CPU = 64, 8


def embed_into(shards, images, model, *, there=None, on_read=None, shard_rows=4096, batch_size=None):
    """Embeds the images that are not in the shards yet, and notes there which images cannot be read.

    The paths in `there`, by default all paths in the shards, are not embedded again. `model` is an `AnyEmbedder` that
    accepts file contents. `on_read` is called with the path and the contents of each readable image. If `batch_size` is
    `None`, the model embeds 64 images at once on a GPU and 8 on a CPU.
    """
    there = shards.paths() if there is None else there
    rows = [row for row, path in enumerate(images.paths) if path not in there]
    bar = ProgressBar(len(images), "image", done=len(images) - len(rows))
    for start in range(0, len(rows), shard_rows):
        part = rows[start : start + shard_rows]
        kept, *found = embed_rows(images, part, model, on_read=on_read, batch_size=batch_size, on_batch=bar.add)
        shards.append(*[[column[row] for row in kept] for column in (images.paths, images.labels)], *found)


def embed_rows(images, rows, model, *, on_read=None, on_bad=None, on_batch=None, batch_size=None):
    """Embeds some rows of a list. Returns the readable rows, their embeddings, and the reason per unreadable path.

    `on_bad` is called with the row and the reason of each unreadable image, and may raise. `on_batch` is called with
    the number of images after each batch. For the other arguments, see `embed_into`.
    """
    kept, embeddings, bad = [], [np.zeros((0, model.dimension), np.float32)], {}
    size = batch_size or (ON_GPU if has_gpu() else ON_CPU)
    for batch, contents, reasons, found, valid in _batches(images, rows, model, size):
        for place, row in enumerate(batch):
            path = images.paths[row]
            if not valid[place]:
                bad[path] = reasons[place] or _why(contents[place], found[place])
                if on_bad:
                    on_bad(row, bad[path])
                continue
            kept.append(row)
            if on_read:
                on_read(path, contents[place])
        embeddings.append(found[valid])
        if on_batch:
            on_batch(len(batch))
    return kept, np.concatenate(embeddings), bad


def _batches(images, rows, model, size):
    """Yields batches of rows in order, with file contents, reasons of failed reads, and the result of `_embedded`."""

    def embedded(batch, reads):
        contents, reasons = zip(*reads, strict=True)
        return batch, contents, reasons, *_embedded(model, contents)

    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    if len(batches) == 1:
        # A single batch is usually a query. Starting threads would take about as long as embedding it.
        yield embedded(rows, [_read(images, row) for row in rows])
        return
    with ThreadPoolExecutor(READS) as readers, ThreadPoolExecutor(CALLS) as callers:
        begun = collections.deque()
        for batch in batches:
            reads = [readers.submit(_read, images, row) for row in batch]
            begun.append(callers.submit(embedded, batch, map(Future.result, reads)))
            if len(begun) == BEGUN:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _read(images, row):
    """Returns a file's contents, or empty bytes and the reason if it cannot be read."""
    try:
        return images.read(row), None
    except OSError as error:
        if error.errno not in OF_A_FILE:
            message = (
                f"{images.paths[row]} cannot be read at the moment: {error.strerror}. Repeat the command to continue."
            )
            raise OSError(message) from error
        return b"", error.strerror or str(error)


def _embedded(model, contents):
    """Returns embeddings and whether each is valid. Files that could not be read have empty contents."""
    readable = np.array([bool(each) for each in contents])
    embeddings, valid = np.zeros((len(contents), model.dimension), np.float32), np.zeros(len(contents), bool)
    if readable.any():
        embeddings[readable], valid[readable] = model.embed_readable([each for each in contents if each])
    return embeddings, valid & np.isfinite(embeddings).all(axis=1)


def _why(contents, embedding):
    if not contents:
        return "the file is empty"
    if costly := why_costly(contents):
        return f"the image {costly}"
    split = Split(np.array([contents], dtype=object), np.zeros(1, np.int64))
    blamed = "the model cannot read it" if np.isfinite(embedding).all() else "its embedding is NaN or infinite"
    return why_unreadable(split, 0) or blamed


# Embeddings per cluster in the sample from which centroids are computed.
SAMPLE = 256


def cluster_shards(source, out, *, clusters, metric="cosine", seed=0):
    """Clusters the embeddings in a folder and writes a Parquet table with the columns id, path and cluster.

    K-means computes the centroids from a sample of 256 embeddings per cluster, or from all embeddings if there are
    fewer. The shards are then read one at a time, so memory grows with the number of clusters and not with the number
    of images.

    `source` is a folder that `python -m tfdml.embed` has written. With the metric `cosine`, L2-normalized embeddings
    are clustered. `seed` determines the sample and the initial centroids. Returns the number of images per cluster.
    """
    # Imported here because pyarrow is slow to load.
    import pyarrow
    import pyarrow.parquet

    out = Path(out)
    if out.suffix != ".parquet" or not out.parent.is_dir():
        raise ValueError(f"--out={out} must end in .parquet and be in an existing folder.")
    shards = EmbeddingShards(source)
    centroids = _centroids(shards, clusters, metric, seed)
    sizes = np.zeros(clusters, np.int64)
    bar = ProgressBar(len(shards), "embedding")
    schema = pyarrow.schema({"id": pyarrow.int64(), "path": pyarrow.string(), "cluster": pyarrow.int64()})
    unfinished = vacated(out.with_name(f".writing-{out.name}"))
    with pyarrow.parquet.ParquetWriter(unfinished, schema) as file:
        for block in shards.blocks():
            nearest = nearest_centroids(compared_vectors(block.embeddings, metric), centroids)
            np.add.at(sizes, nearest, 1)
            columns = {"id": block.ids, "path": block.paths, "cluster": nearest}
            file.write_table(pyarrow.table(columns, schema=schema))
            bar.add(len(nearest))
    flush(unfinished)
    unfinished.rename(out)
    return sizes


def _centroids(shards, clusters, metric, seed):
    count = min(SAMPLE * clusters, len(shards))
    drawn = np.random.default_rng(seed).choice(len(shards), count, replace=False)
    rows = shards.rows(np.sort(drawn)) if count else np.zeros((0, shards.dimension), np.float32)
    points = compared_vectors(rows, metric)
    distinct = distinct_count(points)
    if distinct < clusters:
        raise ValueError(
            f"--clusters={clusters} is too large. {shards.folder} has only {distinct} different embeddings. Use "
            f"--clusters={distinct} or less."
        )
    return kmeans(points, clusters, seed=seed)[1]
