"""Embeds a list of images into shards, and clusters the embeddings of a folder."""

import collections
import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

from pipelines.datasets import Split
from pipelines.images.decoding import why_costly
from pipelines.reading.unreadable import why_unreadable
from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import flush, vacated
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.clustering import distinct_count, kmeans, nearest_centroids
from tfdml.neighbors.nearest import compared_vectors

# Error codes that say something about one file; errors that `ImageList.read` makes have the code None. Any other, such
# as the error of a lost disk, may be gone when the command is repeated.
OF_A_FILE = {None, errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR}
OF_A_FILE |= {errno.ELOOP, errno.ENAMETOOLONG}
# Files that are read at once; calls of the model at once, since one decodes, on one core, while the network of another
# runs; and batches that are begun.
READS, CALLS, BEGUN = 16, 2, 4
# Images that a model embeds at once. Without a GPU few: the activations of more do not fit into the processor's caches,
# and the memory for them is mapped anew in each call.
ON_GPU, ON_CPU = 64, 8


def embed_into(shards, images, model, *, there=None, on_read=None, shard_rows=4096, batch_size=None):
    """Embeds the images that are not in the shards yet; those that cannot be read are noted there.

    Args:
        shards: `EmbeddingShards` to add to.
        images: `ImageList`.
        model: an embedder that takes contents of files, see `tfdml.serving.embedders.AnyEmbedder`.
        there: set of paths that are not embedded again; None: all in the shards.
        on_read: function that is called with the path and the contents of each image that could be read; or None.
        shard_rows: most rows in a shard.
        batch_size: images that the model embeds at once. Default: 64 on a GPU, 8 without.
    """
    there = shards.paths() if there is None else there
    rows = [row for row, path in enumerate(images.paths) if path not in there]
    bar = ProgressBar(len(images), "image", done=len(images) - len(rows))
    for start in range(0, len(rows), shard_rows):
        part = rows[start : start + shard_rows]
        kept, *found = embed_rows(images, part, model, on_read=on_read, batch_size=batch_size, on_batch=bar.add)
        shards.append(*[[column[row] for row in kept] for column in (images.paths, images.labels)], *found)


def embed_rows(images, rows, model, *, on_read=None, on_batch=None, batch_size=None):
    """Embeds some rows of a list; returns those that could be read, their embeddings, and path to reason of others.

    Args:
        images, model, on_read, batch_size: see `embed_into`.
        rows: list of rows.
        on_batch: function that is called with the number of images after each batch; or None.
    """
    kept, embeddings, bad = [], [np.zeros((0, model.dimension), np.float32)], {}
    for batch, contents, reasons, found, valid in _batches(images, rows, model, batch_size or _usual_batch_size()):
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


def _batches(images, rows, model, size):
    """Yields batches of rows in order: with the contents of their files, why one cannot be read, and `_embedded`."""
    with ThreadPoolExecutor(READS) as readers, ThreadPoolExecutor(CALLS) as callers:

        def embedded(batch, reads):
            contents, reasons = zip(*[read.result() for read in reads], strict=True)
            return batch, contents, reasons, *_embedded(model, contents)

        begun = collections.deque()
        for batch in [rows[start : start + size] for start in range(0, len(rows), size)]:
            begun.append(callers.submit(embedded, batch, [readers.submit(_read, images, row) for row in batch]))
            if len(begun) == BEGUN:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def _read(images, row):
    """Returns the contents of a file, empty if it cannot be read, and why."""
    try:
        return images.read(row), None
    except OSError as error:
        if error.errno not in OF_A_FILE:
            message = f"{images.paths[row]} cannot be read now: {error.strerror}. Repeat the command to go on."
            raise OSError(message) from error
        return b"", error.strerror or str(error)


def _embedded(model, contents):
    """Returns embeddings, and whether each is one. Files that could not be read are empty."""
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


def _usual_batch_size():
    return ON_GPU if tf.config.list_physical_devices("GPU") else ON_CPU


# Rows of the sample that centroids are computed from, for each cluster.
SAMPLE = 256


def cluster_shards(source, out, *, clusters, metric="cosine", seed=0):
    """Writes a Parquet table with the columns id, path and cluster; returns the number of images in each cluster.

    K-means computes centroids from a sample of 256 embeddings for each cluster, or from all if there are fewer. Then
    shards are read one by one, so that memory grows with the number of clusters and not with that of images.

    Args:
        source: folder that `python -m tfdml.embed` has written.
        out: path of the table.
        clusters: number of clusters.
        metric: `cosine`, which clusters embeddings at unit length, or `euclidean`.
        seed: integer, determines the sample and the initial centroids.
    """
    out = Path(out)
    if out.suffix != ".parquet" or not out.parent.is_dir():
        raise ValueError(f"--out={out}: expected a file in a folder that exists, whose name ends in .parquet.")
    shards = EmbeddingShards(source)
    centroids = _centroids(shards, clusters, metric, seed)
    sizes = np.zeros(clusters, np.int64)
    bar = ProgressBar(len(shards), "embedding")

    def tables():
        # Imported here because it is slow to load.
        import pyarrow

        for block in shards.blocks():
            found = nearest_centroids(compared_vectors(block.embeddings, metric), centroids)
            np.add.at(sizes, found, 1)
            yield pyarrow.table(
                {"id": block.ids, "path": pyarrow.array(block.paths, pyarrow.string()), "cluster": found}
            )
            bar.add(len(found))

    _write(out, tables())
    return sizes


def _centroids(shards, clusters, metric, seed):
    count = min(SAMPLE * clusters, len(shards))
    drawn = np.random.default_rng(seed).choice(len(shards), count, replace=False)
    points = (
        compared_vectors(shards.rows(np.sort(drawn)), metric) if count else np.zeros((0, shards.dimension), np.float32)
    )
    distinct = distinct_count(points)
    if distinct < clusters:
        raise ValueError(f"--clusters={clusters}: {shards.folder} has only {distinct} embeddings that differ.")
    return kmeans(points, clusters, seed=seed)[1]


def _write(path, tables):
    """Writes a table, part by part, that is whole or not there."""
    import pyarrow.parquet

    temporary = vacated(path.with_name(f".writing-{path.name}"))
    first = next(tables)
    with pyarrow.parquet.ParquetWriter(temporary, first.schema) as file:
        file.write_table(first)
        for table in tables:
            file.write_table(table)
    flush(temporary)
    temporary.rename(path)
