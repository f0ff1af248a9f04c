"""The most similar gallery image of each query, of its class and of others."""

import numpy as np


def best_matches(pairs):
    """Returns the bins, see `Pairs.scores_of`, of the nearest of the query's class and of others, `[2, Q]`; 0 for none.

    Args:
        pairs: `Pairs`; a query is not its own match.
    """
    found = np.zeros([2, len(pairs.task.labels)], np.int64)
    for rows, (queries, positives), negatives in pairs.blocks(once=False):
        np.maximum.at(found[0], rows[queries], positives)
        found[1, rows] = np.maximum(found[1, rows], negatives.max(axis=1))
    return found[:, pairs.queries]
