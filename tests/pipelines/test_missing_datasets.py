"""Of a published dataset, what is missing is named, with where to get it."""

import re
import shutil

import pytest

from tests.pipelines import tiny_datasets as tiny
from tests.pipelines.tiny_datasets import WRITERS, read


def test_an_empty_folder_is_told_of_by_the_name_that_the_authors_gave(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"there is no {tmp_path}/Stanford_Online_Products/Ebay_train.txt, no"):
        read("sop", tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_dataset_says_where_to_get_it_what_is_expected_and_how_to_check(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"Get it from https://\S+.* Put its folder \S+") as error:
        read(name, tmp_path / "my data")
    assert f"there is no folder {tmp_path}/my data" in str(error.value)
    assert f"python -m pipelines.check --dataset={name} --data_dir='{tmp_path}/my data'" in str(error.value)
    with pytest.raises(ValueError, match=f"data_dir is missing for the dataset '{name}'. .* Get it from https"):
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
        ("inaturalist2018", "inaturalist2018/Inat_dataset_splits/Inaturalist_test_set1.txt"),
        ("deepfashion", "Category and Attribute Prediction Benchmark/Anno_coarse/list_attr_cloth.txt"),
        ("google_landmarks", "google-landmark/retrieval_solution_v2.1.csv"),
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
    with pytest.raises(FileNotFoundError, match="The list .*/bounding_boxes.txt does not exist"):
        read("cub200(cropped=True)", tmp_path)


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_image_is_named(tmp_path, name):
    WRITERS[name](tmp_path)
    path = read(name, tmp_path).test.images[-1]
    shutil.move(path, tmp_path / "elsewhere")
    if name == "market1501":
        assert len(read(name, tmp_path).test) == 5
        return
    with pytest.raises(FileNotFoundError, match=f"1 of \\d+ .* are missing, for example '{re.escape(path)}'"):
        read(name, tmp_path)
