"""Images to label next are those of a loop, unlike the labeled ones, and one of each group of duplicates."""

import numpy as np
import pytest

from tfdml.neighbors import suggestions
from tfdml.neighbors.nearest import unit_length
from tfdml.neighbors.suggestions import suggested

VECTORS = np.random.default_rng(0).normal(size=(40, 4))
LABELS = [f"class {row % 3}" if row < 12 else None for row in range(40)]


def naive(vectors, labels, count, decisions, duplicates):
    """By loops, with all sums computed again for each choice."""
    vectors = unit_length(vectors.astype(np.float32)).astype(float)
    similar = vectors @ vectors.T
    known = [row for row, label in enumerate(labels) if label is not None]
    pool = [row for row, label in enumerate(labels) if label is None]

    def margin(row):
        nearest = {}
        for other in known:
            nearest[labels[other]] = max(nearest.get(labels[other], -1), similar[row, other])
        best, second = sorted(nearest.values(), reverse=True)[:2]
        return best - second

    order = sorted(pool, key=margin)
    weight = {row: 1 - decisions * place / len(pool) for place, row in enumerate(order)}
    chosen = []

    def covered(rows, by):
        return sum(weight[row] * max(similar[row, other] for other in by) for row in rows)

    while len(chosen) < count:
        left = [row for row in pool if all(similar[row, other] < duplicates for other in [*known, *chosen])]
        left = [row for row in left if row not in chosen]
        if not left:
            break
        chosen.append(max(left, key=lambda row: covered(pool, [*known, *chosen, row])))
    nearest = [max(known, key=lambda other: similar[row, other]) for row in chosen]
    return chosen, nearest, [margin(row) for row in chosen]


@pytest.mark.parametrize("decisions", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("duplicates", [2.0, 0.8])
def test_the_choice_is_that_of_a_loop(decisions, duplicates):
    found = suggested(VECTORS, LABELS, 12, decisions=decisions, duplicates=duplicates)
    rows, nearest, margins = naive(VECTORS, LABELS, 12, decisions, duplicates)
    assert found.rows.tolist() == rows and found.nearest.tolist() == nearest
    np.testing.assert_allclose(found.margins, margins, atol=1e-5)


def test_one_of_each_group_of_duplicates_and_none_of_labeled_images():
    groups = np.repeat(np.arange(6), 5)
    vectors = np.random.default_rng(1).normal(size=(6, 8))[groups]
    vectors += 1e-3 * np.random.default_rng(2).normal(size=vectors.shape)
    labels = ["a" if row in (0, 7) else None for row in range(30)]
    found = suggested(vectors, labels, 30)
    assert sorted(groups[found.rows]) == [2, 3, 4, 5]


def test_without_labels_the_most_typical_images_come_first():
    random = np.random.default_rng(3)
    centers, sizes = random.normal(size=(3, 16)), [30, 20, 10]
    vectors = np.repeat(centers, sizes, axis=0) + 0.2 * random.normal(size=(60, 16))
    found = suggested(vectors, [None] * 60, 3, duplicates=2.0)
    assert set(np.repeat([0, 1, 2], sizes)[found.rows]) == {0, 1, 2}
    assert found.nearest.tolist() == [-1] * 3 and found.margins.tolist() == [0] * 3


def test_near_decisions_count_more():
    """Two groups equally far from the classes: the larger one is near one class, and the other between both."""
    labeled, between, clear = [[1, 0, 0], [0, 1, 0]], [[1, 1, 1.5]] * 5, [[1, 0, 1.803]] * 6
    vectors = np.array([*labeled, *between, *clear], float)
    vectors += 0.001 * np.random.default_rng(4).normal(size=vectors.shape)
    labels = ["a", "b", *[None] * 11]
    first = {decisions: suggested(vectors, labels, 1, decisions=decisions).rows[0] for decisions in (0.0, 1.0)}
    assert 2 <= first[1.0] < 7 <= first[0.0]


def test_a_large_pool_is_sampled_by_the_seed(monkeypatch):
    monkeypatch.setattr(suggestions, "MOST", 10)
    monkeypatch.setattr(suggestions, "MEMORY", 64)
    one, again, other = (suggested(VECTORS, LABELS, 10, seed=seed).rows.tolist() for seed in (0, 0, 1))
    assert one == again != other and len(one) == 10 and min(one + other) >= 12
