"""The tables of pairs and of several labels that the emoji set gives."""

import csv
import sys

import pytest

from benchmarks.studies import emoji_tables


@pytest.fixture
def tables(tmp_path, monkeypatch):
    rows = [("train", "1f600", "face", "smileys"), ("train", "1f697", "car", "travel")]
    rows += [("test", "1f43b", "bear", "animals"), ("test", "1f331", "plant", "nature")]
    for split, name, _, _ in rows:
        (tmp_path / split / name).mkdir(parents=True)
        for vendor in ("noto", "twemoji", "openmoji"):
            (tmp_path / split / name / f"{vendor}.png").touch()
    lines = ["split,class,subgroup,group", *map(",".join, rows)]
    (tmp_path / "classes.csv").write_text("\n".join(lines))
    monkeypatch.setattr(sys, "argv", ["emoji_tables", f"--data_dir={tmp_path}"])
    emoji_tables.main()
    return {name: list(csv.DictReader((tmp_path / f"{name}.csv").open())) for name in ("pairs", "tags")}


def test_each_image_has_a_pair_of_its_class_and_one_of_another_in_its_part(tables):
    assert len(tables["pairs"]) == 24
    for number, row in enumerate(tables["pairs"]):
        (split, name, image), (other_split, other, other_image) = row["a"].split("/"), row["b"].split("/")
        assert split == other_split == row["split"]
        assert (row["same"] == "1") == (name == other) == (number % 2 == 0)
        assert name != other or image != other_image
    assert len({row["a"] for row in tables["pairs"]}) == 12


def test_each_image_has_its_class_subgroup_and_group(tables):
    assert len(tables["tags"]) == 12
    assert tables["tags"][0] == {"path": "train/1f600/noto.png", "label": "1f600|face|smileys", "split": "train"}
