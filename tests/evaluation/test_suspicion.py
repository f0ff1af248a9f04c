"""Images that are nearer to another class: margins compared with loops, several models, label noise."""

import numpy as np
import pytest

from tfdml.evaluation import suspicion
from tfdml.evaluation.suspicion import Judgement, Suspects, class_margins


def clusters(seed, classes=20, each=15, dim=12, spread=0.25):
    """Embeddings of classes, and their labels in random order."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(classes), each))
    return (random.normal(size=(classes, dim))[labels] + spread * random.normal(size=(len(labels), dim))) * 3, labels


def exchanged(labels, share, seed=0):
    """Labels with some label noise, and booleans that mark the wrong ones."""
    random = np.random.default_rng(seed)
    wrong = np.zeros(len(labels), bool)
    wrong[random.choice(len(labels), round(share * len(labels)), replace=False)] = True
    classes = np.unique(labels)
    others = (np.searchsorted(classes, labels) + random.integers(1, len(classes), len(labels))) % len(classes)
    return np.where(wrong, classes[others], labels), wrong


def naive_margins(embeddings, labels, nearest, distance):
    vectors = np.asarray(embeddings, np.float64)
    if distance == "cosine":
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    margins, others = [], []
    for row in range(len(labels)):
        near = {}
        for label in set(labels.tolist()):
            rows = [each for each in np.flatnonzero(labels == label) if each != row]
            values = sorted(
                (
                    vectors[row] @ vectors[each]
                    if distance == "cosine"
                    else -np.linalg.norm(vectors[row] - vectors[each])
                )
                for each in rows
            )
            near[label] = np.mean(values[-nearest:]) if values else np.nan
        own = near.pop(labels[row])
        other = max(near, key=near.get)
        margins.append(near[other] - own)
        others.append(other)
    return np.array(margins), np.array(others)


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("nearest", [1, 3, 100])
def test_margins_are_those_of_loops(distance, nearest, monkeypatch):
    monkeypatch.setattr(suspicion, "AT_ONCE", 500)
    embeddings, labels = clusters(1, classes=5, each=6, spread=1.0)
    # Classes of several sizes, and one image that is alone in its class.
    labels[:7] = [8, 8, 8, 9, 20, 20, 0]
    margins, others = class_margins(embeddings, labels, nearest, distance)
    expected, expected_others = naive_margins(embeddings, labels, nearest, distance)
    np.testing.assert_allclose(margins, expected, atol=1e-4)
    assert (others == expected_others).all() and np.isnan(margins[3]) and np.isnan(margins).sum() == 1


def test_exchanged_labels_are_found():
    embeddings, labels = clusters(0)
    given, wrong = exchanged(labels, 0.05)
    found = Suspects.of([Judgement.of(embeddings, given)], len(labels))
    right = wrong[found.rows]
    assert (right.mean(), right.sum() / wrong.sum()) == (1.0, 1.0)
    assert (found.others == labels[found.rows]).all() and (np.diff(found.margins) <= 0).all()
    # If classes overlap, some right labels are doubted too, but less than most wrong labels.
    embeddings, labels = clusters(2, spread=0.9)
    given, wrong = exchanged(labels, 0.05)
    found = Suspects.of([Judgement.of(embeddings, given)], len(labels))
    assert wrong[found.rows].sum() >= 0.9 * wrong.sum() and wrong[found.rows].mean() < 0.9
    assert wrong[found.rows[: wrong.sum()]].mean() > 0.7
    fewer = Suspects.of([Judgement.of(embeddings, given)], len(labels), share=2.5 / len(labels))
    np.testing.assert_array_equal(fewer.rows, found.rows[:3])
    assert fewer.doubted == found.doubted == len(found.rows) > 3
    strict = Suspects.of([Judgement.of(embeddings, given)], len(labels), least=1.5)
    assert wrong[strict.rows].mean() > wrong[found.rows].mean()


def test_several_models_find_better_than_each():
    given, truth, scores = None, None, []
    judgements = []
    for seed in range(4):
        # The same classes and rows, embedded with different noise.
        random = np.random.default_rng(seed)
        embeddings, labels = clusters(3, spread=0.0)
        given, truth = exchanged(labels, 0.1)
        noisy = embeddings + 3.5 * random.normal(size=embeddings.shape)
        judgements.append(Judgement.of(noisy, given))
        alone = Suspects.of(judgements[-1:], len(labels))
        scores.append(truth[alone.rows].mean())
    found = Suspects.of(judgements, len(given))
    assert truth[found.rows].mean() > max(scores)
    assert (found.judges == 4).all() and (found.votes > 2).all()


def test_models_judge_their_own_rows():
    nan = np.nan
    first = Judgement(np.array([0, 1, 2, 3]), np.array([1.0, -1.0, 0.5, nan]), np.array([7, 7, 7, 7]))
    second = Judgement(np.array([1, 2, 4]), np.array([3.0, 1.5, 2.0]), np.array([8, 8, 8]))
    found = Suspects.of([first, second], 6)
    # Row 1 has one of two votes, row 3 cannot be judged, and no model has row 5.
    assert found.rows.tolist() == [4, 0, 2] and found.margins.tolist() == [2.0, 1.0, 1.0]
    assert found.others.tolist() == [8, 7, 8] and found.unjudged == 1
    assert found.votes.tolist() == [1, 1, 2] and found.judges.tolist() == [1, 1, 2]


def test_what_cannot_be_judged():
    with pytest.raises(ValueError, match="there is only one class"):
        class_margins(np.eye(3), np.zeros(3, int))
    with pytest.raises(ValueError, match="finite"):
        class_margins(np.full((4, 2), np.nan), np.array([0, 0, 1, 1]))


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_rounding_is_no_doubt(distance):
    # In a collapsed embedding, no image is nearer to another class, however products are rounded.
    vector = np.random.default_rng(512).normal(size=512).astype(np.float32)
    judgement = Judgement.of(np.tile(vector, (101, 1)), np.arange(101) % 7, distance=distance)
    assert len(Suspects.of([judgement], 101).rows) == 0 and not judgement.margins.any()


def test_distances_do_not_depend_on_the_origin():
    embeddings, labels = clusters(4, spread=0.8)
    margins, others = class_margins(embeddings, labels, distance="euclidean")
    moved, same = class_margins(embeddings + 1e4, labels, distance="euclidean")
    np.testing.assert_allclose(moved, margins, atol=1e-9)
    assert (same == others).all() and (margins > 0).any()


def test_a_share_is_no_more_than_it_says():
    judgement = Judgement(np.arange(100), np.ones(100), np.zeros(100, int))
    assert [len(Suspects.of([judgement], 100, share=share).rows) for share in (0.07, 0.071, 1, 0)] == [7, 8, 100, 0]


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_lengths_do_not_matter_for_cosine_similarity(factor):
    embeddings, labels = clusters(2)
    margins, others = class_margins(embeddings, labels)
    scaled = class_margins(np.float32(embeddings) * np.float32(factor), labels)
    np.testing.assert_allclose(scaled[0], margins, atol=1e-5)
    np.testing.assert_array_equal(scaled[1], others)
