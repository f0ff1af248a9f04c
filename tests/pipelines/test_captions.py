"""Captions of images: from tables, from names of classes, of the toy cars, and in batches."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from pipelines.captions import Captions, as_column, with_captions
from pipelines.dataset import Split
from pipelines.datasets import load


def test_each_text_is_there_once():
    captions = Captions([("a", "b"), ("b",), ("c", "a", "b")])
    assert captions.texts == ["a", "b", "c"]
    assert captions.pairs.tolist() == [[0, 0], [0, 1], [1, 1], [2, 2], [2, 0], [2, 1]]


def test_an_image_has_each_of_its_captions_in_turn():
    captions = Captions([("a", "b"), ("b",), ("c", "a", "b")])
    draw = captions.drawn(np.array([[1], [2], [3]], np.int32))
    drawn = {row: [] for row in range(3)}
    for number in range(18):
        row = number % 3
        tokens, text = draw(tf.constant(row, tf.int64), tf.constant(number, tf.int64))
        assert tokens.numpy().tolist() == [int(text) + 1]
        drawn[row].append(int(text))
    assert sorted(drawn[0]) == [0, 0, 0, 1, 1, 1] and drawn[1] == [1] * 6 and sorted(drawn[2]) == [0, 0, 1, 1, 2, 2]
    # A whole batch is drawn as its images are.
    rows, numbers = tf.constant([2, 0, 1], tf.int64), tf.constant([2, 3, 4], tf.int64)
    _, texts = draw(rows, numbers)
    assert texts.numpy().tolist() == [int(draw(row, number)[1]) for row, number in zip(rows, numbers, strict=True)]


def test_captions_of_the_names_of_classes():
    images = as_column(["1.jpg", "2.jpg"])
    split = Split(images, np.array([0, 1]), {0: "red_mug", 1: "bowl"})
    found = with_captions(split, "a photo of a {} | {}")
    assert found.captions.tolist() == [("a photo of a red mug", "red mug"), ("a photo of a bowl", "bowl")]
    for templates in ("a photo", "{} and {}", "a {}|"):
        with pytest.raises(ValueError, match="a template without exactly one {} for the class name"):
            with_captions(split, templates)
    with pytest.raises(ValueError, match="needs class names, and this dataset has none"):
        with_captions(Split(images, np.array([0, 1])), "a {}")


@pytest.fixture
def table(tmp_path):
    """Function that writes a table with captions and returns its path."""

    def write(*captions):
        lines = ["path,label,split,caption"]
        for number, caption in enumerate(captions):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
            lines.append(f"{number}.png,{number},{'train' if number % 2 else 'test'},{caption}")
        (tmp_path / "table.csv").write_text("\n".join(lines))
        return tmp_path / "table.csv"

    return write


def test_a_column_of_a_table(table):
    dataset = load(f"csv(path={str(table('a mug', 'a bowl|a red bowl', 'Ünï', 'cup'))!r})", data_dir="")
    assert dataset.train.captions.tolist() == [("a bowl", "a red bowl"), ("cup",)]
    assert dataset.test.captions.tolist() == [("a mug",), ("Ünï",)]


def test_an_empty_caption_is_told(table):
    with pytest.raises(ValueError, match="table.csv, line 3: caption is empty. Expected a text about the image"):
        load(f"csv(path={str(table('a mug', ' | ', 'x'))!r})", data_dir="")


def test_toy_cars_describe_their_color_and_parts(tmp_path):
    options = "classes=16, images_per_class=4, image_size=24"
    described = load(f"toycars({options}, captions=True)", data_dir=str(tmp_path))
    plain = load(f"toycars({options})", data_dir=str(tmp_path))
    assert plain.test.captions is None and plain.test.images.tolist() == described.test.images.tolist()
    texts = [caption for (caption,) in described.test.captions]
    assert len({text.split()[1] for text in texts}) > 3
    for label, text in zip(described.test.labels.tolist(), texts, strict=True):
        body, *parts = described.test.class_names[label].split(", ")
        assert f" {body} with " in text
        assert all(part in text for part in parts if not part.startswith(("no ", "bare ")))
