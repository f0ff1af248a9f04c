"""Ranks of difficult embeddings and classes need about as many products and as much memory as easy ones."""

import threading

import numpy as np
import pytest

from tests.evaluation.ranks.test_positive_ranks import clustered
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.ranks import counts
from tfdml.evaluation.ranks import ranks as module
from tfdml.evaluation.ranks.exact_vectors import ExactVectors
from tfdml.evaluation.ranks.ranks import one_ahead, positive_ranks

ROWS = 400
KINDS = {
    "spread of 0.1": lambda good, random: 1 + 0.1 * good,
    "spread of 0.01": lambda good, random: 1 + 1e-2 * good,
    "spread of 0.001": lambda good, random: 1 + 1e-3 * good,
    "one point": lambda good, random: np.ones_like(good),
    "two points": lambda good, random: np.where(random.random((ROWS, 1)) < 0.5, good[0], good[1]) + 1e-4 * good,
    "duplicates": lambda good, random: good[random.integers(0, 20, ROWS)],
    "a quarter of zeros": lambda good, random: good * (random.random((ROWS, 1)) > 0.25),
    "an outlier": lambda good, random: good * np.where(np.arange(ROWS) == 7, 300, 1)[:, None],
    "far from the origin": lambda good, random: good + 1e4,
    "few values": lambda good, random: np.sign(good),
}


@pytest.fixture
def exact(monkeypatch):
    """A list of how many similarities each exact computation has computed."""
    numbers, many, one = [], ExactVectors.similarities, ExactVectors.similarities_of_one

    def of_many(vectors, queries, rows, out=None):
        found = many(vectors, queries, rows, out)
        numbers.append(found.size)
        return found

    def of_one(vectors, vector, rows):
        numbers.append(len(rows))
        return one(vectors, vector, rows)

    monkeypatch.setattr(ExactVectors, "similarities", of_many)
    monkeypatch.setattr(ExactVectors, "similarities_of_one", of_one)
    return numbers


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [40, 3])
def test_each_pair_is_computed_exactly_once(classes, kind, distance, exact):
    good, labels = clustered(rows=ROWS, classes=classes, dim=24)
    embeddings = KINDS[kind](good, np.random.default_rng(0)).astype(np.float32)
    among_positives = ROWS * np.unique(labels, return_counts=True)[1].max()
    for first_only in (False, True):
        exact.clear()
        list(positive_ranks(embeddings, RetrievalTask.of(labels), distance=distance, first_only=first_only))
        # The rest is from queries with few similarities in doubt.
        assert sum(exact) <= among_positives + (1 + counts.FEW_IN_DOUBT) * ROWS * ROWS


def test_good_embeddings_need_few_exact_ones(exact):
    embeddings, labels = clustered(rows=ROWS, classes=40, dim=24)
    among_positives = np.sum(np.unique(labels, return_counts=True)[1] ** 2)
    for distance in ("cosine", "euclidean"):
        exact.clear()
        list(positive_ranks(embeddings, RetrievalTask.of(labels), distance=distance))
        assert sum(exact) < among_positives + 0.01 * ROWS * ROWS


def test_rows_with_many_positives_are_sorted_once(monkeypatch):
    """Images are not compared with each positive, so the time does not grow with the square of the class size."""
    embeddings, labels = clustered(rows=ROWS, classes=3, dim=24)
    counted, plain = [], counts.count_at_least
    monkeypatch.setattr(counts, "count_at_least", lambda *args: counted.append("") or plain(*args))
    monkeypatch.setattr(counts, "count_from_approximate", None)
    list(positive_ranks(embeddings, RetrievalTask.of(labels)))
    assert len(counted) == ROWS


@pytest.mark.parametrize("classes", [1, 2, 40])
def test_blocks_are_smaller_where_queries_have_many_positives(classes):
    embeddings, labels = np.random.default_rng(0).normal(size=(ROWS, 4)), np.arange(ROWS) % classes
    memory = 2**21
    blocks = [each.ranks.size for each in positive_ranks(embeddings, RetrievalTask.of(labels), memory=memory)]
    assert max(blocks) <= memory // module.POSITIVE
    assert sum(blocks) == ROWS * (ROWS // classes - 1)


def test_the_next_value_is_computed_while_one_is_used():
    begun = [threading.Event() for _ in range(3)]

    def values():
        for number, event in enumerate(begun):
            event.set()
            yield number

    found = []
    for number in one_ahead(values()):
        found.append(number)
        assert number == 2 or begun[number + 1].wait(60)
    assert found == [0, 1, 2]


def test_no_more_than_one_is_ahead():
    made = []
    values = one_ahead(made.append(number) or number for number in range(5))
    assert next(values) == 0
    values.close()
    assert made == [0, 1]


def test_errors_reach_the_user():
    def values():
        yield 1
        raise ValueError("broken")

    found = one_ahead(values())
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken"):
        next(found)
