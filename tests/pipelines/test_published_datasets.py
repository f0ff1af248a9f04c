"""Each published dataset, read from its layout written in small."""

import json

import numpy as np
import pytest

from pipelines.datasets.cub200 import CUB200
from tests.pipelines import tiny_datasets as tiny
from tests.pipelines.tiny_datasets import WRITERS, read, rewrite
from tfdml import registry


def names_of(split, root):
    return [path.removeprefix(f"{root}/") for path in split.images]


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


def test_cub_has_the_levels_of_a_table(tmp_path):
    folder = tiny.write_cub(tmp_path)
    (folder / "classes.csv").write_text("class,family\n001.Wren,wrens\n002.Robin,thrushes\nOld Crow,crows\nJay,crows\n")
    dataset = read("cub200", tmp_path)
    assert dataset.test.levels == {"family": {1: "wrens", 2: "thrushes", 3: "crows", 4: "crows"}}


def test_inaturalist_has_species_and_ranks(tmp_path):
    folder = tiny.write_inaturalist(tmp_path)
    dataset = read("inaturalist2018", tmp_path)
    assert dataset.train.labels.tolist() == [7, 7, 12, 12] and dataset.test.labels.tolist() == [3, 3, 8, 8]
    assert names_of(dataset.test, folder)[0] == "train_val2018/Aves/3/a3.jpg"
    assert dataset.train.levels == {"supercategory": {7: "Aves", 12: "Fungi"}}
    ranks = ("kingdom", "phylum", "class", "order", "family", "genus")
    species = [{"id": n, "name": f"s{n}", **{rank: f"{rank}{n // 5}" for rank in ranks}} for n in (3, 7, 8, 12)]
    (folder / "categories.json").write_text(json.dumps(species))
    dataset = read("inaturalist2018", tmp_path)
    assert dataset.test.levels["genus"][8] == "genus1" and dataset.test.levels["taxonomic_class"][3] == "class0"
    assert dataset.train.class_names[12] == "s12"
    (folder / "categories.json").write_text(json.dumps(species[0]))
    with pytest.raises(ValueError, match="Expected a list of categories with id, name, kingdom"):
        read("inaturalist2018", tmp_path)


@pytest.mark.parametrize("notes", ["Anno_coarse", "Anno"])
def test_deepfashion_has_several_labels(tmp_path, notes):
    folder = tiny.write_deepfashion(tmp_path, notes)
    dataset = read("deepfashion", tmp_path)
    assert dataset.train.attribute_names == ("abstract chevron", "a-line", "art")
    assert dataset.train.attributes.astype(int).tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert dataset.test.attributes.astype(int).tolist() == [[0, 1, 1], [1, 0, 0]]
    assert names_of(dataset.test, folder)[0] == "Img/img/Sheer_Blouse/img_00000005.jpg"
    texture = read("deepfashion(kind='texture')", tmp_path)
    assert texture.train.attribute_names == ("abstract chevron", "art")
    # One without any is left out.
    assert texture.train.attributes.astype(int).tolist() == [[1, 0], [1, 0], [0, 1]]
    assert texture.test.attributes.astype(int).tolist() == [[0, 1], [1, 0]]


def test_landmarks_search_the_index(tmp_path, caplog):
    folder = tiny.write_landmarks(tmp_path)
    dataset = read("google_landmarks", tmp_path)
    assert dataset.train.labels.tolist() == [5, 5, 9] and dataset.protocol.startswith("query_gallery")
    assert dataset.test.labels.tolist() == [19, 13, 19, 19, 13, 14]
    assert dataset.test.is_query.tolist() == [True] * 2 + [False] * 4
    assert names_of(dataset.test, folder)[:3] == ["test/2/0/a/20aa.jpg", "test/2/1/a/21ab.jpg", "index/1/0/a/10aa.jpg"]
    assert "not exactly the images of one landmark" not in caplog.text
    rewrite(folder / "retrieval_solution_v2.1.csv", "20aa,10aa 11ab", "20aa,10aa")
    read("google_landmarks", tmp_path)
    assert "the solution of 1 of 2 queries is not exactly the images of one landmark" in caplog.text


@pytest.mark.parametrize("places", [["train", "index", "test"], ["metadata"] * 3])
def test_tables_of_landmarks_lie_where_they_are_put_after_the_download(tmp_path, places):
    tiny.write_landmarks(tmp_path, places)
    dataset = read("google_landmarks", tmp_path)
    assert dataset.train.labels.tolist() == [5, 5, 9] and dataset.test.labels.tolist() == [19, 13, 19, 19, 13, 14]


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
    with pytest.raises(ValueError, match="'small', 'medium', 'large'. Received: .*'huge'"):
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


@pytest.mark.parametrize("name", WRITERS)
def test_other_counts_than_published_are_told(tmp_path, caplog, name):
    WRITERS[name](tmp_path)
    dataset = read(name, tmp_path)
    here = f"train: found {len(dataset.train)} images in {dataset.train.num_classes} classes"
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
    assert "found 5,863 images in 100 classes, instead of 5,864 images in 100 classes as published" in record.message


def test_as_many_images_of_other_classes_are_told(tmp_path, caplog):
    tiny.write_cub(tmp_path)
    split = read("cub200", tmp_path).train
    caplog.clear()
    CUB200.check_counts("train", split, images=6, classes=2)
    assert not caplog.records
    CUB200.check_counts("train", split, images=6, classes=3)
    assert "found 6 images in 2 classes, instead of 6 images in 3 classes as published" in caplog.text
