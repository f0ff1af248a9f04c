"""Statistics of losses on a batch, against loops over its pairs."""

import math

import numpy as np
import pytest

from tests.losses.loops import ranked_list_of
from tfdml.losses import (
    Contrastive,
    LiftedStructure,
    Margin,
    MultiSimilarity,
    Nested,
    RankedList,
    RankedListSimpler,
    ThresholdConsistentMargin,
    Triplet,
    WeightedSum,
)
from tfdml.registry import create

ROWS = 14


@pytest.fixture(params=range(2))
def batch(make_batch, request):
    """Classes of several sizes, one of a single row."""
    labels, embeddings = make_batch(ROWS, 4, seed=request.param, dtype="float64")
    labels[0] = 99
    return labels, embeddings


def distance_of(rows):
    return np.linalg.norm(rows[:, None] - rows[None], axis=-1)


def described(distance, positives, negatives):
    """The same by loops: pairs are lists of (anchor, other)."""
    anchors = {i for i, _ in [*positives, *negatives]}
    found = {"active_anchors": len(anchors) / ROWS}
    for name, pairs in (("positive", positives), ("negative", negatives)):
        found[f"mined_{name}s"] = len(pairs) / ROWS
        found[f"mined_{name}_distance"] = np.mean([distance[pair] for pair in pairs]) if pairs else math.nan
    return found


def pairs_where(labels, is_positive, is_negative):
    """Pairs by what holds for an anchor and another row."""
    others = [(i, j) for i in range(ROWS) for j in range(ROWS) if i != j]
    positives = [(i, j) for i, j in others if labels[i] == labels[j] and is_positive(i, j)]
    return positives, [(i, j) for i, j in others if labels[i] != labels[j] and is_negative(i, j)]


def assert_says(loss, batch, expected):
    found = loss.statistics(*batch)
    assert expected.keys() <= found.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("spec", ["triplet(mining='given', margin=0.5)", "contrastive(pairs='given')"])
def test_pairs_that_the_sampler_drew(spec, batch):
    labels, rows = batch
    labels = np.array([0, 1, 2, 3, 0, 1, 9, 0, 2, 2, 2, 3, 0, 1])
    loss = create("loss", spec)
    active = loss.call(labels, rows) > 0
    found = loss.statistics(labels, rows)
    assert 0 < np.mean(active) < 1 and float(found["active_anchors"]) == pytest.approx(np.mean(active))
    ends = found["mined_positives"] + found.get("mined_negatives", 0.0)
    assert float(ends) == pytest.approx(np.mean(active))


@pytest.mark.parametrize("spec", ["proxy_anchor", "contextual_manifold"])
def test_losses_with_proxies_are_not_computed_again(spec, monkeypatch):
    loss = create("loss", spec, classes=3)
    monkeypatch.setattr(type(loss), "call", None)
    assert loss.statistics(np.arange(3), np.eye(3)) == {}


@pytest.mark.few_by_day(18)
def test_the_loss_of_an_anchor_is_active_or_0(pair_loss_spec, batch):
    loss = create("loss", pair_loss_spec)
    losses = [each for _, each in loss.terms] if isinstance(loss, WeightedSum) else [loss]
    found = loss.statistics(*batch)
    for place, each in enumerate(losses):
        name = f"active_anchors_of_loss_{place}" if len(losses) > 1 else "active_anchors"
        assert float(found[name]) == pytest.approx(np.mean(each.call(*batch) > 0))


@pytest.mark.few_by_day(18)
def test_lengths_that_change_no_loss_change_no_statistics(pair_loss_spec, batch):
    """Of losses that compare embeddings at unit length; of others lengths change the loss."""
    loss, (labels, rows) = create("loss", pair_loss_spec), batch
    longer = rows * np.linspace(0.5, 3.0, ROWS)[:, None]
    if np.allclose(loss.call(labels, longer), loss.call(labels, rows), rtol=1e-9):
        assert_says(loss, (labels, longer), {name: value.numpy() for name, value in loss.statistics(*batch).items()})


@pytest.mark.parametrize(
    "loss, alpha, margin, temperature",
    [
        (RankedList(alpha=0.9, margin=0.3, positive_temperature=-2.0), 0.9, 0.3, -2.0),
        (RankedListSimpler(margin=0.8), 1.4, 0.8, 0.0),
    ],
)
def test_ranked_list(loss, alpha, margin, temperature, batch):
    labels, rows = batch
    distance, inner = distance_of(rows), alpha - margin
    queries = [ranked_list_of(i, labels, rows, alpha, margin, 0.0, 1.0, 0.5) for i in range(ROWS)]
    positives = [(i, j) for i, found in enumerate(queries) for j, _, _, sign in found if sign > 0]
    negatives = [(i, j) for i, found in enumerate(queries) for j, _, _, sign in found if sign < 0]
    assert positives and negatives
    more = {
        "positive_boundary": inner,
        "negative_boundary": alpha,
        "positive_weight": np.mean([math.exp(temperature * (distance[pair] - inner)) for pair in positives]),
        "negative_weight": np.mean([math.exp(10.0 * (alpha - distance[pair])) for pair in negatives]),
    }
    assert_says(loss, batch, {**described(distance, positives, negatives), **more})


def test_the_weights_are_those_of_the_temperature_now(batch):
    loss = RankedList()
    loss.negative_temperature = 0.0
    assert loss.statistics(*batch)["negative_weight"] == 1.0


def test_contrastive_and_margin(batch):
    labels, rows = batch
    distance = distance_of(rows)
    pairs = pairs_where(labels, lambda *pair: distance[pair] > 0.4, lambda *pair: distance[pair] < 0.9)
    boundaries = {"positive_boundary": 0.4, "negative_boundary": 0.9}
    assert_says(Contrastive(margin=0.9, positive_margin=0.4), batch, {**described(distance, *pairs), **boundaries})

    def in_triplet(i, j):
        return len({labels[k] == labels[i] for k in range(ROWS) if k != i}) == 2

    pairs = pairs_where(
        labels,
        lambda i, j: in_triplet(i, j) and distance[i, j] > 0.7,
        lambda i, j: in_triplet(i, j) and distance[i, j] < 1.1,
    )
    boundaries = {"positive_boundary": 0.7, "negative_boundary": 1.1}
    expected = {**described(distance, *pairs), **boundaries}
    assert_says(Margin(beta=0.9, margin=0.2, mining="all"), batch, expected)
    learned = Margin(beta=0.5, margin=0.2, mining="all", learn_beta="one")
    taken = np.concatenate([rows, np.full((ROWS, 1), 0.9)], axis=1)[:, None]
    assert_says(learned, (labels, taken), expected)


@pytest.mark.parametrize("mining", ["all", "semi_hard", "hard", "batch_hard"])
@pytest.mark.parametrize("squared", [True, False])
def test_triplets(mining, squared, batch):
    labels, rows = batch
    plain = distance_of(rows)
    distance = plain**2 if squared else plain
    positives, mined = [], []
    for i in range(ROWS):
        near = [j for j in range(ROWS) if j != i and labels[j] == labels[i]]
        far = sorted(distance[i, k] for k in range(ROWS) if labels[k] != labels[i])
        if mining == "batch_hard":
            near = sorted(near, key=lambda j: distance[i, j])[-1:]
        for j in near:
            farther = [d for d in far if d > distance[i, j]]
            negatives = {"all": far, "semi_hard": farther[:1] or far[-1:]}.get(mining, far[:1])
            if any(distance[i, j] - d + 0.1 > 0 for d in negatives):
                positives.append((i, j))
                mined += negatives
    expected = described(plain, positives, [])
    del expected["mined_negatives"], expected["mined_negative_distance"]
    if mining != "all":
        expected["mined_negative_distance"] = np.mean(np.sqrt(mined) if squared else mined)
    assert positives
    assert_says(
        Triplet(margin=0.1, mining=mining, distance="squared_euclidean" if squared else "euclidean"), batch, expected
    )


def test_multi_similarity_and_lifted_structure(batch):
    labels, rows = batch
    similarity, distance = rows @ rows.T, distance_of(rows)
    kept = [[], []]
    for i in range(ROWS):
        near = [j for j in range(ROWS) if j != i and labels[j] == labels[i]]
        far = [j for j in range(ROWS) if labels[j] != labels[i]]
        hardest = max(similarity[i, far])
        kept[0] += [(i, j) for j in near if similarity[i, j] < hardest + 0.1]
        kept[1] += [(i, j) for j in far if near and similarity[i, j] > min(similarity[i, near]) - 0.1]
    assert_says(MultiSimilarity(), batch, described(distance, *kept))
    hardest = [min(distance[i, j] for j in range(ROWS) if labels[j] != labels[i]) for i in range(ROWS)]
    positives, _ = pairs_where(
        labels, lambda i, j: 0.3 - min(hardest[i], hardest[j]) + distance[i, j] > 0, lambda i, j: False
    )
    expected = described(distance, positives, [])
    del expected["mined_negatives"], expected["mined_negative_distance"]
    assert_says(LiftedStructure(margin=0.3, form="hard"), batch, expected)


def test_threshold_consistent_margin(batch):
    labels, rows = batch
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    similarity = unit @ unit.T
    kept = pairs_where(labels, lambda i, j: similarity[i, j] < 0.9, lambda i, j: similarity[i, j] > 0.1)
    assert all(kept)
    assert_says(ThresholdConsistentMargin(negative_margin=0.1), batch, described(distance_of(unit), *kept))


def test_a_nested_loss_says_what_its_loss_does_of_the_whole_embedding(batch):
    labels, rows = batch
    expected = RankedList().statistics(labels, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    assert_says(Nested(RankedList(), dims=(2,)), batch, expected)


def test_a_sum_tells_its_losses_apart(batch):
    losses = [RankedList(), Contrastive()]
    found = WeightedSum([(1.0, losses[0]), (0.5, losses[1])]).statistics(*batch)
    for place, loss in enumerate(losses):
        for name, value in loss.statistics(*batch).items():
            np.testing.assert_array_equal(found[f"{name}_of_loss_{place}"], value)
