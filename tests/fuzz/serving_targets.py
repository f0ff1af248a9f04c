"""Indexes, embeddings on disk, and tables of images."""

import numpy as np

from tests.fuzz import damage
from tests.fuzz.target import ARRAY, JSON, LINES, TABLE, ZIP, Target
from tests.serving_fixtures import exported, picture


def _make_index(folder):
    from tfdml.serving.image_list import ImageList
    from tfdml.serving.index.attributes import attributes_of
    from tfdml.serving.index.build import delete_images, index_images

    contents = np.array([picture(seed) for seed in range(6)], dtype=object)
    images = ImageList([f"images/{row}.png" for row in range(6)], ["a", "b"] * 3, contents)
    attributes = attributes_of({"price": [1, 2, None, 4, 5, 6], "kind": ["a", "b"] * 3}, images.paths)
    index_images(folder / "index", images, model=exported(), shard_rows=4, attributes=attributes)
    delete_images(folder / "index", ["images/5.png"], compact=False)


def _read_index(folder):
    from tfdml.serving import Searcher
    from tfdml.serving.index.labeling import duplicates

    searcher = Searcher(folder / "index", model=folder / "index" / "model")
    found = searcher.search_vectors(np.eye(4, searcher.manifest["dimension"], dtype=np.float32), 3)
    rows = searcher.store.rows
    # One that was changed on purpose may have other columns.
    where = "price < 5 and kind == 'a'" if {"price", "kind"} <= rows.kinds.keys() else "label == 'a'"
    mask = rows.selected(where).tolist()
    return found, mask, rows.ids.tolist(), rows.labels, list(duplicates(searcher, 0.5))


def _make_shards(folder):
    from tfdml.files.shards import EmbeddingShards

    shards, random = EmbeddingShards.create(folder / "shards", model="0" * 64, dimension=4), np.random.default_rng(0)
    for number in range(2):
        paths = [f"{number}-{row}.png" for row in range(5)]
        shards.append(paths, ["x", "y", "x", "y", "x"], random.normal(size=(5, 4)), {"bad.png": "is no image"})


def _evaluated(file, **options):
    from tfdml.evaluation import evaluate
    from tfdml.files.embeddings import EmbeddingFiles

    found = EmbeddingFiles.read(file, **options)
    return evaluate(found.embeddings, found.labels), found.class_names


def _make_embeddings(folder):
    import pyarrow
    import pyarrow.parquet

    embeddings = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    labels = np.array(["x", "y"] * 4)
    np.savez(folder / "all.npz", embeddings=embeddings, labels=labels, cameras=np.arange(8))
    np.save(folder / "embeddings.npy", embeddings)
    np.save(folder / "labels.npy", labels)
    columns = {"embeddings": list(embeddings), "labels": labels, "is_query": [True, False] * 4}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "all.parquet")


def _read_embeddings(folder):
    several = [_evaluated(folder / name) for name in ("all.npz", "all.parquet")]
    return [*several, _evaluated(folder / "embeddings.npy", labels_path=folder / "labels.npy")]


def _make_tables(folder):
    import pyarrow
    import pyarrow.parquet

    paths, labels = [f"{number}.png" for number in range(4)], ["x", "y", None, "x"]
    pyarrow.parquet.write_table(pyarrow.table({"path": paths, "label": labels}), folder / "table.parquet")
    (folder / "table.csv").write_text("path,label\n" + "".join(f"{path},x\n" for path in paths))


def _read_tables(folder):
    from tfdml.serving.image_list import read_image_table
    from tfdml.serving.index.attributes import read_attributes

    names = [folder / name for name in ("table.parquet", "table.csv")]
    return [read_image_table(name) for name in names], [read_attributes(name, ["0.png"]).to_pydict() for name in names]


TARGETS = {
    "index": Target(
        _make_index,
        _read_index,
        {"manifest.json": JSON, "*.parquet": TABLE, "*.faiss": damage.ANY, "*.bits": damage.ANY},
        ("images-*.parquet", "*.faiss", "*.bits"),
    ),
    "shards": Target(
        _make_shards,
        lambda folder: _evaluated(folder / "shards"),
        {"manifest.json": JSON, "*.parquet": TABLE},
        ("*.parquet",),
    ),
    "embeddings": Target(
        _make_embeddings,
        _read_embeddings,
        {"*.npz": ZIP, "*.npy": ARRAY, "*.parquet": TABLE},
        ("*.npz",),
        # Whole files of embeddings may not be enough for the metrics.
        named=False,
    ),
    "tables": Target(_make_tables, _read_tables, {"*.csv": LINES, "*.parquet": TABLE}),
}
