import numpy as np
import pytest
import tensorflow as tf

from tests.of_batches import of_batches
from tfdml.losses import FastAP


def squared_on_sphere(x, y):
    x, y = ([a / sum(b * b for b in row) ** 0.5 for a in row] for row in (x, y))
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def naive(labels, embeddings, bins):
    """1 - FastAP of each query, node by node."""
    embeddings, step, values = np.asarray(embeddings, np.float64), 4 / bins, []
    for i, label in enumerate(labels):
        distances = {True: [], False: []}
        for j, other in enumerate(labels):
            if i != j:
                distances[bool(label == other)].append(squared_on_sphere(embeddings[i], embeddings[j]))
        positives, negatives = distances[True], distances[False]
        if not positives or not negatives:
            values.append(0.0)
            continue
        precision = found = seen = 0.0
        for node in [step * number for number in range(bins + 1)]:
            here, there = (sum(max(0.0, 1 - abs(d - node) / step) for d in these) for these in (positives, negatives))
            found += here
            seen += here + there
            precision += here * found / seen if seen else 0.0
        values.append(1 - precision / len(positives))
    return values


@pytest.mark.parametrize("bins", [1, 4, 10, 33])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (6, 99, 3)])
def test_equal_to_a_loop_over_nodes(make_batch, size, classes, dim, dtype, tolerance, bins):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = FastAP(bins=bins).call(labels, embeddings)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, naive(labels, embeddings, bins), rtol=tolerance, atol=tolerance)


def test_by_hand():
    # Squared distances of the first: 2 to its positive, 0 and 4 to the negatives, with nodes at 0, 2, 4: of the two
    # that are found up to its positive one is wrong. The second has both negatives as far as its positive.
    embeddings = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [-1.0, 0.0]])
    values = FastAP(bins=2).call([4, 4, 6, 7], embeddings)
    np.testing.assert_allclose(values, [1 / 2, 2 / 3, 0.0, 0.0], atol=1e-12)


def test_with_many_bins_it_is_nearly_average_precision(make_batch):
    # Not quite, because a positive between two nodes is found in two parts.
    labels, embeddings = make_batch(16, 3, dtype="float64")
    values = FastAP(bins=10**5).call(labels, embeddings).numpy()
    for i in range(16):
        order = sorted((j for j in range(16) if j != i), key=lambda j: -embeddings[i] @ embeddings[j])
        right = [labels[j] == labels[i] for j in order]
        precisions = [np.mean(right[: place + 1]) for place in range(15) if right[place]]
        assert 1 - values[i] == pytest.approx(np.mean(precisions), abs=0.05)


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_both_kinds_of_pairs_it_is_zero_with_zero_gradient(make_batch, labels):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = FastAP().call(np.array(labels), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


@pytest.mark.parametrize("bins", [0, -1, 2.5, "10", True, None])
def test_bad_bins_are_told(bins):
    with pytest.raises(ValueError, match=f"bins to be an integer of 1 or more; received {bins!r}"):
        FastAP(bins=bins)
