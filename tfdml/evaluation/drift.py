"""Tests whether two sets of images differ: in their embeddings, and in their similarity to an index."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from tfdml.evaluation.statistics import CONFIDENCE, percentile_intervals, resampled_means

# With fewer images, only very large differences can be seen.
FEWEST = 30
# Bytes for the permutations that are evaluated at once.
MEMORY = 2**27


@dataclass(frozen=True)
class Drift:
    """How queries differ from a reference.

    `p_value` is the probability of differences as large as these, in embeddings or in nearest similarities, if both
    sets came from one source. `distance` is the energy distance of the embeddings as a fraction, from 0 (no difference)
    to 1. `similarity` and `unknown` are tuples of the queries' mean, the reference's mean, and the 95% confidence
    interval of the difference: of the nearest similarity, and of the share below the threshold (`None` without one).
    """

    queries: int
    reference: int
    p_value: float
    distance: float
    similarity: tuple
    unknown: tuple | None

    @property
    def differs(self):
        """Whether the sets differ by more than chance, with an error rate of 5%."""
        return self.p_value <= 1 - CONFIDENCE

    @classmethod
    def between(cls, queries, reference, nearest, threshold=None, *, permutations=999, seed=0):
        """Compares embeddings `[n, d]` of queries with embeddings `[m, d]` of a reference.

        `nearest` are the similarities `[n]` and `[m]` of both to the nearest image in an index, of which those below
        the `threshold` are unknown. Each kind of value is tested on its own, and the smaller p-value is doubled, so
        that both tests together have the error rate of one.

        Raises:
            ValueError: If one of the sets is too small.
        """
        for name, rows in (("queries", queries), ("reference images", reference)):
            if len(rows) < FEWEST:
                raise ValueError(f"Expected at least {FEWEST} {name} to judge drift. Received: {len(rows)}.")
        distance, p_value = tested(queries, reference, nearest, permutations=permutations, seed=seed)
        unknown = None if threshold is None else share_difference(*(np.asarray(each) < threshold for each in nearest))
        return cls(len(queries), len(reference), p_value, distance, mean_difference(*nearest, seed=seed), unknown)


def tested(queries, reference, nearest, *, permutations=999, seed=0):
    """Returns the energy distance of the embeddings as a fraction, and the p-value; see `Drift`."""
    distance, of_embeddings = energy_test(queries, reference, permutations=permutations, seed=seed)
    of_nearest = [np.asarray(each, float)[:, None] for each in nearest]
    return distance, min(1.0, 2 * min(of_embeddings, energy_test(*of_nearest, permutations=permutations, seed=seed)[1]))


def energy_test(one, other, *, permutations=999, seed=0):
    """Returns the energy distance of two samples `[n, d]` and `[m, d]` as a fraction, and the p-value of a test.

    With the mean distance A between the samples, and B and C within them, the fraction is (2A - B - C) / 2A: 0 for
    equal distributions, and 1 for two different points. The p-value is the share of random divisions of the pooled rows
    into n and m rows with at least this distance, and counts the observed one, so the test has at most its nominal
    error rate for any sample size. See Székely and Rizzo, "Testing for equal distributions in high dimension", 2004.
    """
    pooled = np.concatenate([one, other]).astype(np.float64)
    pooled -= pooled.mean(axis=0)
    squares = np.sum(pooled**2, axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * pooled @ pooled.T, 0))
    np.fill_diagonal(distances, 0)
    random, sizes = np.random.default_rng(seed), (len(one), len(other))
    observed, fraction = _energies(distances, (np.arange(len(pooled)) < len(one))[None], sizes)
    block, reached = max(1, MEMORY // (16 * len(pooled))), 0
    for start in range(0, permutations, block):
        order = random.random((min(block, permutations - start), len(pooled))).argsort(axis=1)
        energies, _ = _energies(distances, order < len(one), sizes)
        # Divisions of equal rows have equal distances, except for rounding.
        reached += int(np.sum(energies >= observed[0] - 1e-9 * abs(observed[0])))
    return float(fraction[0]), (1 + reached) / (1 + permutations)


def _energies(distances, masks, sizes):
    """Returns the energy distances, and the same as a fraction, of divisions `[P, N]` of rows into two samples."""
    masks = masks.astype(np.float64)
    first = np.sum(masks @ distances * masks, axis=1)
    crossed = masks @ distances.sum(axis=1) - first
    second = distances.sum() - first - 2 * crossed
    between = crossed / (sizes[0] * sizes[1])
    energies = 2 * between - first / sizes[0] ** 2 - second / sizes[1] ** 2
    return energies, energies / np.maximum(2 * between, np.finfo(float).tiny)


def mean_difference(one, other, *, seed=0):
    """Returns both means, and the bootstrap interval `[low, high]` of the first mean minus the second."""
    means = [
        resampled_means(np.asarray(each, float)[:, None], seed=[seed, number])
        for number, each in enumerate((one, other))
    ]
    return float(np.mean(one)), float(np.mean(other)), percentile_intervals(means[0] - means[1])[0]


def share_difference(one, other):
    """Returns both shares of booleans, and the interval `[low, high]` of the first share minus the second.

    The interval combines Wilson's intervals of both shares, so it is also valid for shares of 0. See Newcombe,
    "Interval estimation for the difference between independent proportions", 1998, method 10.
    """
    (first, low, high), (second, other_low, other_high) = map(_wilson, (one, other))
    below = np.hypot(first - low, other_high - second)
    above = np.hypot(high - first, second - other_low)
    return first, second, [float(first - second - below), float(first - second + above)]


def _wilson(values):
    """Returns the share of booleans and the ends of its interval."""
    count, share, z = len(values), float(np.mean(values)), NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    width = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return share, float(middle - width), float(middle + width)
