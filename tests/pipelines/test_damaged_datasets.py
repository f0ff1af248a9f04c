"""Of a published dataset, what is damaged is named, with its line."""

import shutil

import pytest

from tests.pipelines import tiny_datasets as tiny
from tests.pipelines.tiny_datasets import WRITERS, read, rewrite

DAMAGE = {
    "label_is_no_number": ("cub200", "CUB_200_2011/image_class_labels.txt", "4 2\n", "4 two\n", r"line 4, .*'4 two'"),
    "line_is_cut": (
        "cub200",
        "CUB_200_2011/image_class_labels.txt",
        "4 2\n",
        "4\n",
        r"line 4, is not valid. Expected <image_id> <class",
    ),
    "image_twice": ("cub200", "CUB_200_2011/images.txt", "5 ", "4 ", "contains the image_id 4 twice"),
    "file_twice": ("cub200", "CUB_200_2011/images.txt", "Wren_0002", "Wren_0001", "lists 1 images more than once, 0"),
    "image_without_label": ("cub200", "CUB_200_2011/image_class_labels.txt", "4 2\n", "", "1 are in only one of .* 4"),
    "vehicle_is_no_number": (
        "vehicleid",
        "VehicleID_V1.0/train_test_split/train_list.txt",
        " 11\n",
        " x\n",
        "line 1, .*'0000001 x'",
    ),
    "class_in_both": ("sop", "Stanford_Online_Products/Ebay_test.txt", "7 4 1", "7 3 1", "sop has 1 in both: 3"),
    "file_in_both": (
        "sop",
        "Stanford_Online_Products/Ebay_test.txt",
        "chair_final/000000000004_0.JPG",
        "chair_final/000000000001_0.JPG",
        "lists 1 images more than once, 1 of them both for training and for the test",
    ),
    "no_species": (
        "inaturalist2018",
        "inaturalist2018/Inat_dataset_splits/Inaturalist_train_set1.txt",
        "Aves/7/",
        "Aves/x/",
        "Expected train_val2018/<supercategory>/<number>/<image>. Received: 'train_val2018/Aves/x/a7.jpg'",
    ),
    "missing_attribute": (
        "deepfashion",
        "Category and Attribute Prediction Benchmark/Anno_coarse/list_attr_img.txt",
        "1 -1 -1",
        "1 -1",
        "line 3: expected 3 attributes. Received: 2",
    ),
    "unknown_kind": (
        "deepfashion",
        "Category and Attribute Prediction Benchmark/Anno_coarse/list_attr_cloth.txt",
        "a-line  3",
        "a-line  7",
        "Expected <attribute_name> <attribute_type>, with a type from 1 to 5. Received: 'a-line  7'",
    ),
    "landmark_is_no_number": (
        "google_landmarks",
        "google-landmark/index_image_to_landmark.csv",
        "12ba,3",
        "12ba,x",
        "line 4: landmark_id must be a number. Received: 'x'",
    ),
    "query_of_nothing": (
        "google_landmarks",
        "google-landmark/retrieval_solution_v2.1.csv",
        "21ab,12ba",
        "21ab,99",
        "line 3: the image '99' is not in index_image_to_landmark.csv",
    ),
    "unknown_status": ("inshop", "Eval/list_eval_partition.txt", " gallery\n", " galery\n", "Received: 'galery'"),
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
        message = "has no query" if name == "inshop" else "is empty"
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
    with pytest.raises(ValueError, match="lack bbox_x1.*cars_test_annos_withlabels.mat for the test images"):
        read("cars196", tmp_path)
    for content in (b"", b"no matlab", (tmp_path / "devkit" / "cars_train_annos.mat").read_bytes()[:300]):
        labels.write_bytes(content)
        with pytest.raises(ValueError, match="withlabels.mat is not a readable MATLAB file"):
            read("cars196", tmp_path)


def test_classes_of_cars_that_are_no_numbers(tmp_path):
    tiny.write_cars_one_folder(tmp_path)
    tiny.annotate(tmp_path / "cars_annos.mat", "relative_im_path", [("car_ims/000001.jpg", "Audi", 0)] * 2)
    with pytest.raises(ValueError, match="Classes and boxes in .*cars_annos.mat must be numbers .*Audi"):
        read("cars196", tmp_path)


def test_an_unexpected_name_in_market(tmp_path):
    tiny.picture(tiny.write_market(tmp_path) / "query" / "me.jpg", (1, 2, 3))
    with pytest.raises(ValueError, match=r"/query contains an unknown image. .* Received: 'me.jpg'"):
        read("market1501", tmp_path)
