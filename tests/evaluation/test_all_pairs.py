"""All pairs at once, compared with a naive loop and Tukey's test, and how often equal items differ."""

import itertools

import numpy as np
import pytest
from scipy import stats

from tfdml.evaluation.statistics import Seeds, all_pairs


def resampled_means(values, samples=500, seed=0):
    """Means `[samples, N]` of resamples of values `[cases, N]`, with the same cases for all items."""
    drawn = np.random.default_rng(seed).integers(len(values), size=(samples, len(values)))
    return values[drawn].mean(axis=1)


def naive(means, resampled, degrees, own=None):
    """Interval and p-value of each pair, from one list of errors after another.

    Args:
        means, resampled, degrees: as `all_pairs` takes them.
        own: the variance of each thing over seeds, and its degrees of freedom; None: there are no seeds.
    """
    variances, of_seeds = own or ([0.0] * len(means), 1)
    noise = np.random.default_rng(0).normal(size=resampled.shape) * np.sqrt(variances)
    pairs = list(itertools.permutations(range(len(means)), 2))
    errors = {(a, b): [(row[a] - row[b]) - (means[a] - means[b]) for row in resampled] for a, b in pairs}
    more = (degrees + 1) / degrees
    scale, freedom = {}, {}
    for a, b in pairs:
        parts = [(float(np.var(errors[a, b])) * more, degrees), (variances[a], of_seeds), (variances[b], of_seeds)]
        scale[a, b] = sum(part for part, _ in parts) ** 0.5
        freedom[a, b] = scale[a, b] ** 4 / sum(part**2 / each for part, each in parts)
    largest = []
    for row in range(len(resampled)):
        drawn = [abs(errors[a, b][row] * more**0.5 + noise[row, a] - noise[row, b]) / scale[a, b] for a, b in pairs]
        largest.append(max(drawn))
    quantile, found = max(np.quantile(largest, 0.95), stats.norm.isf(0.025)), {}
    for a, b in pairs:
        difference = means[a] - means[b]
        # The p-value of the pair alone, and of the largest error.
        p_value = stats.t.sf(abs(difference) / scale[a, b], freedom[a, b])
        as_large = sum(stats.norm.sf(each) <= p_value for each in largest)
        width = stats.t.isf(stats.norm.sf(quantile), freedom[a, b]) * scale[a, b]
        ends = (difference - width, difference + width)
        found[a, b] = (difference, *ends), max((1 + as_large) / (1 + len(largest)), 2 * p_value)
    return found


@pytest.mark.parametrize("own", [None, ([0.01, 0.0, 0.002, 0.03], 2)])
def test_a_naive_loop_finds_the_same(own):
    values = np.random.default_rng(0).normal(size=(60, 4)) + [0.0, 0.2, 0.5, 0.9]
    means, resampled = values.mean(axis=0), resampled_means(values)
    found = all_pairs(means, resampled, 11.5, own and Seeds(*own))
    expected = naive(means, resampled, 11.5, own)
    for (a, b), (interval, p_value) in expected.items():
        assert found.interval(a, b) == pytest.approx(interval, abs=1e-12)
        assert found.p_values[a, b] == pytest.approx(p_value)
        assert found.larger()[a, b] == (interval[1] > 0)
    assert not found.larger().diagonal().any() and (found.p_values.diagonal() == 1).all()


def test_of_independent_things_it_is_tukeys_test():
    """Tukey's test assumes normal errors of equal size, and ours does not. With many cases, both agree."""
    values = np.random.default_rng(3).normal(size=(400, 5)) + [0.0, 0.0, 0.15, 0.2, 0.25]
    found = all_pairs(values.mean(axis=0), resampled_means(values, samples=4000), 399)
    expected = stats.tukey_hsd(*values.T)
    np.testing.assert_allclose(found.p_values, expected.pvalue, atol=0.06)
    ends = expected.confidence_interval(0.95)
    lows = found.differences - found.widths
    # Tukey's test also has an interval for an item and itself.
    pairs = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(lows[pairs], ends.low[pairs], atol=0.012)
    np.testing.assert_array_equal(found.larger(), ends.low > 0)


def test_equal_things_are_told_apart_in_about_one_of_twenty_studies():
    """Without the correction, there would be many more errors, because six items have 15 pairs."""
    wrong = alone = 0
    for trial in range(200):
        values = np.random.default_rng(trial).normal(size=(100, 6))
        means, resampled = values.mean(axis=0), resampled_means(values, samples=300, seed=trial)
        wrong += all_pairs(means, resampled, 99).larger().any()
        pairs = itertools.combinations(range(6), 2)
        alone += any(all_pairs(means[[a, b]], resampled[:, [a, b]], 99).larger().any() for a, b in pairs)
    assert 2 <= wrong <= 20 and alone > 50, (wrong, alone)


def test_few_cases_tell_equal_things_apart_as_seldom():
    """With 24 cases, treating the estimated standard error as known would do so in 12% of trials."""
    wrong = 0
    for trial in range(300):
        values = np.random.default_rng(trial).normal(size=(24, 6))
        resampled = resampled_means(values, samples=300, seed=trial)
        wrong += all_pairs(values.mean(axis=0), resampled, 23).larger().any()
    assert 5 <= wrong <= 24, wrong


def test_things_that_differ_by_as_much_in_every_case():
    values = np.random.default_rng(0).normal(size=(50, 1)) + [0.0, 0.0, 0.1]
    found = all_pairs(values.mean(axis=0), resampled_means(values), 49)
    assert found.larger().tolist() == [[False] * 3, [False] * 3, [True, True, False]]
    assert found.p_values[0, 1] == 1 and found.p_values[2, 0] == pytest.approx(1 / 501)
    np.testing.assert_allclose(found.interval(2, 0), 0.1)
