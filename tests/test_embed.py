"""Bulk embedding: shards are what the model gives, go on after a kill, and are refused where they are not ours.

With faults each command ends right or with one clear line, and nothing half-written counts.
"""

import errno
import itertools
import json
import os
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from pipelines import packing
from pipelines.dataset import Dataset
from pipelines.datasets import Split
from pipelines.stored import PackedImages
from tests.bulk_fixtures import BAD, COUNT, OPTIONS, contents, models_load_once, write_photos  # noqa: F401
from tests.commands import Command
from tests.serving_fixtures import exported, exported_tolerant, loaded, picture
from tfdml.files import shards
from tfdml.files.checked import fingerprint
from tfdml.files.embeddings import EmbeddingFiles
from tfdml.files.shards import EmbeddingJob, EmbeddingShards
from tfdml.serving import bulk_embedding
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList
from tfdml.serving.index import build
from tfdml.serving.index.build import index_embeddings, index_images
from tfdml.serving.index.folder import IndexFolder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def images(photos):
    return ImageList.of(photos / "photos.csv")


@pytest.fixture(scope="module")
def embedded(images, tmp_path_factory):
    out = tmp_path_factory.mktemp("embedded") / "out"
    embed_images(out, images, model=exported(), **OPTIONS)
    return out


def test_rows_and_manifest(embedded, images):
    table = pyarrow.concat_tables(pyarrow.parquet.read_table(file) for file in sorted(embedded.glob("*.parquet")))
    kept = [row for row in range(COUNT) if row not in BAD]
    assert table.schema.field("embedding").type == pyarrow.list_(pyarrow.float32(), 16)
    assert table["id"].to_pylist() == kept
    assert table["path"].to_pylist() == [images.paths[row] for row in kept]
    assert table["label"].to_pylist() == ["odd" if row % 2 else "even" for row in kept]
    expected, _ = loaded(model_hash(exported())).embed_readable([picture(row) for row in kept])
    np.testing.assert_allclose(np.stack(table["embedding"].to_numpy(zero_copy_only=False)), expected, atol=1e-6)
    manifest = json.loads((embedded / "manifest.json").read_text())
    assert (manifest["model"], manifest["dimension"], manifest["count"]) == (model_hash(exported()), 16, len(kept))
    assert manifest["bad"].keys() == {images.paths[row] for row in BAD}
    assert all("not a JPEG, PNG or WebP" in reason for reason in manifest["bad"].values())
    assert [shard.pop("rows") for shard in manifest["shards"].values()] == [4, 4, 3]
    assert all(fingerprint(embedded / name) == about for name, about in manifest["shards"].items())


@pytest.mark.parametrize(("dtype", "step"), [("float16", 2**-11), ("int8", 1 / 254)])
def test_half_precision_and_bytes(dtype, step, images, embedded, tmp_path):
    embed_images(tmp_path / "out", images, model=exported(), dtype=dtype, **OPTIONS)
    expected, found = EmbeddingFiles.read(embedded), EmbeddingFiles.read(tmp_path / "out")
    largest = np.abs(expected.embeddings).max(axis=1, keepdims=True)
    errors = np.abs(found.embeddings - expected.embeddings)
    assert np.all(errors <= 1.01 * step * largest) and errors.any() and found.embeddings.dtype == np.float32
    table = pyarrow.parquet.read_table(tmp_path / "out" / "shard-000000.parquet")
    assert str(table.schema.field("embedding").type.value_type) == {"float16": "halffloat", "int8": "int8"}[dtype]
    if dtype == "int8":
        rows = np.stack(table["embedding"].to_numpy(zero_copy_only=False))
        assert (np.abs(rows).max(axis=1) == 127).all()
        np.testing.assert_allclose(rows * table["scale"].to_numpy()[:, None], found.embeddings[: len(rows)])
    # What is done is not done again, and another type needs another folder.
    before = contents(tmp_path / "out")
    embed_images(tmp_path / "out", images, model=exported(), dtype=dtype, **OPTIONS)
    assert contents(tmp_path / "out") == before
    with pytest.raises(ValueError, match=f"embeddings of another type .--dtype was {dtype}.. Use a new folder"):
        embed_images(tmp_path / "out", images, model=exported(), **OPTIONS)
    # An index keeps the type, and so do the rows that are left after a deletion.
    index_embeddings(tmp_path / "index", tmp_path / "out", model=exported())
    kept = EmbeddingShards(tmp_path / "index" / "embeddings")
    rows = kept.rows(np.arange(1, len(kept)))
    build.delete_images(tmp_path / "index", [images.paths[1]])
    kept = EmbeddingShards(tmp_path / "index" / "embeddings")
    assert kept.dtype == dtype
    np.testing.assert_allclose(kept.rows(np.arange(len(kept))), rows, rtol=1e-6)


def test_bytes_of_int8_and_numbers_beyond_half_precision(tmp_path):
    embeddings = np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32)
    embeddings[7] = 0
    sizes = {}
    for dtype in shards.DTYPES:
        row = shards.Shard(np.arange(2000), [""] * 2000, [None] * 2000, embeddings)
        shards.write_shard(tmp_path, 0, row, dtype)
        sizes[dtype] = (tmp_path / "shard-000000.parquet").stat().st_size / 2000
    assert sizes["float32"] > 256 and sizes["float16"] < 150 and sizes["int8"] < 90
    assert shards.stored_embeddings(embeddings, "int8")[0][7].tolist() == [0] * 64
    with pytest.raises(ValueError, match="contains 70000, but the largest number of float16 is 65,504. Use --dtype"):
        shards.stored_embeddings(np.full((1, 2), 7e4, np.float32), "float16")


def test_two_calls_of_the_model_overlap_and_rows_keep_their_order():
    """The first of two calls ends only after the second has ended."""
    met, second = threading.Barrier(2, timeout=60), threading.Event()

    class Model:
        dimension = 1

        def embed_readable(self, contents):
            first = int(contents[0]) % 4 == 0
            met.wait()
            second.wait(60) if first else second.set()
            met.wait()
            second.clear()
            return np.array([[float(each)] for each in contents], np.float32), np.ones(len(contents), bool)

    images = ImageList([f"{row}" for row in range(8)], [None] * 8, np.array([b"%d" % row for row in range(8)], object))
    kept, embeddings, bad = embed_rows(images, range(8), Model(), batch_size=2)
    assert kept == list(range(8)) and embeddings[:, 0].tolist() == kept and not bad


def test_an_interrupted_command_embeds_only_what_is_missing(images, embedded, tmp_path, monkeypatch):
    """Killed after a shard, with a truncated one and half a file; then of a complete folder one is lost."""
    read, real, write = [], ImageList.read, EmbeddingJob.write
    monkeypatch.setattr(ImageList, "read", lambda self, row: read.append(self.paths[row]) or real(self, row))

    def killed(self, number, *arguments):
        write(self, number, *arguments)
        if number == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddingJob, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            embed_images(tmp_path, images, model=exported(), **OPTIONS)
    with pytest.raises(ValueError, match="because it has no manifest.json"):
        EmbeddingShards(tmp_path)
    assert sorted(read) == images.paths[:10]
    shard = tmp_path / "shard-000001.parquet"
    shard.write_bytes(shard.read_bytes()[:-9])
    (tmp_path / ".writing-000002").mkdir()
    (tmp_path / ".writing-000002" / "shard-000002.parquet").write_bytes(b"half")
    (tmp_path / "shard-000002.parquet").write_bytes(b"without a note")
    read.clear()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert sorted(read) == images.paths[5:] and contents(tmp_path) == contents(embedded)
    for damage in (lambda: shard.unlink(), lambda: shard.write_bytes(shard.read_bytes()[:-1] + b"x"), lambda: None):
        damage()
        whole = contents(tmp_path) == contents(embedded)
        read.clear()
        embed_images(tmp_path, images, model=exported(), **OPTIONS)
        assert sorted(read) == ([] if whole else images.paths[5:10]) and contents(tmp_path) == contents(embedded)


def test_evaluation_reads_the_folder(embedded, images, tmp_path):
    found = EmbeddingFiles.read(str(embedded))
    assert found.class_names == {0: "even", 1: "odd"} and found.labels.tolist() == [
        row % 2 for row in range(COUNT) if row not in BAD
    ]
    shards = list(EmbeddingShards(embedded).blocks())
    np.testing.assert_array_equal(found.embeddings, np.concatenate([block.embeddings for block in shards]))
    assert isinstance(found.embeddings, np.memmap)
    (tmp_path / "manifest.json").write_bytes((embedded / "manifest.json").read_bytes())
    with pytest.raises(ValueError, match="shard-000000.parquet is missing"):
        EmbeddingFiles.read(str(tmp_path))


def test_records_of_a_packed_dataset_are_read_once(tmp_path, monkeypatch):
    pictures = np.array([picture(row) for row in range(4)], object)
    packing.pack(Dataset("pictures", None, Split(pictures, np.arange(4) // 2)), tmp_path / "packed", images=4)
    shard, read, real = tmp_path / "packed" / "test-00000.tar", [], PackedImages.read
    content = bytearray(shard.read_bytes())
    content[content.index(pictures[1]) + 50] ^= 1
    shard.write_bytes(content)
    monkeypatch.setattr(PackedImages, "read", lambda self, rows: read.extend(rows) or real(self, rows))
    images = ImageList.of("packed", data_dir=str(tmp_path / "packed"))
    shards = embed_images(tmp_path / "out", images, model=exported(), **OPTIONS)
    assert sorted(read) == [0, 1, 2, 3]
    (block,) = shards.blocks()
    assert block.paths == ["images/test-0000000", "images/test-0000002", "images/test-0000003"]
    assert block.labels == ["0", "1", "1"] and "is damaged at byte" in shards.bad["images/test-0000001"]
    shard.unlink()
    with pytest.raises(ValueError, match="test-00000.tar cannot be read"):
        embed_images(tmp_path / "lost", images, model=exported(), **OPTIONS)


def test_an_index_of_the_folder_takes_other_images_later(embedded, images, photos, tmp_path):
    out = tmp_path / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "ExportedModel", lambda path: loaded(model_hash(path)))
        with pytest.raises(ValueError, match="were not computed by the model"):
            index_embeddings(out, embedded, model=exported_tolerant())
        count, bad = index_embeddings(out, embedded, model=exported())
        assert (count, len(bad)) == (COUNT - len(BAD), len(BAD))
        (tmp_path / "new.png").write_bytes(picture(COUNT))
        assert index_images(out, ImageList([str(tmp_path / "new.png")], [None]), add=True)[0] == count + 1
    blocks = list(EmbeddingShards(out / "embeddings").blocks())
    for one, other in zip(EmbeddingShards(embedded).blocks(), blocks[:-1], strict=True):
        np.testing.assert_array_equal(one.embeddings, other.embeddings)
    rows = IndexFolder(out).read_rows(IndexFolder(out).manifest())
    assert rows.ids.tolist()[-2:] == [COUNT - 1, COUNT] and rows.paths[-1] == str(tmp_path / "new.png")
    assert rows.paths[-2] == images.paths[-1]


def test_other_folders_are_refused(photos, images, embedded, tmp_path, monkeypatch):
    other = ImageList([*images.paths[:-1], "/other.png"], images.labels)
    for given, options, words in (
        (images, {"model": exported_tolerant()}, "contains embeddings from another model. Use a new folder"),
        (other, {"model": exported()}, "contains embeddings of other images"),
        (images, {"model": exported(), "shard_rows": 4}, "--shard_rows was 5"),
    ):
        with pytest.raises(ValueError, match=words):
            embed_images(embedded, given, **{**OPTIONS, **options})
    with pytest.raises(ValueError, match="is not empty and contains no embeddings"):
        embed_images(photos, images, model=exported())
    with pytest.raises(ValueError, match="--out=gs://bucket/out is not on a file system of this machine"):
        embed_images("gs://bucket/out", images, model=exported())
    with pytest.raises(ValueError, match="is a file. Use a folder"):
        embed_images(photos / "00.png", images, model=exported())
    with pytest.raises(ValueError, match="is not a SavedModel"):
        embed_images(tmp_path / "new", images, model=photos)
    assert not (tmp_path / "new").exists()


def test_workers_of_beam_get_paths_that_are_absolute(images, tmp_path, monkeypatch):
    def engine(job, images, model, **_):
        for number in job.missing():
            part = images.part(job.rows(number))
            job.write(number, part, *embed_rows(part, range(len(part)), loaded(model_hash(model)), batch_size=3))
        given.extend([str(job.folder), model])

    given, model = [], exported()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bulk_embedding, "_engine", lambda runner: engine)
    embed_images("out", images.part(range(3)), model=os.path.relpath(model), shard_rows=5, runner="DirectRunner")
    assert given == [str(tmp_path / "out"), str(model)]


@pytest.mark.parametrize(
    ("runner", "package", "extra"), [("spark", "pyspark", "spark"), ("DirectRunner", "apache_beam", "beam")]
)
def test_a_runner_whose_package_is_missing_names_the_extra(images, tmp_path, monkeypatch, runner, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"tfdml.serving.{extra}", raising=False)
    words = rf"--runner={runner} needs Apache {extra.title()}: pip install 'tfdml\[{extra}\]'"
    with pytest.raises(ImportError, match=words):
        embed_images(tmp_path / "out", images, model=exported(), runner=runner)
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_a_broken_photo_takes_one_line_and_not_those_of_tensorflows_log(tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    whole = picture(0, kind="JPEG")
    for name, content in {"whole.jpg": whole, "cut.jpg": whole[: len(whole) // 2], "text.jpg": b"text"}.items():
        (photos / name).write_bytes(content)
    model = f"--model={exported_tolerant()}"
    # A process of its own, since TensorFlow reads the level of its log once.
    embedded = Command("tfdml.embed", model, f"--images={photos}", f"--out={tmp_path}/embedded").wait()
    indexed = Command("tfdml.index", model, f"--images={photos}", f"--out={tmp_path}/index").wait()
    searched = Command("tfdml.search", f"--index={tmp_path}/index", f"{photos}/cut.jpg").wait()
    assert (embedded.returncode, embedded.stderr) == (0, ""), embedded.stderr
    assert (indexed.returncode, indexed.stderr) == (0, ""), indexed.stderr
    assert (
        "Skipped 2 of 3 images that cannot be read" in indexed.stdout
        and "Skipped 2 of 3 images that cannot be read" in embedded.stdout
    )
    (line,) = searched.stderr.splitlines()
    assert searched.returncode == 1 and line.startswith(f"Error: {photos}/cut.jpg cannot be read")


@pytest.mark.slow
def test_a_full_disk_is_told_and_leaves_nothing_that_counts(images, embedded, tmp_path, monkeypatch):
    def full(path):
        if path.name.endswith("shard-000001.parquet"):
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shards, "flush", full)
        with pytest.raises(OSError, match="Cannot write .*shard-000001.parquet: .*No space left.* Make room"):
            embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert not (tmp_path / "shard-000001.parquet").exists() and not (tmp_path / "manifest.json").exists()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)


@pytest.mark.slow
def test_the_speed_is_that_of_the_batches_after_the_first(images, tmp_path, monkeypatch):
    """Batches of 3, 2, 3, 2 and 3 images, each of which takes two seconds."""
    seconds = itertools.count(step=2)
    monkeypatch.setattr(bulk_embedding, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    assert embed_images(tmp_path, images, model=exported(), **OPTIONS).images_per_second == 10 / 8
    (tmp_path / "speed.json").write_text('{"images_per_second": "fast"}')
    with pytest.raises(ValueError, match="speed.json is damaged: the entry images_per_second is missing or wrong"):
        _ = EmbeddingShards(tmp_path).images_per_second
    (tmp_path / "speed.json").unlink()
    assert EmbeddingShards(tmp_path).images_per_second is None


@pytest.mark.slow
def test_two_attempts_at_a_shard_do_not_disturb_each_other(images, embedded, tmp_path, monkeypatch):
    real, flushed = shards.flush, []

    def overtaken(path):
        flushed.append(path)
        real(path)
        if len(flushed) == 1:
            job.write(0, part, *found)

    monkeypatch.setattr(shards, "flush", overtaken)
    about = {"model": model_hash(exported()), "dimension": 16, "shard_rows": 5}
    job = EmbeddingJob.of(tmp_path, images, **about)
    job.begin(images)
    part = images.part(job.rows(0))
    found = embed_rows(part, range(5), loaded(model_hash(exported())), batch_size=3)
    job.write(0, part, *found)
    assert len(flushed) == 2 and not list(tmp_path.glob(".writing-*"))
    with pytest.raises(ValueError, match="shard-000001.parquet in .* is missing or damaged. Repeat the command"):
        job.finish()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)


@pytest.mark.slow
@pytest.mark.parametrize("number, is_bad", [(errno.EIO, False), (errno.EACCES, True)])
def test_a_disk_that_is_lost_makes_no_image_unreadable(images, embedded, tmp_path, monkeypatch, number, is_bad):
    real = ImageList.read

    def lost(self, row):
        if self.paths[row] == images.paths[7]:
            raise OSError(number, os.strerror(number), self.paths[row])
        return real(self, row)

    with monkeypatch.context() as patch:
        patch.setattr(ImageList, "read", lost)
        if is_bad:
            assert images.paths[7] in embed_images(tmp_path, images, model=exported(), **OPTIONS).bad
            return
        with pytest.raises(
            OSError, match="07.png cannot be read at the moment: Input/output error. Repeat the command"
        ):
            embed_images(tmp_path, images, model=exported(), **OPTIONS)
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)


def test_an_image_whose_embedding_is_nan_is_left_out():
    class Model:
        dimension = 1

        def embed_readable(self, contents):
            found = [np.nan if content == pictures[1] else 1.0 for content in contents]
            return np.array(found, np.float32)[:, None], np.ones(len(contents), bool)

    pictures = [picture(row) for row in range(3)]
    images = ImageList(["a", "b", "c"], [None] * 3, np.array(pictures, object))
    kept, embeddings, bad = embed_rows(images, range(3), Model(), batch_size=2)
    assert kept == [0, 2] and embeddings.tolist() == [[1], [1]]
    assert bad == {"b": "its embedding is NaN or infinite"}


@pytest.mark.slow
def test_no_readable_image_is_an_error(images, tmp_path):
    with pytest.raises(
        ValueError, match="None of the images can be read, for example .*00.png: .* contains no embeddings"
    ):
        embed_images(tmp_path, images.part(range(1)), model=exported(), **OPTIONS)


@pytest.mark.slow
def test_what_a_kill_at_the_start_leaves_is_no_other_folder(images, embedded, tmp_path):
    for name in (".lock", ".writing-unfinished.json"):
        (tmp_path / name).touch()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)
