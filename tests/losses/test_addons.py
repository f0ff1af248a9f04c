"""The losses of TensorFlow Addons, against loops written from its 0.23's documented behaviour."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdml.losses import addons


@keras.saving.register_keras_serializable(package="test_addons")
def negated_products(embeddings):
    return -tf.matmul(embeddings, embeddings, transpose_b=True)


def euclidean(x, y):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)))


def cosine(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True)) / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))


METRICS = {
    "L2": euclidean,
    "squared-L2": lambda x, y: euclidean(x, y) ** 2,
    "angular": lambda x, y: max(1 - cosine(x, y), 0.0),
    negated_products: lambda x, y: -sum(a * b for a, b in zip(x, y, strict=True)),
}
of_every_metric = pytest.mark.parametrize(
    "metric", METRICS, ids=lambda metric: metric if isinstance(metric, str) else "function"
)
of_every_batch = pytest.mark.parametrize(
    "size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (5, 1, 3), (6, 99, 3), (1, 1, 2)]
)
in_both_precisions = pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-10)])


def rows_of(embeddings, metric):
    rows = np.asarray(embeddings, np.float64).tolist()
    return [[METRICS[metric](x, y) for y in rows] for x in rows]


def naive_semihard(labels, embeddings, margin, metric):
    distance, costs = rows_of(embeddings, metric), []
    for i, row in enumerate(distance):
        negatives = [row[k] for k in range(len(labels)) if labels[k] != labels[i]]
        for j, value in enumerate(row):
            if j != i and labels[j] == labels[i]:
                farther = [negative for negative in negatives if negative > value]
                chosen = min(farther) if farther else max(negatives, default=min(row))
                costs.append(max(0.0, value - chosen + margin))
    return sum(costs) / max(len(costs), 1)


def naive_hard(labels, embeddings, margin, soft, metric):
    costs = []
    for i, row in enumerate(rows_of(embeddings, metric)):
        positives = [row[j] for j in range(len(row)) if j != i and labels[j] == labels[i]]
        negatives = [row[j] for j in range(len(row)) if labels[j] != labels[i]]
        gap = max(positives, default=min(row)) - min(negatives, default=max(row))
        costs.append(math.log(1 + math.exp(gap)) if soft else max(0.0, gap + margin))
    return sum(costs) / len(costs)


def naive_lifted(labels, embeddings, margin):
    distance, total, pairs = rows_of(embeddings, "L2"), 0.0, 0
    for i in range(len(labels)):
        for j in range(i):
            if labels[i] == labels[j]:
                negatives = [k for k in range(len(labels)) if labels[k] != labels[i]]
                ends = [math.exp(margin - distance[end][k]) for end in (i, j) for k in negatives]
                pairs += 1
                total += max(0.0, math.log(sum(ends)) + distance[i][j]) ** 2 if ends else 0.0
    return total / (2 * max(pairs, 1))


def naive_npairs(labels, similarities):
    costs = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        own = [j for j, other in enumerate(labels) if other == label]
        total = sum(math.exp(value) for value in row)
        costs.append(-sum(math.log(math.exp(row[j]) / total) / len(own) for j in own))
    return sum(costs) / len(costs)


@of_every_metric
@of_every_batch
def test_triplets_are_equal_to_loops(make_batch, size, classes, dim, metric):
    for normalised, margin, dtype, tolerance in ((True, 1.0, "float32", 1e-4), (False, 0.3, "float64", 1e-10)):
        near = {"rel": tolerance, "abs": tolerance}
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        given = {"margin": margin, "distance_metric": metric, "dtype": dtype}
        values = addons.TripletSemiHardLoss(**given)(labels, embeddings)
        assert values.dtype == dtype and values.shape == ()
        assert float(values) == pytest.approx(naive_semihard(labels, embeddings, margin, metric), **near)
        for soft in (False, True):
            values = addons.TripletHardLoss(soft=soft, **given)(labels, embeddings)
            assert values.dtype == dtype and values.shape == ()
            assert float(values) == pytest.approx(naive_hard(labels, embeddings, margin, soft, metric), **near)


@of_every_batch
@in_both_precisions
def test_lifted_structure_and_npairs_are_equal_to_loops(make_batch, size, classes, dim, dtype, tolerance):
    near = {"rel": tolerance, "abs": tolerance}
    for normalised, margin in ((True, 1.0), (False, 2.5)):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        value = addons.LiftedStructLoss(margin=margin, dtype=dtype)(labels, embeddings)
        assert value.dtype == dtype and value.shape == ()
        assert float(value) == pytest.approx(naive_lifted(labels, embeddings, margin), **near)
        similarities = embeddings @ make_batch(size, classes, dim, seed=1, dtype=dtype)[1].T
        value = addons.NpairsLoss(dtype=dtype)(labels, similarities)
        assert value.dtype == dtype and value.shape == ()
        assert float(value) == pytest.approx(naive_npairs(labels, similarities), **near)


@pytest.mark.parametrize("margin", [0.0, 1.0, 2.5])
@in_both_precisions
def test_contrastive_is_equal_to_a_loop(dtype, tolerance, margin):
    random = np.random.default_rng(0)
    same, distance = random.integers(0, 2, 20), random.uniform(0, 3, 20).astype(dtype)
    expected = [d**2 if y else max(0.0, margin - d) ** 2 for y, d in zip(same, distance.tolist(), strict=True)]
    for columns in (lambda values: values, lambda values: values[:, None]):
        loss = addons.ContrastiveLoss(margin, dtype=dtype)
        values = loss.call(columns(same), columns(distance))
        assert values.dtype == dtype
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
        assert float(loss(columns(same), columns(distance))) == pytest.approx(np.mean(expected), rel=tolerance)


def test_by_hand():
    # Two rows of one class: there is no negative, so the rows themselves are instead, nearest or farthest.
    labels, embeddings = [0, 0], np.array([[0.0, 1.0], [1.0, 0.0]])
    assert float(addons.TripletSemiHardLoss()(labels, embeddings)) == pytest.approx(2**0.5 - 0 + 1)
    assert float(addons.TripletHardLoss()(labels, embeddings)) == pytest.approx(2**0.5 - 2**0.5 + 1)
    # On a line at 0, 2 (one class) and 3 (another): 0 has a semi-hard negative, 2 only a nearer one.
    labels, line = [5, 5, 9], np.array([[0.0], [2.0], [3.0]])
    assert float(addons.TripletSemiHardLoss()(labels, line)) == pytest.approx((0 + 2) / 2)
    assert float(addons.TripletHardLoss()(labels, line)) == pytest.approx((0 + 2 + 0) / 3)
    assert float(addons.TripletHardLoss(margin=6.0, distance_metric="squared-L2")(labels, line)) == pytest.approx(
        (1 + 9 + 5) / 3
    )
    cost = (math.log(math.exp(1 - 3) + math.exp(1 - 1)) + 2) ** 2
    assert float(addons.LiftedStructLoss()(labels, line)) == pytest.approx(cost / 2)
    similarities = np.log([[1.0, 2.0, 5.0], [1.0, 1.0, 2.0], [3.0, 3.0, 6.0]])
    shares = [(1 / 8 * 2 / 8) ** 0.5, 1 / 4, 1 / 2]
    assert float(addons.NpairsLoss()(labels, similarities)) == pytest.approx(-sum(np.log(shares)) / 3)
    np.testing.assert_allclose(addons.ContrastiveLoss(reduction=None)([1, 0, 0], [3.0, 0.25, 4.0]), [9.0, 0.75**2, 0.0])


def test_the_soft_margin_does_not_overflow():
    variable = tf.Variable([[0.0], [500.0], [1.0]])
    with tf.GradientTape() as tape:
        value = addons.TripletHardLoss(soft=True)([0, 0, 1], variable)
    gaps = 500 - 1, 500 - 499, 0 - 1
    assert float(value) == pytest.approx((gaps[0] + sum(math.log(1 + math.exp(gap)) for gap in gaps[1:])) / 3)
    assert np.all(np.isfinite(tape.gradient(value, variable)))
