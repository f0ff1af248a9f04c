"""Each published dataset, read from its layout written in small."""

import re
import shutil
import tarfile
import zipfile

import numpy as np
import pytest

from pipelines.datasets import load
from pipelines.datasets.cub200 import CUB200
from tests.pipelines import tiny_datasets as tiny
from tfdml import registry

WRITERS = {
    "cub200": tiny.write_cub,
    "cars196": tiny.write_cars_one_folder,
    "sop": tiny.write_sop,
    "inshop": tiny.write_inshop,
    "vehicleid": tiny.write_vehicleid,
    "market1501": tiny.write_market,
}


def read(spec, data_dir):
    """A dataset whose files are there."""
    return load(spec, data_dir=str(data_dir))


def names_of(split, root):
    return [path.removeprefix(f"{root}/") for path in split.images]


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


# What is read


def test_cub_divides_by_class_and_not_by_its_own_split(tmp_path):
    folder = tiny.write_cub(tmp_path)
    dataset = read("cub200", tmp_path)
    assert dataset.train.labels.tolist() == [1, 1, 1, 2, 2, 2] and dataset.test.labels.tolist() == [3, 3, 3, 4, 4, 4]
    assert names_of(dataset.train, folder)[0] == "images/001.Wren/Wren_0001.jpg"
    assert names_of(dataset.test, folder)[0] == "images/003.Old Crow/Old_Crow_0007.jpg"
    assert dataset.test.class_names[3] == "003.Old Crow"
    assert dataset.train.boxes is None and dataset.protocol == "self_retrieval"
    np.testing.assert_array_equal(read("cub200", folder).train.images, dataset.train.images)


def test_cropped_cub_has_boxes_of_whole_pixels(tmp_path):
    tiny.write_cub(tmp_path)
    dataset = read("cub200(cropped=True)", tmp_path)
    # Image 7: left 7.5, top 2.5, width 11, height 6.2.
    assert dataset.test.boxes[0].tolist() == [7, 2, 19, 9] and dataset.test.boxes.dtype == np.int32
    assert len(dataset.train.boxes) == 6


def test_cars_in_one_folder(tmp_path):
    tiny.write_cars_one_folder(tmp_path)
    dataset = read("cars196(cropped=True)", tmp_path)
    assert names_of(dataset.train, tmp_path) == [f"car_ims/{number:06d}.jpg" for number in (1, 2, 3, 4)]
    assert dataset.train.labels.tolist() == [1, 1, 2, 2] and dataset.test.labels.tolist() == [3, 3, 4, 4]
    assert dataset.test.class_names == {1: "Car A", 2: "Car B", 3: "Car C", 4: "Car D"}
    # The file says x1 3, y1 2, x2 10, y2 12, counted from 1 and all of them inside.
    assert dataset.train.boxes[1].tolist() == [2, 1, 10, 12]
    assert read("cars196", tmp_path).train.boxes is None


@pytest.mark.parametrize("labels", ["cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat"])
def test_cars_in_two_folders(tmp_path, labels):
    tiny.write_cars_two_folders(tmp_path / "stanford_cars", labels)
    dataset = read("cars196", tmp_path)
    folder = tmp_path / "stanford_cars"
    assert names_of(dataset.train, folder) == ["cars_train/00001.jpg", "cars_train/00002.jpg"] + [
        "cars_test/00001.jpg",
        "cars_test/00002.jpg",
    ]
    assert dataset.train.labels.tolist() == [1, 2, 1, 2] and dataset.test.labels.tolist() == [3, 4, 3, 4]
    assert dataset.train.class_names[2] == "Car B"


def test_sop_keeps_its_own_split(tmp_path):
    folder = tiny.write_sop(tmp_path)
    dataset = read("sop", tmp_path)
    assert dataset.train.labels.tolist() == [1, 1, 2, 2, 3, 3] and dataset.test.labels.tolist() == [4, 4, 5, 5]
    assert names_of(dataset.test, folder)[0] == "chair_final/000000000004_0.JPG"
    assert dataset.protocol.startswith("self_retrieval(metrics=('recall_at_1', 'recall_at_10', 'recall_at_100', ")


@pytest.mark.parametrize("images", ["Img/img", "img"])
def test_inshop_marks_queries_and_gallery(tmp_path, images):
    tiny.write_inshop(tmp_path, images)
    dataset = read("inshop", tmp_path)
    assert [dataset.train.class_names[label] for label in dataset.train.labels] == ["id_00000001"] * 2 + [
        "id_00000005"
    ] * 2
    assert [dataset.test.class_names[label][-1] for label in dataset.test.labels] == list("23223")
    assert dataset.test.is_query.tolist() == [True, True, False, False, False]
    assert dataset.test.is_gallery.tolist() == [False, False, True, True, True]
    assert dataset.train.is_query is None and dataset.protocol.startswith("query_gallery")
    assert names_of(dataset.test, tmp_path)[0] == f"{images}/WOMEN/Blouses_Shirts/id_00000002/query_0_front.jpg"


def test_vehicleid_has_three_sizes(tmp_path):
    folder = tiny.write_vehicleid(tmp_path)
    labels = {
        size: read(f"vehicleid(size={size!r})", tmp_path).test.labels.tolist() for size in ("small", "medium", "large")
    }
    assert labels == {"small": [21] * 3, "medium": [21] * 3 + [22] * 2, "large": [21] * 3 + [22] * 2 + [23]}
    dataset = read("vehicleid", tmp_path)
    assert dataset.train.labels.tolist() == [11, 11, 12, 12] and len(dataset.test) == 3
    assert names_of(dataset.train, folder)[0] == "image/0000001.jpg"
    assert dataset.protocol == "random_gallery(metrics=('recall_at_1', 'recall_at_5'))"
    with pytest.raises(ValueError, match="'small', 'medium', 'large'; received 'huge'"):
        read("vehicleid(size='huge')", tmp_path)


def test_market_leaves_junk_out_and_keeps_distractors_and_cameras(tmp_path):
    tiny.write_market(tmp_path)
    dataset = read("market1501", tmp_path)
    assert dataset.train.labels.tolist() == [2, 2, 7, 7] and dataset.train.cameras.tolist() == [1, 2, 1, 3]
    # Two queries, then the gallery: a distractor, person 1 twice, person 3.
    assert dataset.test.labels.tolist() == [1, 3, 0, 1, 1, 3]
    assert dataset.test.cameras.tolist() == [1, 2, 1, 1, 2, 1]
    assert dataset.test.is_query.tolist() == [True, True, False, False, False, False]
    assert dataset.test.is_gallery.tolist() == [False, False, True, True, True, True]
    assert dataset.protocol == "query_gallery"


# Counts


@pytest.mark.parametrize("name", WRITERS)
def test_other_counts_than_published_are_told(tmp_path, caplog, name):
    WRITERS[name](tmp_path)
    dataset = read(name, tmp_path)
    here = f"train: {len(dataset.train)} images of {dataset.train.num_classes} classes here"
    assert any(
        name in record.message and here in record.message and "as published" in record.message
        for record in caplog.records
    )


def test_published_counts_are_not_told(tmp_path, caplog):
    """As many images and classes as CUB has, in lists alone."""
    folder = tiny.write_cub(tmp_path)
    sizes = [5864 // 100 + (label < 64) for label in range(100)] + [5924 // 100 + (label < 24) for label in range(100)]
    labels = np.repeat(np.arange(1, 201), sizes)
    (folder / "images.txt").write_text("".join(f"{number} {number}.jpg\n" for number in range(len(labels))))
    (folder / "image_class_labels.txt").write_text(
        "".join(f"{number} {label}\n" for number, label in enumerate(labels))
    )
    registry.create("dataset", "cub200", data_dir=str(tmp_path))
    assert not caplog.records
    rewrite(folder / "images.txt", "0 0.jpg\n", "")
    rewrite(folder / "image_class_labels.txt", "0 1\n", "")
    registry.create("dataset", "cub200", data_dir=str(tmp_path))
    (record,) = caplog.records
    assert "5,863 images of 100 classes here, 5,864 images of 100 classes as published" in record.message


def test_as_many_images_of_other_classes_are_told(tmp_path, caplog):
    tiny.write_cub(tmp_path)
    split = read("cub200", tmp_path).train
    caplog.clear()
    CUB200.check_counts("train", split, images=6, classes=2)
    assert not caplog.records
    CUB200.check_counts("train", split, images=6, classes=3)
    assert "6 images of 2 classes here, 6 images of 3 classes as published" in caplog.text


# What is not there


def test_an_empty_folder_is_told_of_by_the_name_that_the_authors_gave(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"there is no {tmp_path}/Stanford_Online_Products/Ebay_train.txt, no"):
        read("sop", tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_dataset_says_where_to_get_it_what_is_expected_and_how_to_check(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"Get it from https://\S+.* put its folder \S+") as error:
        read(name, tmp_path / "my data")
    assert f"there is no folder {tmp_path}/my data" in str(error.value)
    assert f"python -m pipelines.check --dataset={name} --data_dir='{tmp_path}/my data'" in str(error.value)
    with pytest.raises(ValueError, match=f"The dataset '{name}' needs --data_dir. Get it from https"):
        read(name, "")


@pytest.mark.parametrize(
    "name, missing",
    [
        ("cub200", "CUB_200_2011/image_class_labels.txt"),
        ("cars196", "cars_annos.mat"),
        ("sop", "Stanford_Online_Products/Ebay_test.txt"),
        ("inshop", "Eval/list_eval_partition.txt"),
        ("vehicleid", "VehicleID_V1.0/train_test_split/test_list_1600.txt"),
        ("market1501", "Market-1501-v15.09.15/query"),
    ],
)
def test_the_missing_part_is_named(tmp_path, name, missing):
    WRITERS[name](tmp_path)
    (tmp_path / missing).rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=f"there is no {re.escape(str(tmp_path / missing))}\\. Get it"):
        read(name, tmp_path)


def test_test_labels_of_cars_are_asked_for(tmp_path):
    tiny.write_cars_two_folders(tmp_path)
    (tmp_path / "cars_test_annos_withlabels.mat").unlink()
    with pytest.raises(FileNotFoundError, match="no .*/cars_test_annos_withlabels.mat"):
        read("cars196", tmp_path)


def test_boxes_are_asked_for_where_they_are_needed(tmp_path):
    (tiny.write_cub(tmp_path) / "bounding_boxes.txt").unlink()
    assert len(read("cub200", tmp_path).train) == 6
    with pytest.raises(FileNotFoundError, match="no list .*/bounding_boxes.txt"):
        read("cub200(cropped=True)", tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_image_is_named(tmp_path, name):
    WRITERS[name](tmp_path)
    path = read(name, tmp_path).test.images[-1]
    shutil.move(path, tmp_path / "elsewhere")
    if name == "market1501":
        assert len(read(name, tmp_path).test) == 5
        return
    with pytest.raises(FileNotFoundError, match=f"1 of \\d+ listed images are missing, first '{re.escape(path)}'"):
        read(name, tmp_path)


# What is damaged


DAMAGE = {
    "label_is_no_number": ("cub200", "CUB_200_2011/image_class_labels.txt", "4 2\n", "4 two\n", r"line 4: .*'4 two'"),
    "line_is_cut": (
        "cub200",
        "CUB_200_2011/image_class_labels.txt",
        "4 2\n",
        "4\n",
        r"line 4: expected <image_id> <class",
    ),
    "image_twice": ("cub200", "CUB_200_2011/images.txt", "5 ", "4 ", "has the image_id 4 twice"),
    "file_twice": ("cub200", "CUB_200_2011/images.txt", "Wren_0002", "Wren_0001", "lists 1 images more than once, 0"),
    "image_without_label": ("cub200", "CUB_200_2011/image_class_labels.txt", "4 2\n", "", "1 are in one only.* 4"),
    "vehicle_is_no_number": (
        "vehicleid",
        "VehicleID_V1.0/train_test_split/train_list.txt",
        " 11\n",
        " x\n",
        "line 1: .*'0000001 x'",
    ),
    "class_in_both": ("sop", "Stanford_Online_Products/Ebay_test.txt", "7 4 1", "7 3 1", "sop has 1 in both: 3"),
    "file_in_both": (
        "sop",
        "Stanford_Online_Products/Ebay_test.txt",
        "chair_final/000000000004_0.JPG",
        "chair_final/000000000001_0.JPG",
        "lists 1 images more than once, 1 of them for training and for test",
    ),
    "unknown_status": ("inshop", "Eval/list_eval_partition.txt", " gallery\n", " galery\n", "received 'galery'"),
    "no_query": ("inshop", "Eval/list_eval_partition.txt", " query", " gallery", None),
    "test_is_empty": ("sop", "Stanford_Online_Products/Ebay_test.txt", "7 4 1", "", None),
}


@pytest.mark.parametrize(
    "name, path, old, new, message", [pytest.param(*value, id=key) for key, value in DAMAGE.items()]
)
def test_a_damaged_list_is_told_with_its_line(tmp_path, name, path, old, new, message):
    WRITERS[name](tmp_path)
    if message is None:
        text = (tmp_path / path).read_text()
        (tmp_path / path).write_text(text.replace(old, new) if name == "inshop" else text.splitlines(True)[0])
        message = "has no query" if name == "inshop" else "lists nothing"
    else:
        rewrite(tmp_path / path, old, new)
    with pytest.raises(ValueError, match=message):
        read(name, tmp_path)


def test_a_list_that_is_no_text(tmp_path):
    folder = tiny.write_sop(tmp_path)
    (folder / "Ebay_train.txt").write_bytes(b"image_id\n\xff\xfe\x00")
    with pytest.raises(ValueError, match="Ebay_train.txt is not UTF-8 text"):
        read("sop", tmp_path)


def test_a_damaged_and_a_wrong_matlab_file(tmp_path):
    tiny.write_cars_two_folders(tmp_path)
    labels = tmp_path / "cars_test_annos_withlabels.mat"
    shutil.copy(tmp_path / "devkit" / "cars_meta.mat", labels)
    with pytest.raises(ValueError, match="has no annotations with bbox_x1.*that is cars_test_annos_withlabels.mat"):
        read("cars196", tmp_path)
    for content in (b"", b"no matlab", (tmp_path / "devkit" / "cars_train_annos.mat").read_bytes()[:300]):
        labels.write_bytes(content)
        with pytest.raises(ValueError, match="withlabels.mat is not a readable MATLAB file"):
            read("cars196", tmp_path)


def test_classes_of_cars_that_are_no_numbers(tmp_path):
    tiny.write_cars_one_folder(tmp_path)
    tiny.annotate(tmp_path / "cars_annos.mat", "relative_im_path", [("car_ims/000001.jpg", "Audi", 0)] * 2)
    with pytest.raises(ValueError, match="cars_annos.mat: classes and boxes must be numbers .*Audi"):
        read("cars196", tmp_path)


def test_an_unexpected_name_in_market(tmp_path):
    tiny.picture(tiny.write_market(tmp_path) / "query" / "me.jpg", (1, 2, 3))
    with pytest.raises(ValueError, match=r"names like 0001_c1s1_000151_01.jpg in .*/query, received 'me.jpg'"):
        read("market1501", tmp_path)


# From archives


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
