"""Recall@K between texts and images equals a loop over sorted neighbors."""

import numpy as np
import pytest

from tfdml.evaluation import image_text, image_text_recall


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def naive(queries, gallery, pairs, count):
    """Whether each query has one of its own among its first neighbors, sorted so that ties are behind all others."""
    hits = []
    for query in sorted({first for first, _ in pairs}):
        own = {second for first, second in pairs if first == query}
        similarities = unit(gallery) @ unit(queries)[query]
        order = sorted(range(len(gallery)), key=lambda row: (-round(similarities[row], 7), row in own))
        hits.append(bool(own & set(order[:count])))
    return hits


@pytest.mark.parametrize("at_once", [2**24, 50])
def test_as_a_loop_over_sorted_neighbors(at_once, monkeypatch):
    monkeypatch.setattr(image_text, "SIMILARITIES", at_once)
    random = np.random.default_rng(0)
    images, texts = random.normal(size=(40, 3)), random.normal(size=(25, 3))
    # Some texts are of several images, some images have several texts, and some of both are in no pair.
    pairs = sorted({(int(random.integers(35)), int(random.integers(20))) for _ in range(60)})
    found = image_text_recall(images, texts, pairs, at=(1, 3, 8))
    turned = sorted((text, image) for image, text in pairs)
    for count in (1, 3, 8):
        expected = naive(texts, images, turned, count), naive(images, texts, pairs, count)
        for name, hits in zip(("text_to_image", "image_to_text"), expected, strict=True):
            metric = f"{name}_recall_at_{count}"
            assert found[name].per_query[metric].tolist() == hits
            assert found[name].values[metric] == pytest.approx(np.mean(hits))
    assert found["image_to_text"].queries.tolist() == sorted({image for image, _ in pairs})
    assert found["text_to_image"].query_count == len({text for _, text in pairs})


def test_ties_count_against_the_model():
    ones, pairs = np.ones((5, 3)), [(row, row) for row in range(5)]
    assert image_text_recall(ones, ones, pairs, at=(1, 4, 5))["text_to_image"].values == {
        "text_to_image_recall_at_1": 0.0,
        "text_to_image_recall_at_4": 0.0,
        "text_to_image_recall_at_5": 1.0,
    }
    # A tie between two images that both have the text is none.
    images = np.array([[1.0, 0], [1, 0], [0, 1]])
    assert image_text_recall(images, [[1.0, 0.1]], [(0, 0), (1, 0)], at=(1,))["text_to_image"].values == {
        "text_to_image_recall_at_1": 1.0
    }


@pytest.mark.parametrize(
    "pairs, told",
    [
        ([], r"shape \[P, 2\] with P > 0. Received: shape=\(0,\)"),
        ([(0, 1, 2)], r"Received: shape=\(1, 3\)"),
        ([(0, 0), (3, 0)], "rows of the 3 images. Received: row 3"),
        ([(0, 0), (0, -1)], "rows of the 2 texts. Received: row -1"),
    ],
)
def test_wrong_pairs_are_told(pairs, told):
    with pytest.raises(ValueError, match=told):
        image_text_recall(np.eye(3), np.eye(3)[:2], pairs)
