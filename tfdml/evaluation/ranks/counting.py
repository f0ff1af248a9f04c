"""Counts how many gallery images are at least as similar as thresholds."""

import numpy as np

# Above this many thresholds a row is sorted once instead of compared with each of them.
SORTED_FROM = 26
# A row is replaced by its candidates if they are fewer than this fraction of it.
FEW = 0.25


def count_at_least(row, thresholds):
    """Counts, for each threshold, the similarities that are at least as large.

    Args:
        row: `[G]` floats; minus infinity for those that do not count.
        thresholds: `[P]` floats, in ascending order.

    Returns:
        `[P]` integers.
    """
    if len(thresholds) > SORTED_FROM:
        ordered = np.sort(row[row >= thresholds[0]])
        return len(ordered) - np.searchsorted(ordered, thresholds)
    counts = np.zeros(len(thresholds), np.int64)
    for index, threshold in enumerate(thresholds):
        candidates = row >= threshold
        counts[index] = np.count_nonzero(candidates)
        if not counts[index]:
            break
        if counts[index] < FEW * len(row):
            row = row[candidates]
    return counts


def count_from_approximate(row, thresholds, error, exact, most):
    """Counts as `count_at_least`, exactly, from approximate similarities, or returns None if too many are in doubt.

    Where an approximate similarity is farther than `error` from the threshold it decides. Of those that are nearer to
    any threshold, the exact ones are computed, once for all thresholds.

    Args:
        row: `[G]` float32, approximate similarities; minus infinity for those that do not count.
        thresholds: `[P]` float64, in ascending order.
        error: how wrong an approximate similarity can be near the thresholds.
        exact: function from indices of the row to their exact similarities, float64.
        most: the most exact similarities that may be computed.
    """
    # One float32 further, because float64 is rounded to float32.
    low = np.nextafter((thresholds - error).astype(np.float32), np.float32(-np.inf))
    high = np.nextafter((thresholds + error).astype(np.float32), np.float32(np.inf))
    if len(thresholds) > SORTED_FROM:
        # So many that most candidates are near one of them.
        near = np.flatnonzero(row >= low[0])
        return count_at_least(exact(near), thresholds) if len(near) <= most else None
    counts, doubts, places = np.zeros(len(thresholds), np.int64), {}, None
    for index in range(len(thresholds)):
        candidates = row >= low[index]
        maybe = np.count_nonzero(candidates)
        if not maybe:
            break
        if maybe < FEW * len(row):
            kept = np.flatnonzero(candidates)
            row, places = row[kept], kept if places is None else places[kept]
        counts[index] = np.count_nonzero(row >= high[index])
        if maybe - counts[index] > most:
            return None
        if maybe > counts[index]:
            near = np.flatnonzero((row >= low[index]) & (row < high[index]))
            doubts[index] = near if places is None else places[near]
    if not doubts:
        return counts
    every = np.unique(np.concatenate(list(doubts.values())))
    if len(every) > most:
        return None
    similarities = exact(every)
    for index, near in doubts.items():
        counts[index] += np.count_nonzero(similarities[np.searchsorted(every, near)] >= thresholds[index])
    return counts
