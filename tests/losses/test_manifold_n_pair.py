import math

import numpy as np
import pytest

from tests.of_batches import of_batches
from tfdml.losses import ManifoldNPair


def walked(embeddings, restart, affinity, neighbors):
    """Equation (9) of EDMS on a batch alone: a walk step by step from every row, in float64."""
    rows = [row / math.sqrt(sum(row * row)) for row in np.asarray(embeddings, np.float64)]
    change = {"clipped": lambda cosine: max(0.0, cosine), "shifted": lambda cosine: (1 + cosine) / 2}[affinity]
    weights = [[change(sum(one * other)) for other in rows] for one in rows]
    if neighbors:
        weights = of_neighbors(weights, neighbors)
    degrees = [sum(row) for row in weights]
    steps = np.zeros((len(rows), len(rows)))
    for i, j in np.ndindex(steps.shape):
        if i != j:
            steps[i, j] = weights[i][j] / math.sqrt(degrees[i] * degrees[j])
    here = np.eye(len(rows))
    reached = (1 - restart) * here
    for length in range(1, 1000):
        here = steps @ here
        reached = reached + (1 - restart) * restart**length * here
    return reached


def of_neighbors(weights, count):
    """The affinities of a row and itself, and of rows one of which is among the other's nearest."""
    size = len(weights)

    def near(i, j):
        others = sorted((weights[i][k] for k in range(size) if k != i), reverse=True)
        return weights[i][j] >= others[:count][-1]

    return [[weights[i][j] * (i == j or near(i, j) or near(j, i)) for j in range(size)] for i in range(size)]


def naive(labels, embeddings, margin=5e-4, scale=1.0, restart=0.8, affinity="clipped", neighbors=None):
    """Equation (3) of EDMS with these similarities, pair by pair."""
    reached, size, values = walked(embeddings, restart, affinity, neighbors), len(labels), []
    for a in range(size):
        positives = [p for p in range(size) if labels[p] == labels[a] and p != a]
        negatives = [n for n in range(size) if labels[n] != labels[a]]
        costs = [
            math.log(1 + sum(math.exp(scale * (reached[a, n] - reached[a, p] + margin)) for n in negatives))
            for p in positives
        ]
        values.append(sum(costs) / len(costs) if positives and negatives else 0.0)
    return values


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"margin": 0.5},
        {"margin": 0.1, "scale": 50.0},
        {"restart": 0.3},
        {"affinity": "shifted", "restart": 0.5},
        {"neighbors": 2, "scale": 50.0},
    ],
    ids=["defaults", "margin", "scale", "restart", "shifted", "neighbors"],
)
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (6, 1, 4), (9, 99, 3)], (1e-5, 1e-10))
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = ManifoldNPair(**arguments).call(labels, embeddings)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, **arguments)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def test_by_hand():
    # The first two are equal, the third is at a right angle: only a step between the first two, of 1 / 2.
    values = ManifoldNPair(margin=0.1).call([3, 3, 5], np.array([[1.0, 0], [2, 0], [0, 1]]))
    reached = 0.2 * 0.4 / (1 - 0.4**2)
    np.testing.assert_allclose(values, [math.log(1 + math.exp(0.1 - reached))] * 2 + [0])


def test_bad_arguments_are_told():
    with pytest.raises(ValueError, match="restart to be a number above 0 and below 1; received 1.5"):
        ManifoldNPair(restart=1.5).call([0], np.eye(1))
