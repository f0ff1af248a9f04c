"""Thresholds of text queries equal loops over pairs of a text and an image."""

import numpy as np
import pytest

from tests.evaluation.test_image_text import unit
from tfdml.evaluation.verification import text_pairs
from tfdml.evaluation.verification.pairs import PairCounts
from tfdml.evaluation.verification.text_pairs import TextPairs
from tfdml.evaluation.verification.thresholds import fit_threshold, resampled_pairs


@pytest.fixture
def example():
    """Embeddings of images and texts, pairs of which some texts have several images, and classes of images."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 4)
    # Classes 3 times as large, because their numbers need not be consecutive.
    pairs = np.array([(image, 2 * labels[image] + image % 2) for image in range(80)] + [(3, 0), (5, 0)])
    centers = random.normal(size=(40, 5))
    images = centers[pairs[:80, 1]] + 0.7 * random.normal(size=(80, 5))
    return images, centers + 0.3 * random.normal(size=(40, 5)), pairs, 3 * labels


def naive(images, texts, pairs, labels):
    """The cosine of each pair, whether both belong together, and the class of the text."""
    links = {tuple(pair) for pair in pairs.tolist()}
    scores, same, classes = [], [], []
    for text, image in np.ndindex(len(texts), len(images)):
        scores.append(float(unit(texts)[text] @ unit(images)[image]))
        same.append((image, text) in links)
        classes.append(labels[min(other for other, each in links if each == text)])
    return np.array(scores), np.array(same), np.array(classes)


@pytest.mark.parametrize("rule", [{"far": 0.1}, {"far": 0.01}, {"precision": 0.5}, {"precision": 0.8}], ids=str)
def test_no_threshold_accepts_more_pairs(example, rule):
    scores, same, _ = naive(*example)
    allowed = []
    for threshold in scores:
        accepted = scores >= threshold
        fits = (
            np.mean(accepted[~same]) <= rule["far"] if "far" in rule else np.mean(same[accepted]) >= rule["precision"]
        )
        if fits:
            allowed.append((np.sum(accepted & same), np.sum(accepted & ~same)))
    found = fit_threshold(TextPairs.of(*example), **rule, samples=100)
    accepted = scores >= found["threshold"]
    assert (np.sum(accepted & same), np.sum(accepted & ~same)) == max(allowed)
    assert found["accepted"] == {"same": np.sum(accepted & same), "different": np.sum(accepted & ~same)}
    assert found["pairs"] == {"same": 82, "different": 40 * 80 - 82}
    assert found["interval"][0] < found["threshold"] < found["interval"][1]


def test_resamples_draw_the_classes_of_texts(example):
    scores, same, classes = naive(*example)
    functions = {"rate": lambda counts, _: counts.trues_at(0.05)}
    found = resampled_pairs(TextPairs.of(*example), functions, samples=400, seed=3)["rate"]
    random, expected = np.random.default_rng(4), []
    known, places = np.unique(classes, return_inverse=True)
    order = np.argsort(scores)
    for _ in range(400):
        times = np.bincount(random.integers(len(known), size=len(known)), minlength=len(known))[places][order]
        expected.append(PairCounts(scores[order], times * same[order], times * ~same[order]).trues_at(0.05))
    width = np.ptp(np.quantile(expected, [0.025, 0.975]))
    np.testing.assert_allclose(
        np.quantile(found, [0.025, 0.975]), np.quantile(expected, [0.025, 0.975]), atol=0.2 * width
    )


def test_a_sample_of_many(example, monkeypatch):
    monkeypatch.setattr(text_pairs, "MOST", 20)
    images, texts, pairs, labels = example
    found = TextPairs.of(images, texts, pairs, labels)
    assert found.scores.shape == found.same.shape and found.scores.shape[1] == 20 >= found.scores.shape[0]
    # Every compared text belongs to a compared image, and scores and links are those of all pairs.
    assert found.same.any(axis=1).all()
    scores, same, _ = (each.reshape(40, 80) if each.size == 3200 else each for each in naive(*example))
    for row, column in np.ndindex(found.scores.shape):
        near = np.abs(scores - found.scores[row, column]) < 1e-6
        assert near.any() and found.same[row, column] in same[near]
