"""K-means of the shards of bulk embedding: what K-means finds in all of them, from a sample, one shard at a time."""

import numpy as np
import pyarrow.parquet
import pytest

from tests.commands import assert_one_error, ok, run
from tfdml.files.shards import EmbeddingShards
from tfdml.neighbors.clustering import kmeans
from tfdml.serving import embedding
from tfdml.serving.embedding import cluster_shards

COUNT, SHARD = 90, 20


@pytest.fixture(scope="module")
def points():
    random = np.random.default_rng(0)
    centers = random.normal(size=(3, 8))
    # Some are far away in the same direction: for cosine similarity they are near.
    lengths = random.uniform(1, 20, (COUNT, 1))
    return (lengths * (centers[np.arange(COUNT) % 3] + 0.1 * random.normal(size=(COUNT, 8)))).astype(np.float32)


@pytest.fixture(scope="module")
def embedded(points, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    shards = EmbeddingShards.create(folder, model="none", dimension=8)
    for start in range(0, COUNT, SHARD):
        part = points[start : start + SHARD]
        paths = [f"/{row}.jpg" for row in range(start, start + len(part))]
        shards.append(paths, [None] * len(part), part, {"/bad.jpg": "empty"})
    # Ids then have a gap.
    shards.remove({30})
    return folder


@pytest.fixture
def unit(points):
    kept = np.delete(points, 30, axis=0)
    return kept / np.linalg.norm(kept, axis=1, keepdims=True)


def test_the_clusters_of_all_embeddings_with_their_ids(embedded, points, unit, tmp_path):
    kept = [row for row in range(COUNT) if row != 30]
    for metric, given in (("cosine", unit), ("euclidean", points[kept])):
        sizes = cluster_shards(embedded, tmp_path / "found.parquet", clusters=3, metric=metric, seed=1)
        table = pyarrow.parquet.read_table(tmp_path / "found.parquet")
        assert table.column_names == ["id", "path", "cluster"] and table["id"].to_pylist() == kept
        assert table["path"].to_pylist() == [f"/{row}.jpg" for row in kept]
        expected, _ = kmeans(given, 3, seed=1)
        assert table["cluster"].to_pylist() == expected.tolist() and sizes.tolist() == np.bincount(expected).tolist()
    assert [file.name for file in tmp_path.iterdir()] == ["found.parquet"]


def test_centroids_of_a_sample_have_all_embeddings(embedded, unit, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "SAMPLE", 4)
    seen, real = [], embedding.kmeans
    monkeypatch.setattr(
        embedding, "kmeans", lambda rows, *more, **options: seen.append(rows) or real(rows, *more, **options)
    )
    sizes = cluster_shards(embedded, tmp_path / "found.parquet", clusters=3)
    (rows,) = seen
    assert rows.shape == (12, 8) and all(np.isclose(unit, row, atol=1e-6).all(axis=1).any() for row in rows)
    assert sizes.sum() == COUNT - 1


def test_a_damaged_shard_leaves_no_table(embedded, tmp_path):
    copy = EmbeddingShards(embedded).copy_to(tmp_path / "copy")
    shard = max(copy.folder.glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"{shard.name} is damaged"):
        cluster_shards(copy.folder, tmp_path / "found.parquet", clusters=3)
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.nightly
def test_the_command_and_its_errors(embedded, tmp_path):
    given, out = f"--embeddings={embedded}", f"--out={tmp_path}/found.parquet"
    done = ok("tfdml.cluster", given, out, "--clusters=3")
    assert (
        f"Clustered 89 images into 3 clusters of 29 to 30 images, and wrote them to {tmp_path}/found.parquet."
        in done.stdout
    )
    for flags, words in [
        ([given, out], "--clusters is missing"),
        ([given, "--clusters=3"], "--out is missing"),
        ([given, "--clusters=3", f"--out={tmp_path}/found.csv"], "must end in .parquet"),
        ([given, out, "--clusters=90"], "has only 89 different embeddings"),
        ([f"--embeddings={tmp_path}", out, "--clusters=3"], "because it has no manifest.json"),
    ]:
        assert_one_error(run("tfdml.cluster", *flags), words)
