"""Parquet files with images, and WebDataset tar files, are read as the same images in files are."""

import io
import json
import os
import re
import shlex
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.speed import archives as benchmark
from pipelines import archives
from pipelines.build import evaluation_batches
from pipelines.datasets import Split, load
from pipelines.preprocessor import Preprocessor
from pipelines.reading.cache import Cache
from pipelines.reading.unreadable import find_unreadable
from tests.commands import ROOT, ok
from tests.pipelines.image_files import png
from tests.run_helpers import MODEL_FLAGS
from tests.serving_fixtures import exported, picture
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.folder import IndexFolder

COUNT, PER_FILE, PER_GROUP, CLASSES = 40, 20, 6, 10
CONTENTS = [picture(seed) for seed in range(COUNT)]
NAMES = [f"class {number}" for number in range(CLASSES)]
LABELS = [number // 4 for number in range(COUNT)]
PREPARE = Preprocessor("warp", image_size=12, mean=(0, 0, 0), std=(1, 1, 1))


def write_parquet(path, contents, labels, *, bare=False, names=NAMES, **columns):
    images = contents if bare else [{"bytes": each, "path": "a.png"} for each in contents]
    table = pa.table({"picture": images, "label": labels, **columns})
    features = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    if names:
        table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table, path, row_group_size=PER_GROUP)


def write_tar(path, contents, labels, others=()):
    with tarfile.open(path, "w") as tar:
        members = [
            member
            for number, (content, label) in enumerate(zip(contents, labels, strict=True))
            for member in (
                (f"shop/{number:03d}.input.png", content),
                (f"shop/{number:03d}.cls", str(label).encode()),
                (f"shop/{number:03d}.json", json.dumps({"brand": {"name": NAMES[label]}}).encode()),
            )
        ]
        for name, content in [*members, *others]:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("archives")
    for first in range(0, COUNT, PER_FILE):
        part = slice(first, first + PER_FILE)
        write_parquet(root / f"train-{first:03d}.parquet", CONTENTS[part], LABELS[part])
        write_tar(root / f"train-{first:03d}.tar", CONTENTS[part], LABELS[part])
    return root


def specs(folder):
    return {
        "parquet": f"parquet(path='{folder}/train-*.parquet', test_classes=0.3)",
        "webdataset": f"webdataset(path='{folder}/train-*.tar', test_classes=0.3, label='json.brand.name')",
    }


@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
def test_images_and_classes_are_those_that_were_written(folder, kind):
    dataset = load(specs(folder)[kind])
    assert dataset.train.num_classes == 7 and dataset.test.num_classes == 3
    assert sorted(sum(dataset.classes().values(), [])) == sorted(NAMES)
    found = []
    for split in dataset.splits().values():
        assert split.encoded and len({tuple(row) for row in split.identities.tolist()}) == len(split)
        found += zip(split.images.tolist(), map(split.class_name, split.labels.tolist()), strict=True)
    assert sorted(found) == sorted(zip(CONTENTS, [NAMES[label] for label in LABELS], strict=True))


@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
def test_batches_are_the_same_bits_as_from_files(folder, tmp_path, kind):
    split = load(specs(folder)[kind]).train
    paths = []
    for number, content in enumerate(split.images.tolist()):
        paths.append(str(tmp_path / f"{number}.png"))
        Path(paths[-1]).write_bytes(content)
    order = np.random.default_rng(0).permutation(len(split))
    files = Split(np.array(paths, object), split.labels)
    read, other = (
        np.concatenate(list(evaluation_batches(each.where(order), PREPARE, batch_size=5))) for each in (split, files)
    )
    np.testing.assert_array_equal(read, other)


def test_one_file_or_a_separate_test_or_plain_bytes(folder, tmp_path):
    write_parquet(
        tmp_path / "plain.parquet", CONTENTS[:20], [f"{label}" for label in LABELS[:20]], bare=True, names=None
    )
    dataset = load(f"parquet(path='{tmp_path}/plain.parquet', test='{folder}/train-020.parquet')")
    assert dataset.classes() == {"train": ["0", "1", "2", "3", "4"], "test": NAMES[5:]}
    assert dataset.train.images[7] == CONTENTS[7] and dataset.test.images[7] == CONTENTS[27]
    numbers = load(f"webdataset(path='{folder}/train-000.tar', test_classes=1)", test_only=True)
    assert numbers.classes() == {"test": ["0", "1", "2", "3", "4"]}


def test_files_of_macos_are_no_samples(tmp_path):
    write_tar(tmp_path / "a.tar", CONTENTS[:4], (0, 0, 1, 1), [("shop/._000.input.png", b"Mac OS X")])
    dataset = load(f"webdataset(path='{tmp_path}/a.tar', test_classes=1)", test_only=True)
    assert dataset.test.images.tolist() == CONTENTS[:4] == ImageList.of(f"{tmp_path}/a.tar").contents.tolist()


@pytest.fixture
def groups_read(monkeypatch):
    found, real = [], archives.RowGroups._read
    monkeypatch.setattr(archives.RowGroups, "_read", lambda self, *place: found.append(place) or real(self, *place))
    return found


def test_each_group_of_rows_is_decompressed_once_in_order(folder, groups_read, monkeypatch):
    monkeypatch.setattr(archives, "KEPT", 1)
    images = load(f"parquet(path='{folder}/train-*.parquet', test_classes=1)", test_only=True).test.images
    assert [images[row] for row in range(COUNT)] == CONTENTS
    assert groups_read == [(file, group) for file in range(2) for group in range(4)]
    groups_read.clear()
    rows = np.random.default_rng(0).permutation(COUNT)
    assert images[rows].tolist() == [CONTENTS[row] for row in rows] and len(groups_read) == 8


def test_the_bytes_of_parquet_files_can_be_cached(folder, tmp_path, groups_read, monkeypatch):
    """In a cache, later epochs decompress nothing."""
    split = load(f"parquet(path='{folder}/train-*.parquet', test_classes=1)", test_only=True).test
    read, _ = Cache("bytes", memory=2**30, folder=tmp_path).through(split, PREPARE)
    groups_read.clear()
    monkeypatch.setattr(archives, "KEPT", 1)
    assert [read(row).numpy() for row in (3, 39, 0)] == [CONTENTS[row] for row in (3, 39, 0)] and not groups_read
    tar = load(f"webdataset(path='{folder}/train-*.tar', test_classes=1)", test_only=True).test
    assert Cache("bytes", memory=2**30, folder=tmp_path).through(tar, PREPARE) == (None, PREPARE)


@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
def test_a_cache_is_not_of_an_earlier_file_of_the_same_size(kind, tmp_path):
    """An interrupted indexing continues with the same list of images."""
    found, digests = [], []
    for seconds, pixel in ((1, 7), (2, 200)):
        # Different pixels, but as many bytes.
        contents = [png(bytes([0, pixel, pixel, pixel]), 1, 1)] * 4
        spec = (parquet_of if kind == "parquet" else tar_of)(tmp_path, contents=contents)
        (file,) = tmp_path.glob("a.*")
        os.utime(file, (seconds, seconds))
        split = load(spec.replace("0.5", "1"), test_only=True).test
        read, _ = Cache("pixels", memory=0, folder=tmp_path / "cache").through(split, PREPARE)
        found.append((file.stat().st_size, read(0).numpy()))
        digests.append(ImageList.of(str(file)).digest())
    assert found[0][0] == found[1][0] and found[0][1] != found[1][1] and digests[0] == digests[1]


def parquet_of(path, contents=CONTENTS[:4], labels=(0, 0, 1, 1), **options):
    write_parquet(path / "a.parquet", contents, list(labels), **options)
    return f"parquet(path='{path}/a.parquet', test_classes=0.5)"


def two_image_columns(path):
    return parquet_of(path, mask=CONTENTS[:4])


def no_image_column(path):
    pq.write_table(pa.table({"label": [1, 2], "link": ["a", "b"]}), path / "a.parquet")
    return f"parquet(path='{path}/a.parquet', test_classes=0.5)"


def not_that_column(path):
    return parquet_of(path).replace("test_classes", "image='label', test_classes")


def no_label_column(path):
    return parquet_of(path).replace("test_classes", "label='make', test_classes")


def a_label_is_missing(path):
    return parquet_of(path, labels=(0, None, 1, 1))


def unknown_label(path):
    return parquet_of(path, labels=(0, 1, -1, 1))


def float_labels(path):
    return parquet_of(path, labels=(0.5, 0.5, 1.0, 1.0), names=None)


def damaged_parquet(path):
    spec = parquet_of(path)
    (path / "a.parquet").write_bytes((path / "a.parquet").read_bytes()[:-20])
    return spec


def tar_of(path, *others, contents=CONTENTS[:4]):
    write_tar(path / "a.tar", contents, (0, 0, 1, 1), others)
    return f"webdataset(path='{path}/a.tar', test_classes=0.5)"


def sample_without_label(path):
    return tar_of(path, ("shop/9.png", CONTENTS[9]), ("shop/9.txt", b"red"))


def no_such_value(path):
    return tar_of(path).replace("test_classes", "label='json.brand.color', test_classes")


def compressed_tar(path):
    spec = tar_of(path)
    with tarfile.open(path / "b.tar", "w:gz") as tar:
        tar.add(path / "a.tar", "0.png")
    return spec.replace("a.tar", "b.tar")


def truncated_tar(path):
    spec = tar_of(path)
    (path / "a.tar").write_bytes((path / "a.tar").read_bytes()[:3000])
    return spec


def no_images(path):
    with tarfile.open(path / "a.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("0.txt"), io.BytesIO())
    return f"webdataset(path='{path}/a.tar', test_classes=0.5)"


def truncated_between_members(path):
    spec = tar_of(path)
    with tarfile.open(path / "a.tar") as tar:
        end = tar.getmembers()[5].offset
    (path / "a.tar").write_bytes((path / "a.tar").read_bytes()[:end])
    return spec


def gzip_file(path):
    (path / "a.tar.gz").write_bytes(b"compressed")
    return f"webdataset(path='{path}/a.tar.gz', test_classes=0.5)"


def no_rows(path):
    spec = parquet_of(path)
    pq.write_table(pq.read_table(path / "a.parquet").slice(0, 0), path / "a.parquet")
    return spec


CONTAINS = "with the contents of image files: bytes, or structs with the field bytes. Received: "
WRONG = {
    two_image_columns: f"one column {CONTAINS}picture .struct.*, mask .binary.. Use parquet.path=..., image='picture'.",
    no_image_column: f"one column {CONTAINS}label .int64., link .string..$",
    not_that_column: f"the column 'label' {CONTAINS}.*label .int64.. Use parquet.path=..., image='picture'.",
    no_label_column: "has no column 'make'. Received: picture, label. Set label to one of them",
    a_label_is_missing: "row 1: label must be a text or an integer. Received: None",
    unknown_label: "row 2: label must be a text or an integer. Received: None",
    float_labels: "row 0: label must be a text or an integer. Received: 0.5",
    damaged_parquet: "a.parquet cannot be read: it is not a Parquet file, or it is truncated",
    sample_without_label: "a.tar: the sample with shop/9.png has no label 'cls'. Received: shop/9.png, shop/9.txt. Set",
    no_such_value: r"the sample with shop/000.input.png has no label 'json.brand.color'",
    compressed_tar: "b.tar cannot be read as an uncompressed tar file",
    truncated_between_members: "a.tar cannot be read as an uncompressed tar file .unexpected end of data",
    gzip_file: "a.tar.gz is compressed. Expected .tar files. Decompress it",
    no_rows: "a.parquet contains no images. Expected at least one row",
    truncated_tar: "a.tar cannot be read as an uncompressed tar file .unexpected end of data",
    no_images: "a.tar contains no images. Expected names that end in .jpg",
    lambda path: f"webdataset(path='{path}/b-*.tar', test_classes=0.5)": "does not exist or contains no archives",
    lambda path: f"webdataset(path='{path}/a.tar')": "needs either test, .* or test_classes.* Received: neither",
    lambda path: "webdataset(path='gs://a/b.tar', test_classes=0.5)": "is not on a file system of this machine",
}


@pytest.mark.parametrize("make", WRONG, ids=lambda make: make.__name__)
def test_wrong_archives_are_explained(tmp_path, make):
    with pytest.raises((ValueError, FileNotFoundError), match=WRONG[make]) as error:
        load(make(tmp_path))
    assert "\n" not in str(error.value)


def test_large_groups_of_rows_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_OF_GROUP", 100)
    with pytest.raises(
        ValueError, match=r"of images in one group of rows.* smaller groups, such as row_group_size=100"
    ):
        load(parquet_of(tmp_path))


def test_a_row_without_an_image_is_named_and_skipped_when_embedding(tmp_path):
    contents = [*CONTENTS[:2], None, b"no image", *CONTENTS[4:6]]
    load(parquet_of(tmp_path, contents, (0, 0, 1, 1, 2, 2)))
    images = ImageList.of(f"{tmp_path}/a.parquet")
    with pytest.raises(OSError, match=r"a.parquet, row 2, has no image. Remove the row."):
        images.read(2)
    split = load(f"parquet(path='{tmp_path}/a.parquet', test_classes=1)", test_only=True).test
    row, reason = find_unreadable(split)
    assert row == 2 and "a.parquet, row 2, has no image" in reason
    assert split.name_of(3) == f"{tmp_path}/a.parquet, row 3"
    out = tmp_path / "out"
    done = ok("tfdml.embed", f"--model={exported()}", f"--images={tmp_path}/a.parquet", f"--out={out}")
    assert "Skipped 2 of 6 images" in done.stdout and "Embedded 4 images" in done.stdout


def test_a_folder_of_archives_is_explained(folder):
    with pytest.raises(
        ValueError, match=f"contains no images.*For images in archives, use a pattern.*{folder}/[*].parquet"
    ):
        ImageList.of(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "tar"])
@pytest.mark.few_by_day(1)
def test_archives_are_indexed_with_their_images(folder, tmp_path, kind):
    out = tmp_path / "index"
    ok("tfdml.index", f"--model={exported()}", f"--images={folder}/train-000.{kind}", f"--out={out}")
    done = ok("tfdml.index", f"--images={folder}/train-020.{kind}", f"--out={out}", "--add")
    assert f"Indexed {COUNT} images" in done.stdout
    index = IndexFolder(out)
    rows = index.read_rows(index.manifest())
    assert [Path(index.file_of(path)).read_bytes() for path in rows.paths] == CONTENTS
    assert rows.labels == ([NAMES[label] for label in LABELS] if kind == "parquet" else list(map(str, LABELS)))


SECTION = re.search(r"### Parquet files and tar files\n(.*?)\n## ", (ROOT / "docs/data.md").read_text(), re.DOTALL)[1]


@pytest.mark.nightly
def test_the_commands_of_the_page_run(folder, tmp_path):
    """With the files of this test instead of downloads, and a small network."""
    commands = [shlex.split(line)[2:] for line in SECTION.splitlines() if line.startswith("python -m tfdml")]
    assert [module for module, *_ in commands] == ["tfdml.train", "tfdml.train", "tfdml.index"]
    for module, *flags in commands:
        flags = [flag.replace("'data/", f"'{folder}/").replace("'shards/", f"'{folder}/") for flag in flags]
        flags = [re.sub(r"=(runs|photo_index)", rf"={tmp_path}/\1", flag) for flag in flags]
        flags = [flag.replace("=data/", f"={folder}/").replace("=exported/1", f"={exported()}") for flag in flags]
        small = [*MODEL_FLAGS, "--steps=2", "--eval_every=1"] if module == "tfdml.train" else []
        ok(module, *flags, *small)
    assert IndexFolder(tmp_path / "photo_index").size() == COUNT


def test_the_table_of_the_page_is_the_record():
    record = json.loads(benchmark.RECORD.read_text())
    assert benchmark.table(record) in SECTION and f"{record['images']:,}" in SECTION
