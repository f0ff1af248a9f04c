"""Published datasets from their archives are what they are from folders."""

import shutil
import tarfile
import zipfile

import numpy as np
import pytest

from tests.pipelines import tiny_datasets as tiny
from tests.pipelines.tiny_datasets import WRITERS, read


def pack(source, archive, names):
    """Packs some of a folder into an archive and removes it there."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w") as packed:
            for name in names:
                for path in sorted((source / name).rglob("*")):
                    packed.write(path, path.relative_to(source))
    else:
        with tarfile.open(archive, "w:gz") as packed:
            for name in names:
                packed.add(source / name, name)
    for name in names:
        shutil.rmtree(source / name)


@pytest.mark.parametrize(
    "name, archives",
    [
        ("cub200", {"CUB_200_2011.tgz": ["CUB_200_2011"]}),
        ("cub200", {"CUB_200_2011.zip": ["CUB_200_2011"]}),
        ("cars196", {"car_ims.tgz": ["car_ims"]}),
        ("sop", {"Stanford_Online_Products.zip": ["Stanford_Online_Products"]}),
        ("vehicleid", {"VehicleID_V1.0.tar.gz": ["VehicleID_V1.0"]}),
        ("market1501", {"Market-1501-v15.09.15.zip": ["Market-1501-v15.09.15"]}),
    ],
)
def test_archives_give_what_folders_give(tmp_path, name, archives):
    WRITERS[name](tmp_path)
    expected = read(name, tmp_path)
    for archive, names in archives.items():
        pack(tmp_path, tmp_path / archive, names)
    for _ in range(2):
        found = read(name, tmp_path)
        np.testing.assert_array_equal(found.train.images, expected.train.images)
        np.testing.assert_array_equal(found.test.labels, expected.test.labels)
        # Once unpacked, the archive is no more needed.
        for archive in archives:
            (tmp_path / archive).unlink(missing_ok=True)


def test_the_archives_of_cars_in_two_folders(tmp_path):
    tiny.write_cars_two_folders(tmp_path)
    expected = read("cars196", tmp_path)
    for name, archive in (("cars_train", "cars_train"), ("cars_test", "cars_test"), ("devkit", "car_devkit")):
        pack(tmp_path, tmp_path / f"{archive}.tgz", [name])
    np.testing.assert_array_equal(read("cars196", tmp_path).train.images, expected.train.images)


def test_no_more_archives_are_unpacked_than_needed(tmp_path):
    tiny.write_cars_one_folder(tmp_path)
    pack(tmp_path, tmp_path / "car_ims.tgz", ["car_ims"])
    (tmp_path / "cars_train.tgz").write_bytes(b"not needed, and damaged")
    assert len(read("cars196", tmp_path).train) == 4


def test_the_image_archive_of_inshop_lies_in_its_own_folder(tmp_path):
    tiny.write_inshop(tmp_path)
    expected = read("inshop", tmp_path)
    pack(tmp_path / "Img", tmp_path / "Img" / "img.zip", ["img"])
    np.testing.assert_array_equal(read("inshop", tmp_path).test.images, expected.test.images)


def test_inshop_as_one_archive_with_another_inside(tmp_path):
    name = "In-shop Clothes Retrieval Benchmark"
    tiny.write_inshop(tmp_path / name)
    expected = read("inshop", tmp_path)
    pack(tmp_path / name / "Img", tmp_path / name / "Img" / "img.zip", ["img"])
    pack(tmp_path, tmp_path / f"{name}.zip", [name])
    np.testing.assert_array_equal(read("inshop", tmp_path).test.images, expected.test.images)
