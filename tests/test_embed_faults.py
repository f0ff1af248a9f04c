"""Bulk embedding with faults: each ends right or with one clear line, and nothing half-written counts."""

import errno
import os

import numpy as np
import pytest

from tests.bulk_fixtures import OPTIONS, contents, models_load_once, write_photos  # noqa: F401
from tests.serving_fixtures import exported, loaded, picture
from tfdml.files import shards
from tfdml.files.checked import write_flushed
from tfdml.files.shards import EmbeddingJob
from tfdml.serving.bulk_embedding import embed_images
from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import model_hash
from tfdml.serving.image_list import ImageList

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return ImageList.of(write_photos(tmp_path_factory.mktemp("photos")) / "photos.csv")


@pytest.fixture(scope="module")
def embedded(images, tmp_path_factory):
    out = tmp_path_factory.mktemp("embedded") / "out"
    embed_images(out, images, model=exported(), **OPTIONS)
    return out


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


def test_a_full_disk_names_the_file(tmp_path):
    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left on device: '.*/note.json'"):
        write_flushed(tmp_path / "note.json", full)


def test_no_readable_image_is_an_error(images, tmp_path):
    with pytest.raises(ValueError, match="No image can be read, first .*00.png: .* holds no embedding; remove it"):
        embed_images(tmp_path, images.part(range(1)), model=exported(), **OPTIONS)


def test_what_a_kill_at_the_start_leaves_is_no_other_folder(images, embedded, tmp_path):
    for name in (".lock", ".writing-unfinished.json"):
        (tmp_path / name).touch()
    embed_images(tmp_path, images, model=exported(), **OPTIONS)
    assert contents(tmp_path) == contents(embedded)
