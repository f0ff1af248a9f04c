"""All pairs at once: beside a naive loop, beside Tukey's test, and how often equal things are told apart."""

import itertools

import numpy as np
import pytest
from scipy.stats import tukey_hsd

from tfdml.evaluation.all_pairs import all_pairs


def resampled_means(values, samples=500, seed=0):
    """Means `[samples, N]` of resamples of values `[cases, N]`, of the same cases for all."""
    drawn = np.random.default_rng(seed).integers(len(values), size=(samples, len(values)))
    return values[drawn].mean(axis=1)


def naive(means, resampled):
    """Interval and p-value of each pair, from one list of errors after another."""
    pairs = list(itertools.permutations(range(len(means)), 2))
    errors = {(a, b): [(row[a] - row[b]) - (means[a] - means[b]) for row in resampled] for a, b in pairs}
    scale = {pair: float(np.std(each)) for pair, each in errors.items()}
    largest = [max(abs(errors[pair][row]) / scale[pair] for pair in pairs) for row in range(len(resampled))]
    quantile, found = np.quantile(largest, 0.95), {}
    for a, b in pairs:
        difference = means[a] - means[b]
        as_large = sum(each >= abs(difference) / scale[a, b] for each in largest)
        ends = (difference - quantile * scale[a, b], difference + quantile * scale[a, b])
        found[a, b] = (difference, *ends), (1 + as_large) / (1 + len(largest))
    return found


def test_a_naive_loop_finds_the_same():
    values = np.random.default_rng(0).normal(size=(60, 4)) + [0.0, 0.2, 0.5, 0.9]
    means, resampled = values.mean(axis=0), resampled_means(values)
    found, expected = all_pairs(means, resampled), naive(means, resampled)
    for (a, b), (interval, p_value) in expected.items():
        assert found.interval(a, b) == pytest.approx(interval, abs=1e-12)
        assert found.p_values[a, b] == pytest.approx(p_value)
        assert found.larger()[a, b] == (interval[1] > 0)
    assert not found.larger().diagonal().any() and (found.p_values.diagonal() == 1).all()


def test_of_independent_things_it_is_tukeys_test():
    """There normal errors of one size are assumed, here neither: of many cases both find the same."""
    values = np.random.default_rng(3).normal(size=(400, 5)) + [0.0, 0.0, 0.15, 0.2, 0.25]
    found = all_pairs(values.mean(axis=0), resampled_means(values, samples=4000))
    expected = tukey_hsd(*values.T)
    np.testing.assert_allclose(found.p_values, expected.pvalue, atol=0.06)
    ends = expected.confidence_interval(0.95)
    lows = found.differences - found.widths
    # That test gives a thing and itself an interval, too.
    pairs = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(lows[pairs], ends.low[pairs], atol=0.01)
    np.testing.assert_array_equal(found.larger(), ends.low > 0)


def test_equal_things_are_told_apart_in_about_one_of_twenty_studies():
    """Each pair by itself would be in many more: of six things there are 15."""
    wrong = alone = 0
    for trial in range(200):
        values = np.random.default_rng(trial).normal(size=(100, 6))
        means, resampled = values.mean(axis=0), resampled_means(values, samples=300, seed=trial)
        wrong += all_pairs(means, resampled).larger().any()
        pairs = itertools.combinations(range(6), 2)
        alone += any(all_pairs(means[[a, b]], resampled[:, [a, b]]).larger().any() for a, b in pairs)
    assert 2 <= wrong <= 20 and alone > 50, (wrong, alone)


def test_things_that_differ_by_as_much_in_every_case():
    values = np.random.default_rng(0).normal(size=(50, 1)) + [0.0, 0.0, 0.1]
    found = all_pairs(values.mean(axis=0), resampled_means(values))
    assert found.larger().tolist() == [[False] * 3, [False] * 3, [True, True, False]]
    assert found.p_values[0, 1] == 1 and found.p_values[2, 0] == pytest.approx(1 / 501)
    np.testing.assert_allclose(found.interval(2, 0), 0.1)


def test_pooled_errors_are_no_smaller_than_their_mean():
    values = np.random.default_rng(0).normal(size=(50, 3)) * [0.01, 0.01, 2.0]
    means, resampled = values.mean(axis=0), resampled_means(values)
    own, pooled = all_pairs(means, resampled), all_pairs(means, resampled, pooled=True)
    assert pooled.widths[0, 1] > 20 * own.widths[0, 1]
    np.testing.assert_allclose(pooled.widths[0, 2], own.widths[0, 2], rtol=0.3)
