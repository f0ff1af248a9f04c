"""Each metric, compared with its literal definition on ranks of random tasks and on random clusters."""

import itertools

import numpy as np
import pytest
import sklearn.metrics

from tests.evaluation.naive_ranks import naive_ranks
from tfdml.evaluation import evaluate
from tfdml.evaluation.metrics import metric_of


def average_precision(ranks, within=None):
    """The list of results, one by one: the precision at each positive, over the number of positives."""
    found, total = 0, 0.0
    for place in range(1, max(ranks) + 1):
        if place in ranks:
            found += 1
            if within is None or place <= within:
                total += found / place
    return total / len(ranks)


def trapezoid(ranks):
    """The area under the curve of precision over recall, by straight lines, as Market-1501's authors compute it."""
    area, old_recall, old_precision, found = 0.0, 0.0, 1.0, 0
    for place in range(1, max(ranks) + 1):
        found += place in ranks
        recall, precision = found / len(ranks), found / place
        area += (recall - old_recall) * (old_precision + precision) / 2
        old_recall, old_precision = recall, precision
    return area


DEFINITIONS = {
    "recall_at_3": lambda ranks: min(ranks) <= 3,
    "cmc_at_2": lambda ranks: min(ranks) <= 2,
    "precision_at_4": lambda ranks: sum(rank <= 4 for rank in ranks) / 4,
    "r_precision": lambda ranks: sum(rank <= len(ranks) for rank in ranks) / len(ranks),
    "map_at_r": lambda ranks: average_precision(ranks, within=len(ranks)),
    "map": average_precision,
    "map(trapezoid=True)": trapezoid,
    "mrr": lambda ranks: 1 / min(ranks),
}


@pytest.mark.parametrize("spec", DEFINITIONS)
@pytest.mark.parametrize("seed, classes", [(0, 40), (1, 7)])
def test_means_over_queries(spec, seed, classes):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, 120)
    embeddings = random.normal(size=(classes, 5))[labels] + 0.7 * random.normal(size=(120, 5))
    ranks = naive_ranks(embeddings, labels).values()
    found = evaluate(embeddings, labels, spec)
    assert found[metric_of(spec).name] == pytest.approx(np.mean([DEFINITIONS[spec](each) for each in ranks]), abs=1e-12)
    assert found["queries"] == len(ranks)


def pair_counts(labels, clusters):
    pairs = list(itertools.combinations(range(len(labels)), 2))
    same = [labels[one] == labels[other] for one, other in pairs]
    found = [clusters[one] == clusters[other] for one, other in pairs]
    return np.array(same), np.array(found)


def f1(labels, clusters):
    same, found = pair_counts(labels, clusters)
    if not (same & found).any():
        return 0.0
    precision, recall = (same & found).sum() / found.sum(), (same & found).sum() / same.sum()
    return 2 * precision * recall / (precision + recall)


def ari(labels, clusters):
    same, found = pair_counts(labels, clusters)
    expected = same.sum() * found.sum() / len(same)
    return ((same & found).sum() - expected) / ((same.sum() + found.sum()) / 2 - expected)


def entropy(*columns):
    _, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    shares = counts / counts.sum()
    return -np.sum(shares * np.log(shares))


def nmi(labels, clusters):
    shared = entropy(labels) + entropy(clusters) - entropy(labels, clusters)
    return 2 * shared / (entropy(labels) + entropy(clusters))


def purity(labels, clusters):
    return sum(np.bincount(labels[clusters == each]).max() for each in np.unique(clusters)) / len(labels)


def ami(labels, clusters):
    """Corrected by the mean over random orders, which must be near the expectation in closed form."""
    random = np.random.default_rng(0)
    shared = entropy(labels) + entropy(clusters) - entropy(labels, clusters)
    orders = [random.permutation(labels) for _ in range(3000)]
    chance = entropy(labels) + entropy(clusters) - np.mean([entropy(each, clusters) for each in orders])
    return (shared - chance) / ((entropy(labels) + entropy(clusters)) / 2 - chance)


@pytest.mark.parametrize("name", ["nmi", "ari", "f1", "purity", "ami"])
@pytest.mark.parametrize("agreement", [0.0, 0.6, 1.0])
def test_agreement_of_classes_and_clusters(name, agreement):
    random = np.random.default_rng(3)
    labels = random.integers(0, 6, 80)
    clusters = np.where(random.random(80) < agreement, labels, random.integers(0, 5, 80)) * 3 + 1
    expected = globals()[name](labels, clusters)
    # The mean over random orders has its own error.
    assert metric_of(name).value(labels, clusters) == pytest.approx(expected, abs=5e-3 if name == "ami" else 1e-9)


def test_f1_without_a_pair_found():
    assert metric_of("f1").value(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_nmi_is_that_of_scikit_learn(seed):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 9, 80)
    for clusters in (random.integers(0, 7, 80), labels[::-1] + 3, labels // 2, labels * 0, np.arange(80)):
        expected = sklearn.metrics.normalized_mutual_info_score(labels, clusters)
        assert metric_of("nmi").value(labels, clusters) == pytest.approx(expected, abs=1e-12)
    assert metric_of("nmi").value(labels * 0, labels * 0) == 1.0
