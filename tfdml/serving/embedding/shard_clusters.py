"""Clusters the embeddings of a folder."""

from pathlib import Path

import numpy as np

from tfdml.console.progress_bar import ProgressBar
from tfdml.files.checked import flush, vacated
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.clustering import distinct_count, kmeans, nearest_centroids
from tfdml.serving.index.index_build import compared_vectors

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
