"""The rank of every positive of every query, from similarities that are no inner products."""

import numpy as np

from tfdml.evaluation.ranks.counting import count_at_least
from tfdml.evaluation.ranks.exact_vectors import TIE
from tfdml.evaluation.ranks.ranks import PositiveRanks


def ranks_of_similarities(blocks, task, *, first_only=False):
    """Yields `PositiveRanks` of blocks of queries, as `positive_ranks` does.

    Args:
        blocks: iterable of rows of queries `[B]` and their similarities `[B, G]` to `task.gallery`, float64, from
            -1 to 1.
        task: `RetrievalTask`.
        first_only: as of `positive_ranks`.
    """
    for rows, similarities in blocks:
        same = task.labels[rows, None] == task.labels[task.gallery]
        counted = same & task.countable(rows, task.gallery)
        kept = np.flatnonzero(counted.any(axis=1))
        if len(kept):
            positives = counted[kept].sum(axis=1)
            ahead = [_ahead(similarities[place], same[place], counted[place], first_only) for place in kept]
            yield PositiveRanks.of(rows[kept], positives, ahead)


def _ahead(similarities, same, counted, first_only):
    """Returns the number of negatives that are as similar as each positive, the farthest positive first."""
    thresholds = np.sort(similarities[counted])[-1 if first_only else 0 :] - TIE
    return count_at_least(np.where(same, -np.inf, similarities), thresholds)
