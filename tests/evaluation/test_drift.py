"""The test for drift has its nominal error rate, finds differences, and its intervals are those of the literature."""

import numpy as np
import pytest

from tfdml.evaluation.drift import Drift, energy_test, mean_difference, share_difference


def naive_energy(one, other):
    def mean_distance(some, others):
        return np.mean([[np.linalg.norm(a - b) for b in others] for a in some])

    between = 2 * mean_distance(one, other)
    return (between - mean_distance(one, one) - mean_distance(other, other)) / between


def test_the_distance_is_that_of_a_loop():
    random = np.random.default_rng(0)
    one, other = random.normal(size=(7, 3)), random.normal(0.5, size=(9, 3))
    assert energy_test(one, other, permutations=9)[0] == pytest.approx(naive_energy(one, other))
    points = np.ones((5, 2)), np.zeros((4, 2))
    assert energy_test(*points, permutations=9)[0] == pytest.approx(1)
    assert energy_test(points[0], points[0], permutations=9) == (0.0, 1.0)


def test_the_p_value_is_that_of_a_loop_over_all_permutations():
    random = np.random.default_rng(1)
    one, other = random.normal(size=(6, 2)), random.normal(1.0, size=(5, 2))
    pooled = np.concatenate([one, other])

    def energy(order):
        first, second = pooled[order < 6], pooled[order >= 6]
        cross = np.mean(np.linalg.norm(first[:, None] - second, axis=-1))
        return naive_energy(first, second) * 2 * cross

    # The same draws as the function makes, one after another.
    orders = np.random.default_rng(4).random((200, 11)).argsort(axis=1)
    expected = (1 + sum(energy(order) >= energy(np.arange(11)) - 1e-12 for order in orders)) / 201
    assert energy_test(one, other, permutations=200, seed=4)[1] == pytest.approx(expected)


def test_a_large_offset_changes_nothing():
    random = np.random.default_rng(2)
    one, other = random.normal(size=(40, 3)), random.normal(0.3, size=(30, 3))
    near, far = (energy_test(one + offset, other + offset, permutations=99) for offset in (0, 1e6))
    assert far[0] == pytest.approx(near[0], abs=1e-4) and far[1] == near[1]


@pytest.mark.nightly
def test_the_error_rate_is_the_nominal_one():
    """Of 1,000 comparisons of equal sources, heavy-tailed and of different sizes, 5% are found to differ."""
    random, times = np.random.default_rng(0), 1000
    found = []
    for seed in range(times):
        queries, reference = random.standard_t(3, size=(30, 3)), random.standard_t(3, size=(45, 3))
        nearest = queries[:, 0], reference[:, 0]
        found.append(Drift.between(queries, reference, nearest, permutations=99, seed=seed).p_value)
    for level in (0.05, 0.1, 0.2):
        # Three standard deviations of a binomial share.
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level * (1 - level) / times)
    assert np.mean(np.array(found) <= 0.2) > 0.1


@pytest.mark.parametrize("where", ["embeddings", "nearest"])
def test_differences_of_either_kind_are_found(where):
    random = np.random.default_rng(0)
    embeddings, nearest = random.normal(size=(2, 80, 4)), random.normal(size=(2, 80))
    same = Drift.between(*embeddings, nearest)
    if where == "embeddings":
        embeddings[0] += 0.7
    else:
        nearest[0] -= 1
    other = Drift.between(*embeddings, nearest, threshold=-0.5)
    assert not same.differs and other.differs and other.p_value <= 0.002 * 2
    assert same.unknown is None and (other.queries, other.reference) == (80, 80)
    mean, expected, (low, high) = other.similarity
    assert (mean, expected) == pytest.approx((nearest[0].mean(), nearest[1].mean())) and low < mean - expected < high
    assert other.unknown[:2] == pytest.approx([np.mean(each < -0.5) for each in nearest])


def test_the_interval_of_shares_is_newcombes():
    """The first example in table II of Newcombe (1998), method 10; shares of 0 have an interval, too."""
    found = share_difference(np.arange(70) < 56, np.arange(80) < 48)
    assert found[:2] == (0.8, 0.6) and found[2] == pytest.approx([0.0524, 0.3339], abs=5e-5)
    assert share_difference(np.zeros(10, bool), np.zeros(20, bool))[2] == pytest.approx([-0.1611, 0.2775], abs=5e-5)


def test_the_interval_of_means_covers_the_truth():
    random, times, inside = np.random.default_rng(0), 300, 0
    for seed in range(times):
        one, other = random.exponential(size=50), random.exponential(size=70)
        low, high = mean_difference(one, other, seed=seed)[2]
        inside += low <= 0 <= high
    assert 0.9 <= inside / times <= 0.98


@pytest.mark.parametrize("sizes", [(29, 30), (30, 29)])
def test_too_few_images_are_one_clear_line(sizes):
    one, other = (np.zeros((size, 2)) for size in sizes)
    name = "queries" if sizes[0] < 30 else "reference images"
    with pytest.raises(ValueError, match=rf"^Expected at least 30 {name} to judge drift. Received: 29.$"):
        Drift.between(one, other, (one[:, 0], other[:, 0]))
