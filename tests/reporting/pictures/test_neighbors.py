"""Queries with their neighbors, and classes that are confused."""

import numpy as np
import pytest
from PIL import Image, ImageColor

from tfdml.evaluation.queries import RetrievalTask, Retrieved
from tfdml.reporting import chosen_queries, draw_confused, draw_neighbors, most_confused
from tfdml.reporting.pictures import embeddings as module
from tfdml.reporting.sheets import FRAME, RIGHT, WRONG

# On a line: two separate classes, one image of class 0 among class 1, and class 2 with one image.
PLACES = np.array([0.0, 0.1, 0.3, 5.15, 5.0, 5.1, 5.4, 9.0])
LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 2])
EMBEDDINGS = np.stack([PLACES, np.zeros(8)], axis=1)


@pytest.fixture
def retrieved():
    return Retrieved.of(EMBEDDINGS, RetrievalTask.of(LABELS), 3, distance="euclidean")


def grey(row, side):
    return np.full((side, side, 3), 10 * row, np.uint8)


def test_neighbors_are_the_nearest_without_the_query(retrieved):
    expected = np.argsort(np.abs(PLACES[:, None] - PLACES) + 99 * np.eye(8), axis=1)[:, :3]
    np.testing.assert_array_equal(retrieved.rows, expected)
    np.testing.assert_array_equal(retrieved.right, LABELS[expected] == LABELS[:, None])
    assert retrieved.first.tolist() == [1, 1, 1, 5, 1, 2, 2, 0]
    # Of seven queries with a right image, four find it first and six among the first two.
    np.testing.assert_allclose(retrieved.recall([1, 2, 5]), [4 / 7, 6 / 7, 1])


def test_images_apart_and_outside_of_the_gallery_are_no_neighbors():
    task = RetrievalTask.of(LABELS, gallery=np.arange(8) < 4, apart=[[0, 0, 1, 1, 0, 0, 0, 0]])
    found = Retrieved.of(EMBEDDINGS, task, 3, distance="euclidean")
    assert found.rows[0].tolist() == [2, 3, -1] and found.right[0].tolist() == [True, True, False]
    assert set(found.rows[4:].ravel().tolist()) <= {0, 1, 2, 3} and not found.right[4:].any()
    few = Retrieved.of(EMBEDDINGS, task, 3, distance="euclidean", most=5)
    assert len(few.queries) == len(set(few.queries)) == 5
    np.testing.assert_array_equal(few.rows, found.rows[few.queries])


def test_chosen_queries(retrieved):
    chosen = chosen_queries(retrieved, LABELS, 2)
    # Class 2 has no right image. The worst query of class 0 is the image among class 1.
    assert LABELS[chosen["best"]].tolist() == [0, 1] and chosen["best"][0] in (0, 1, 2)
    assert chosen["worst"][0] == 3 and LABELS[chosen["worst"][1]] == 1
    assert sorted(LABELS[chosen["random"]]) == [0, 1]
    # Then each class has another.
    more = chosen_queries(retrieved, LABELS, 9)
    assert sorted(LABELS[more["random"]][:2]) == sorted(LABELS[more["random"]][2:4]) == [0, 1]
    assert len(set(more["random"])) == 7 and more["best"][:2].tolist() == chosen["best"].tolist()


def test_frames_tell_right_from_wrong(retrieved, tmp_path):
    path = tmp_path / "neighbors.png"
    draw_neighbors(retrieved, {"Worst": np.array([3, 0]), "None": []}, LABELS, {0: "zero"}, grey, path)
    sheet, cell = Image.open(path), module.NEIGHBOR_CELL
    first = module.NEIGHBOR_WORDS + cell + module.ASIDE
    for line, query in enumerate((3, 0)):
        top = module.NEIGHBOR_HEAD + line * cell
        assert sheet.getpixel((module.NEIGHBOR_WORDS + cell // 2, top + cell // 2)) == (10 * query,) * 3
        for place, row in enumerate(retrieved.rows[query]):
            left = first + place * cell
            color = RIGHT if LABELS[row] == LABELS[query] else WRONG
            assert sheet.getpixel((left + 1, top + 1)) == ImageColor.getrgb(color)
            assert sheet.getpixel((left + cell // 2, top + cell // 2)) == (10 * row,) * 3
    assert sheet.height < module.NEIGHBOR_HEAD + 3 * cell


def test_confused_classes(retrieved, tmp_path):
    found = most_confused(retrieved, LABELS, 2)
    assert [(each.label, each.taken_for, len(each.pairs)) for each in found] == [(1, 0, 2), (0, 1, 1)]
    assert found[0].pairs.tolist() == [[5, 3], [6, 3]] and found[1].share == 0.25
    assert draw_confused(found, {}, grey, tmp_path / "confused.png") == 2
    sheet, cell = Image.open(tmp_path / "confused.png"), module.CELL
    left, top = 2 * module.WORDS + module.NUMBER, module.HEAD
    for place, (query, neighbor) in enumerate(found[0].pairs):
        across = left + place * cell
        assert sheet.getpixel((across + cell // 2, top + cell // 2)) == (10 * query,) * 3
        assert sheet.getpixel((across + cell // 2, top + cell + cell // 2)) == (10 * neighbor,) * 3
        assert sheet.getpixel((across + FRAME // 2, top + cell + 1)) == ImageColor.getrgb(WRONG)
    assert draw_confused([], {}, grey, tmp_path / "none.png") == 0 and not (tmp_path / "none.png").exists()
