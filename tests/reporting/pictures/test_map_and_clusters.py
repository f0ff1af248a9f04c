"""The map of embeddings, and clusters with typical images."""

import numpy as np
import pytest
from PIL import Image

from tfdml.reporting import draw_clusters, draw_embedding_map, map_positions, typical_rows
from tfdml.reporting.pictures import embeddings as clusters_file
from tfdml.reporting.pictures.embeddings import MAP_CELL, NEAREST, class_color, without_overlap


def grey(row, side):
    return np.full((side, side, 3), 20 * row, np.uint8)


def test_the_map_keeps_near_what_is_near():
    random = np.random.default_rng(0)
    centers = np.repeat(np.eye(3), 12, axis=0)
    embeddings = centers + 0.02 * random.normal(size=centers.shape)
    # Lengths do not matter.
    positions = map_positions(embeddings * random.uniform(1, 9, size=(36, 1)), seed=1)
    distances = np.linalg.norm(positions[:, None] - positions, axis=2) + 1e9 * np.eye(36)
    assert np.mean(distances.argmin(axis=1) // 12 == np.arange(36) // 12) == 1
    assert map_positions(embeddings[:3]).shape == (3, 2)


@pytest.mark.parametrize("embeddings", [np.ones((9, 4)), np.arange(1, 9)[:, None]], ids=["all alike", "one dimension"])
def test_what_no_map_can_tell_apart_is_in_a_row(embeddings):
    positions = map_positions(embeddings, distance="euclidean")
    np.testing.assert_array_equal(positions, np.stack([np.arange(len(embeddings)), 0 * positions[:, 1]], axis=1))


def test_pictures_stand_at_their_positions(tmp_path):
    positions = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 5.0], [10.0, 0.001]])
    labels = np.array([4, 4, 7, 7])
    draw_embedding_map(positions, labels, lambda row, side: grey(row + 1, side), tmp_path / "map.png")
    sheet = Image.open(tmp_path / "map.png")
    assert sheet.size == (1600, 800 + MAP_CELL // 2)
    middles = [(MAP_CELL // 2, MAP_CELL // 2), (1600 - MAP_CELL // 2, MAP_CELL // 2), (MAP_CELL // 2, 800)]
    for row, (left, top) in enumerate(middles):
        assert sheet.getpixel((left, top)) == (20 * (row + 1),) * 3
        assert sheet.getpixel((left, top - MAP_CELL // 2 + 2)) == class_color(labels[row] == 7)
    assert class_color(0) != class_color(1)


def test_pictures_leave_each_other_room():
    middles = np.random.default_rng(0).uniform(0, 300, (200, 2))
    places = without_overlap(middles)
    apart = np.abs(middles[places][:, None] - middles[places]).max(axis=2) + 1e9 * np.eye(len(places))
    assert places[0] == 0 and apart.min() >= NEAREST * MAP_CELL
    # All other images would overlap it.
    left_out = np.setdiff1d(np.arange(200), places)
    assert np.all(np.abs(middles[left_out][:, None] - middles[places]).max(axis=2).min(axis=1) < NEAREST * MAP_CELL)


def test_typical_images_are_in_the_middle_of_their_cluster(tmp_path):
    embeddings = np.array([[0.0], [1.0], [2.2], [10.0], [11.0]])
    typical = typical_rows(embeddings, np.array([0, 0, 0, 3, 3]), 2)
    assert {cluster: rows.tolist() for cluster, rows in typical.items()} == {0: [1, 0], 3: [3, 4]}
    draw_clusters(typical, {0: 3, 3: 2}, grey, tmp_path / "clusters.png")
    sheet, cell = Image.open(tmp_path / "clusters.png"), clusters_file.CLUSTER_CELL
    for line, rows in enumerate(typical.values()):
        for place, row in enumerate(rows):
            middle = (
                clusters_file.CLUSTER_WORDS + place * cell + cell // 2,
                clusters_file.CLUSTER_HEAD + line * cell + cell // 2,
            )
            assert sheet.getpixel(middle) == (20 * row,) * 3
