"""`RankMetric`: a mean over queries."""

import math

import numpy as np

from tfdml.evaluation.metrics.metric import Metric
from tfdml.evaluation.ranks.ranks import PositiveRanks


class RankMetric(Metric):
    """A metric that is the mean of a value for each query, computed from the ranks of its positives."""

    #: Whether the rank of the first positive is enough.
    first_only = False

    def depth(self, positives: np.ndarray) -> np.ndarray | float:
        """Returns how many of the nearest images decide the value; infinity, as by default, for all.

        Args:
            positives: `[B]` number of positives of each query.
        """
        return math.inf

    def per_query(self, ranks: PositiveRanks) -> np.ndarray:
        """Returns the value of each query `[B]`.

        Args:
            ranks: `PositiveRanks` of a block of queries.
        """
        raise NotImplementedError
