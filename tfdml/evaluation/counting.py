"""Counts how many gallery images are at least as similar as thresholds, exactly, from approximate similarities."""

import numpy as np

# Above this many thresholds a row is sorted once instead of compared with each of them.
SORTED_FROM = 26
# A row is replaced by its candidates if they are fewer than this fraction of it.
FEW = 0.25


def count_at_least(row, thresholds, error, exact):
    """Counts, for each threshold, the similarities that are at least as large.

    Where an approximate similarity is farther than `error` from the threshold it decides; where it is nearer, the exact
    one is computed.

    Args:
        row: `[G]` float32, approximate similarities; minus infinity for those that do not count.
        thresholds: `[P]` float64, in ascending order.
        error: `[P]` or a number: how wrong an approximate similarity can be near the thresholds.
        exact: function from indices of the row to their exact similarities, float64.

    Returns:
        `[P]` integers.
    """
    # One float32 further, because float64 is rounded to float32.
    low = np.nextafter((thresholds - error).astype(np.float32), np.float32(-np.inf))
    high = np.nextafter((thresholds + error).astype(np.float32), np.float32(np.inf))
    count = _counts_by_sorting if len(thresholds) > SORTED_FROM else _counts_by_comparing
    return count(row, thresholds, low, high, exact)


def _counts_by_comparing(row, thresholds, low, high, exact):
    counts, places = np.zeros(len(thresholds), np.int64), None
    for index, threshold in enumerate(thresholds):
        candidates = row >= low[index]
        maybe = np.count_nonzero(candidates)
        if not maybe:
            break
        if maybe < FEW * len(row):
            kept = np.flatnonzero(candidates)
            row, places = row[kept], kept if places is None else places[kept]
        sure = np.count_nonzero(row >= high[index])
        counts[index] = sure
        if maybe > sure:
            counts[index] += _count_near(row, places, threshold, low[index], high[index], exact)
    return counts


def _counts_by_sorting(row, thresholds, low, high, exact):
    places = np.flatnonzero(row >= low[0])
    row = row[places]
    ordered = np.sort(row)
    maybe, sure = (len(row) - np.searchsorted(ordered, bounds) for bounds in (low, high))
    counts = sure.astype(np.int64)
    for index in np.flatnonzero(maybe > sure):
        counts[index] += _count_near(row, places, thresholds[index], low[index], high[index], exact)
    return counts


def _count_near(row, places, threshold, low, high, exact):
    near = np.flatnonzero((row >= low) & (row < high))
    return np.count_nonzero(exact(near if places is None else places[near]) >= threshold)
