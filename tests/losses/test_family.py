"""The map of the family in docs/losses.md: which loss is another one, or its limit."""

import numpy as np
import pytest

from tests.losses.loops import distance
from tfdml import losses


@pytest.fixture
def batch(make_batch):
    """Unit-length rows of several classes."""
    return make_batch(14, 4, 5, seed=3, dtype="float64")


@pytest.fixture
def views(make_batch):
    """Two rows of each class."""
    return np.repeat(np.arange(7), 2), make_batch(14, 4, 5, dtype="float64")[1]


HINGES = {"squared_positives": False, "distance": "cosine", "positive_margin": 0.5, "margin": 0.5}
ALIKE = [
    (losses.NTXent(temperature=0.2), losses.NPair(normalize=True, scale=5.0)),
    (losses.TupletMargin(margin=0.0, scale=5.0), losses.NPair(normalize=True, scale=5.0)),
    (
        losses.ThresholdConsistentMargin(),
        losses.Contrastive(**{**HINGES, "positive_margin": 0.1}, mean="nonzero"),
    ),
    (losses.RankedListSimpler(margin=0.6), losses.RankedList(alpha=1.3, margin=0.6)),
]
OF_VIEWS = [
    (losses.SupCon(temperature=0.2), losses.NTXent(temperature=0.2)),
    (losses.SupCon(temperature=0.2), losses.NCA(distance="cosine", scale=5.0)),
    (losses.PNP(form="Dq", temperature=0.1), losses.SmoothAP(temperature=0.1)),
]


@pytest.mark.parametrize("one, other", ALIKE, ids=lambda loss: type(loss).__name__)
def test_the_same(batch, one, other):
    np.testing.assert_allclose(one.call(*batch), other.call(*batch), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("one, other", OF_VIEWS, ids=lambda loss: type(loss).__name__)
def test_the_same_with_one_positive_per_anchor(views, one, other):
    np.testing.assert_allclose(one.call(*views), other.call(*views), rtol=1e-9, atol=1e-12)


def test_sup_con_is_nca_up_to_a_constant(batch):
    labels, rows = batch
    count = np.array([sum(labels == label) - 1 for label in labels])
    gap = losses.SupCon(form="in", temperature=0.2).call(labels, rows) - losses.NCA(distance="cosine", scale=5.0).call(
        labels, rows
    )
    np.testing.assert_allclose(gap[count > 0], np.log(count[count > 0]), rtol=1e-9, atol=1e-12)


def test_n_pair_with_one_negative_is_a_smooth_triplet():
    labels, rows = [0, 0, 1], np.random.default_rng(0).normal(size=(3, 4))
    triplet = losses.Triplet(distance="dot", form="smooth", margin=0.0, mining="all")
    np.testing.assert_allclose(losses.NPair().call(labels, rows), triplet.call(labels, rows), rtol=1e-9)


def test_limits_of_soft_maxima(batch):
    labels, rows = batch
    hardest = losses.Triplet(distance="dot", mining="hard", margin=0.2).call(labels, rows)
    np.testing.assert_allclose(losses.NPair(scale=1e5, margin=0.2).call(labels, rows) / 1e5, hardest, atol=1e-4)
    hinge = losses.Triplet(distance="dot", mining="all", margin=0.0).call(labels, rows)
    smooth = losses.Triplet(distance="dot", mining="all", margin=0.0, form="smooth").call(labels, 300.0 * rows) / 9e4
    np.testing.assert_allclose(smooth, hinge, atol=1e-4)
    deviance = losses.BinomialDeviance(alpha=1e5, negative_cost=1.0).call(labels, rows) / 1e5
    np.testing.assert_allclose(deviance, losses.Contrastive(**HINGES, mean="pairs").call(labels, rows), atol=1e-4)
    pulls, pushes = [], []
    for label, row in zip(labels, rows, strict=True):
        kinds = labels == label, labels != label
        near, far = ([row @ other for other in rows[kind] if other is not row] for kind in kinds)
        near = [s for s in near if s < 1 - 1e-9]
        pulls.append(max(0.0, 0.5 - min(near, default=1.0)))
        pushes.append(max(0.0, max(far) - 0.5))
    similar = losses.MultiSimilarity(mining="all", alpha=1e5, beta=1e5).call(labels, rows)
    np.testing.assert_allclose(similar, np.add(pulls, pushes), atol=1e-4)


def test_ranked_list_without_temperatures_is_a_mean_of_hinges(batch):
    labels, rows = batch
    found = losses.RankedList(alpha=1.2, margin=0.4, negative_temperature=0.0).call(labels, rows)
    for i, row in enumerate(rows):
        apart = [distance(row, other) for other in rows]
        near = [apart[j] - 0.8 for j in range(len(rows)) if labels[j] == labels[i] and j != i and apart[j] > 0.8]
        far = [1.2 - apart[j] for j in range(len(rows)) if labels[j] != labels[i] and apart[j] < 1.2]
        expected = (np.mean(near) if near else 0.0) / 2 + (np.mean(far) if far else 0.0) / 2
        assert float(found[i]) == pytest.approx(expected, rel=1e-9)


def average_precision(labels, rows):
    values = []
    for i, row in enumerate(rows):
        ranking = sorted((j for j in range(len(rows)) if j != i), key=lambda j: -(rows[j] @ row))
        places = [place for place, j in enumerate(ranking, 1) if labels[j] == labels[i]]
        values.append(1 - np.mean([n / place for n, place in enumerate(places, 1)]) if places else 0.0)
    return values


def test_limit_of_smooth_ap(batch):
    expected = average_precision(*batch)
    np.testing.assert_allclose(losses.SmoothAP(temperature=1e-6).call(*batch), expected, atol=1e-6)


def test_proxy_losses(make_similarities):
    labels, cosines = make_similarities(9, 7, dtype="float64")
    plain = losses.NormSoftmax(temperature=0.125).call(labels, cosines)
    lengths = np.stack([cosines, np.ones_like(cosines)], axis=2)
    for loss, taken in (
        (losses.ArcFace(scale=8.0, margin=0.0), cosines),
        (losses.CosFace(scale=8.0, margin=0.0), cosines),
        (losses.SphereFace(scale=8.0, margin=1), lengths),
        (losses.ProxyNCA(scale=4.0, exclude_positive=False), cosines),
        (losses.SoftTriple(scale=8.0, margin=0.0, per_class=1), cosines),
        (losses.SubCenterArcFace(scale=8.0, margin=0.0, per_class=1), cosines),
    ):
        np.testing.assert_allclose(loss.call(labels, taken), plain, rtol=1e-9)
    robust = losses.GeneralizedCrossEntropy(q=1e-7, temperature=0.125).call(labels, cosines)
    np.testing.assert_allclose(robust, plain, rtol=1e-5)
