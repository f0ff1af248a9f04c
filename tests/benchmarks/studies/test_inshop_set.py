"""The In-shop set divides items by number, and the images of a test item into queries and gallery."""

import csv
from pathlib import PurePosixPath

from PIL import Image

from benchmarks.studies import inshop_set


def picture(path, color):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), color).save(path)


def test_items_are_divided_and_have_queries_and_a_gallery(tmp_path):
    for number, (item, kind) in enumerate([(1, "Pants"), (2, "Pants"), (9, "Denim"), (10, "Denim"), (10, "Tees")]):
        for view in range(3):
            picture(tmp_path / f"img/MEN/{kind}/id_{item:08d}/{view}.jpg", (40 * number, 60 * view, 0))
    images, classes, checksum = inshop_set.write_set(tmp_path / "img", tmp_path / "out")
    assert (images, classes) == (15, 4)
    rows = list(csv.DictReader((tmp_path / "out/images.csv").read_text().splitlines()))
    assert {row["label"] for row in rows if row["split"] == "train"} == {"id_00000001", "id_00000002"}
    assert all({row["is_query"], row["is_gallery"]} == {"0", "1"} for row in rows)
    of_item = {label: [row for row in rows if row["label"] == label] for label in {row["label"] for row in rows}}
    # An item with two kinds of clothing is one class.
    assert {PurePosixPath(row["path"]).parts[1] for row in of_item["id_00000010"]} == {"Denim", "Tees"}
    queries = {label: sum(row["is_query"] == "1" for row in found) for label, found in of_item.items()}
    assert queries == {"id_00000001": 1, "id_00000002": 1, "id_00000009": 1, "id_00000010": 3}
    with Image.open(tmp_path / "out" / rows[0]["path"]) as image:
        assert image.size == (128, 128)
    assert inshop_set.write_set(tmp_path / "img", tmp_path / "again")[2] == checksum
    picture(tmp_path / "img/MEN/Pants/id_00000001/0.jpg", (1, 2, 3))
    assert inshop_set.write_set(tmp_path / "img", tmp_path / "changed")[2] != checksum
