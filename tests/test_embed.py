"""Bulk embedding: shards are what the model gives, go on after a kill, and are refused where they are not ours."""

import errno
import json
import os

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from pipelines.datasets import Split, packing
from pipelines.datasets.dataset import Dataset
from pipelines.datasets.packed_images import PackedImages
from tests.serving_fixtures import exported, exported_tolerant, loaded, picture
from tfdml import embedding_shards
from tfdml.checked_files import fingerprint
from tfdml.embedding_shards import EmbeddingShards
from tfdml.evaluation.embedding_files import EmbeddingFiles
from tfdml.serving import bulk_embedding, indexing
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.embedding_job import EmbeddingJob
from tfdml.serving.embedding_pass import embed_rows
from tfdml.serving.image_list import ImageList
from tfdml.serving.index_folder import IndexFolder
from tfdml.serving.indexing import index_embeddings, index_images
from tfdml.serving.model_files import model_hash

COUNT, BAD = 13, (0, 6)
OPTIONS = {"shard_rows": 5, "batch_size": 3}


@pytest.fixture(scope="module", autouse=True)
def models_load_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_embedding, "ExportedModel", lambda path: loaded(model_hash(path)))
        yield


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Thirteen photos, two of which cannot be read, and a table of them."""
    folder = tmp_path_factory.mktemp("photos")
    for number in range(COUNT):
        (folder / f"{number:02d}.png").write_bytes(b"no image" if number in BAD else picture(number))
    lines = [f"{folder}/{number:02d}.png,{'odd' if number % 2 else 'even'}\n" for number in range(COUNT)]
    (folder / "photos.csv").write_text("path,label\n" + "".join(lines))
    return folder


@pytest.fixture(scope="module")
def images(photos):
    return ImageList.of(photos / "photos.csv")


@pytest.fixture(scope="module")
def embedded(images, tmp_path_factory):
    out = tmp_path_factory.mktemp("embedded") / "out"
    embed_images(out, images, model=exported(), **OPTIONS)
    return out


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".lock"}


def test_rows_and_manifest(embedded, images):
    table = pyarrow.concat_tables(pyarrow.parquet.read_table(file) for file in sorted(embedded.glob("*.parquet")))
    kept = [row for row in range(COUNT) if row not in BAD]
    assert table.schema.field("embedding").type == pyarrow.list_(pyarrow.float32(), 16)
    assert table["id"].to_pylist() == kept
    assert table["path"].to_pylist() == [images.paths[row] for row in kept]
    assert table["label"].to_pylist() == ["odd" if row % 2 else "even" for row in kept]
    expected, _ = loaded(model_hash(exported())).embed_contents([picture(row) for row in kept])
    np.testing.assert_allclose(np.stack(table["embedding"].to_numpy(zero_copy_only=False)), expected, atol=1e-6)
    manifest = json.loads((embedded / "manifest.json").read_text())
    assert (manifest["model"], manifest["dimension"], manifest["count"]) == (model_hash(exported()), 16, len(kept))
    assert manifest["bad"].keys() == {images.paths[row] for row in BAD}
    assert all("not a JPEG, PNG or WebP" in reason for reason in manifest["bad"].values())
    assert [shard.pop("rows") for shard in manifest["shards"].values()] == [4, 4, 3]
    assert all(fingerprint(embedded / name) == about for name, about in manifest["shards"].items())


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
    with pytest.raises(ValueError, match="it has no manifest.json"):
        EmbeddingShards(tmp_path)
    assert read == images.paths[:10]
    shard = tmp_path / "shard-000001.parquet"
    shard.write_bytes(shard.read_bytes()[:-9])
    (tmp_path / ".writing-000002").mkdir()
    (tmp_path / ".writing-000002" / "shard-000002.parquet").write_bytes(b"half")
    (tmp_path / "shard-000002.parquet").write_bytes(b"without a note")
    read.clear()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert read == images.paths[5:] and contents(tmp_path) == contents(embedded)
    for damage in (lambda: shard.unlink(), lambda: shard.write_bytes(shard.read_bytes()[:-1] + b"x"), lambda: None):
        damage()
        whole = contents(tmp_path) == contents(embedded)
        read.clear()
        embed_images(tmp_path, images, model=exported(), **OPTIONS)
        assert read == ([] if whole else images.paths[5:10]) and contents(tmp_path) == contents(embedded)


def test_evaluation_reads_the_folder(embedded, images, tmp_path):
    found = EmbeddingFiles.read(str(embedded))
    assert found.class_names == {0: "even", 1: "odd"} and found.labels.tolist() == [
        row % 2 for row in range(COUNT) if row not in BAD
    ]
    shards = list(EmbeddingShards(embedded).blocks())
    np.testing.assert_array_equal(found.embeddings, np.concatenate([block.embeddings for block in shards]))
    (tmp_path / "manifest.json").write_bytes((embedded / "manifest.json").read_bytes())
    with pytest.raises(ValueError, match="shard-000000.parquet is missing"):
        EmbeddingFiles.read(str(tmp_path))


def test_a_full_disk_is_told_and_leaves_nothing_that_counts(images, embedded, tmp_path, monkeypatch):
    def full(path):
        if path.name.endswith("shard-000001.parquet"):
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(embedding_shards, "flush", full)
        with pytest.raises(OSError, match="Cannot write .*shard-000001.parquet: .*No space left.* Make room"):
            embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert not (tmp_path / "shard-000001.parquet").exists() and not (tmp_path / "manifest.json").exists()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)


def test_two_attempts_at_a_shard_do_not_disturb_each_other(images, embedded, tmp_path, monkeypatch):
    real, flushed = embedding_shards.flush, []

    def overtaken(path):
        flushed.append(path)
        real(path)
        if len(flushed) == 1:
            job.write(0, part, *found)

    monkeypatch.setattr(embedding_shards, "flush", overtaken)
    about = {"model": model_hash(exported()), "dimension": 16, "shard_rows": 5}
    job = EmbeddingJob.of(tmp_path, images, **about)
    job.begin(images)
    part = images.part(job.rows(0))
    found = embed_rows(part, range(5), loaded(model_hash(exported())), batch_size=3)
    job.write(0, part, *found)
    assert len(flushed) == 2 and not list(tmp_path.glob(".writing-*"))
    with pytest.raises(ValueError, match="shard-000001.parquet in .* is missing or damaged; repeat the command"):
        job.finish()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)


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
        with pytest.raises(OSError, match="07.png cannot be read now: Input/output error. Repeat the command"):
            embed_images(tmp_path, images, model=exported(), **OPTIONS)
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)


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


def test_no_readable_image_is_an_error(images, tmp_path):
    with pytest.raises(ValueError, match="No image can be read, first .*00.png: .* holds no embedding; remove it"):
        embed_images(tmp_path, images.part(range(1)), model=exported(), **OPTIONS)


def test_an_index_of_the_folder_takes_other_images_later(embedded, images, photos, tmp_path):
    out = tmp_path / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "ExportedModel", lambda path: loaded(model_hash(path)))
        with pytest.raises(ValueError, match="were not computed by the model"):
            index_embeddings(out, embedded, model=exported_tolerant())
        count, bad = index_embeddings(out, embedded, model=exported())
        assert (count, len(bad)) == (COUNT - len(BAD), len(BAD))
        (tmp_path / "new.png").write_bytes(picture(COUNT))
        assert index_images(out, ImageList([str(tmp_path / "new.png")], [None]), add=True)[0] == count + 1
    blocks = list(EmbeddingShards(out / "embeddings").blocks())
    for one, other in zip(EmbeddingShards(embedded).blocks(), blocks[:-1], strict=True):
        np.testing.assert_array_equal(one.embeddings, other.embeddings)
    ids, paths, _ = IndexFolder(out).read_images(IndexFolder(out).manifest())
    assert ids.tolist()[-2:] == [COUNT - 1, COUNT] and paths[-2:] == [images.paths[-1], str(tmp_path / "new.png")]


def test_other_folders_are_refused(photos, images, embedded, tmp_path, monkeypatch):
    other = ImageList([*images.paths[:-1], "/other.png"], images.labels)
    for given, options, words in (
        (images, {"model": exported_tolerant()}, "has embeddings by another model. Give a new folder"),
        (other, {"model": exported()}, "has embeddings of other images"),
        (images, {"model": exported(), "shard_rows": 4}, "--shard_rows was 5"),
    ):
        with pytest.raises(ValueError, match=words):
            embed_images(embedded, given, **{**OPTIONS, **options})
    with pytest.raises(ValueError, match="is not empty and holds no embeddings"):
        embed_images(photos, images, model=exported())
    with pytest.raises(ValueError, match="--out=gs://bucket/out is on no file system of this machine"):
        embed_images("gs://bucket/out", images, model=exported())
    with pytest.raises(ValueError, match="is a file; give a folder"):
        embed_images(photos / "00.png", images, model=exported())
    with pytest.raises(ValueError, match="is no SavedModel"):
        embed_images(tmp_path / "new", images, model=photos)
    assert not (tmp_path / "new").exists()


def test_a_name_that_is_not_utf8_is_told_before_an_image_is_embedded(tmp_path):
    (tmp_path / "b\udcff.png").write_bytes(b"image")
    for source in (tmp_path, tmp_path / "*.png"):
        with pytest.raises(ValueError, match=r"b\\xff.png' is not UTF-8. Rename the file."):
            ImageList.of(source)


def test_workers_of_beam_get_paths_that_are_absolute(images, tmp_path, monkeypatch):
    def engine(job, images, model, **_):
        for number in job.missing():
            part = images.part(job.rows(number))
            job.write(number, part, *embed_rows(part, range(len(part)), loaded(model_hash(model)), batch_size=3))
        given.extend([str(job.folder), model])

    given, model = [], exported()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bulk_embedding, "_engine", lambda: engine)
    embed_images("out", images.part(range(3)), model=os.path.relpath(model), shard_rows=5, beam=[])
    assert given == [str(tmp_path / "out"), str(model)]


def test_what_a_kill_at_the_start_leaves_is_no_other_folder(images, embedded, tmp_path):
    for name in (".lock", ".writing-unfinished.json"):
        (tmp_path / name).touch()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)


def test_patterns_list_a_file_once_and_only_themselves_are_patterns(tmp_path, monkeypatch):
    here = tmp_path / "[1]"
    (here / "a" / "b").mkdir(parents=True)
    files = [here / "a" / "2.jpg", here / "a" / "b" / "1.jpg"]
    for file in files:
        file.touch()
    monkeypatch.chdir(here)
    for pattern in ("**/**/*.jpg", "a/**/**/*.jpg", "../[[]1]/a/../**/**/*.jpg"):
        assert ImageList.of(pattern).paths == list(map(str, files))
    assert ImageList.of("a/**/*.jpg").labels == [None, "b"]


def test_lists_of_images(photos, embedded, tmp_path):
    found = ImageList.of(f"{photos.parent}/{photos.name}/1?.png")
    assert found.paths == [f"{photos}/{number}.png" for number in (10, 11, 12)] and found.labels == [None] * 3
    assert ImageList.of(f"{photos.parent}/{photos.name[:-1]}?/**/1?.png").labels == [photos.name] * 3
    # What was embedded is itself such a table.
    table = ImageList.of(embedded / "shard-000002.parquet")
    assert table.paths == found.paths and table.labels == ["even", "odd", "even"]
    pyarrow.parquet.write_table(pyarrow.table({"path": [1]}), tmp_path / "numbers.parquet")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    for name, text in {
        "none.csv": "file\na",
        "empty.csv": "path,label\n,x",
        "twice.csv": "path\na\na",
        "far.csv": "path\ngs://b/a",
    }.items():
        (tmp_path / name).write_text(text)
    for source, words in {
        f"{photos}/*.gif": "finds no images",
        tmp_path / "none.csv": "expected path",
        tmp_path / "empty.csv": "row 0 of the images has no path",
        tmp_path / "twice.csv": "lists an image twice",
        tmp_path / "far.csv": "far.csv: gs://b/a is on no file system",
        tmp_path / "numbers.parquet": "column path of texts, received type int64",
        tmp_path / "cut.parquet": "cannot be read",
    }.items():
        with pytest.raises(ValueError, match=words):
            ImageList.of(source)
