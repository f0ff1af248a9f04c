import math

import numpy as np
import pytest
import tensorflow as tf

from tests.goldens.comparisons import BATCHES, read
from tests.of_batches import of_batches
from tfdml.losses import NPair

NEGATIVES = ["all", "one_per_class", "first_pair_per_class"]


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def naive(labels, embeddings, margin=0.0, scale=1.0, negatives="all", normalize=False, regularization=0.0):
    """Equation (3) of EDMS, and equation (2) of Ranked List Loss with its pairs formed by hand."""
    given = np.asarray(embeddings, np.float64)
    rows = [x / math.sqrt(dot(x, x)) for x in given] if normalize else given
    members = {label: [j for j, other in enumerate(labels) if other == label] for label in labels}
    if negatives == "first_pair_per_class":
        # The mean over the batch's rows is the mean over pairs.
        pairs = [own[:2] for own in members.values() if len(own) > 1]
        values = [0.0] * len(labels)
        for a, p in pairs if len(pairs) > 1 else []:
            gaps = [dot(rows[a], rows[n]) - dot(rows[a], rows[p]) + margin for _, n in pairs if n != p]
            cost = math.log(1 + sum(math.exp(scale * gap) for gap in gaps)) + regularization * dot(given[a], given[a])
            values[a] = cost * len(labels) / len(pairs)
        return values
    values = []
    for i, label in enumerate(labels):
        positives = [j for j in members[label] if j != i]
        others = [j for j in range(len(labels)) if labels[j] != label]
        if negatives == "one_per_class" and positives:
            own = members[label]
            place = (own.index(i) + 1) % len(own)
            positives = [own[place]]
            others = [rest[place] for name, rest in members.items() if name != label and place < len(rest)]
        costs = []
        for p in positives:
            gaps = [dot(rows[i], rows[n]) - dot(rows[i], rows[p]) + margin for n in others]
            costs.append(math.log(1 + sum(math.exp(scale * gap) for gap in gaps)))
        valid = positives and others
        values.append(sum(costs) / len(costs) + regularization * dot(given[i], given[i]) if valid else 0.0)
    return values


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"margin": 0.7, "scale": 3.0},
        {"normalize": True},
        {"regularization": 0.3},
        {"normalize": True, "regularization": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("negatives", NEGATIVES)
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2), (6, 1, 4), (9, 99, 3)])
def test_equal_to_a_loop_over_pairs(make_batch, size, classes, dim, dtype, tolerance, negatives, arguments):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = NPair(negatives=negatives, **arguments).call(labels, embeddings)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, negatives=negatives, **arguments)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def pairs_of(make_batch, classes=5):
    """Labels and embeddings of a batch of anchors, and after them their positives, with both apart."""
    embeddings = make_batch(2 * classes, dim=4, dtype="float64", normalised=False)[1]
    return np.tile(np.arange(classes), 2), embeddings, embeddings[:classes], embeddings[classes:]


def test_a_batch_of_pairs_is_the_equation_of_n_pairs_read_both_ways(make_batch):
    labels, embeddings, anchors, positives = pairs_of(make_batch)

    def equation(anchors, positives):
        exponents = anchors @ positives.T - np.sum(anchors * positives, axis=1)[:, None]
        np.fill_diagonal(exponents, -np.inf)
        return np.log1p(np.sum(np.exp(exponents), axis=1))

    both = np.concatenate([equation(anchors, positives), equation(positives, anchors)])
    np.testing.assert_allclose(NPair(negatives="one_per_class").call(labels, embeddings), both, rtol=1e-10)


@pytest.mark.parametrize("which", BATCHES)
@pytest.mark.parametrize("name, normalize", [("n_pairs", True), ("n_pairs_as_it_is", False)])
def test_first_pairs_are_what_pytorch_metric_learning_takes(name, normalize, which):
    batch, golden = read("inputs")[which], read("pytorch_metric_learning")[name][which]
    variable = tf.Variable(np.array(batch["embeddings"]))
    with tf.GradientTape() as tape:
        value = NPair(negatives="first_pair_per_class", normalize=normalize, dtype="float64")(batch["labels"], variable)
    gradient = tf.convert_to_tensor(tape.gradient(value, variable))
    np.testing.assert_allclose(value, golden["value"], rtol=1e-5)
    np.testing.assert_allclose(gradient, golden["gradient"], rtol=1e-5, atol=1e-5)


def test_by_hand():
    # Dot products with the first: 2 (its class), 0 and 1. With the second: 2, 0 and 2.
    embeddings = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    values = NPair(margin=0.5).call([4, 4, 7, 8], embeddings)
    first = math.log(1 + math.exp(0 - 2 + 0.5) + math.exp(1 - 2 + 0.5))
    second = math.log(1 + math.exp(0 - 2 + 0.5) + math.exp(2 - 2 + 0.5))
    np.testing.assert_allclose(values, [first, second, 0.0, 0.0])


@pytest.mark.parametrize("negatives", NEGATIVES)
@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_pairs_it_is_zero_with_zero_gradient(make_batch, labels, negatives):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = NPair(negatives=negatives, margin=10.0, regularization=1.0).call(np.array(labels), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


def test_long_embeddings_do_not_overflow_and_make_it_a_hinge(make_batch):
    embeddings, labels = 100 * make_batch(8)[1], np.arange(8) % 4
    products = embeddings.astype("float64") @ embeddings.T
    gaps = [[products[i, n] - products[i, (i + 4) % 8] for n in range(8) if labels[n] != labels[i]] for i in range(8)]
    hinges = [max(0.0, *gap) for gap in gaps]
    variable = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = NPair().call(labels, variable)
    assert max(hinges) > 1000
    np.testing.assert_allclose(values, hinges, rtol=1e-5, atol=0.1)
    assert np.all(np.isfinite(tape.gradient(values, variable)))


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("negatives", NEGATIVES[1:])
def test_one_per_class_compiles_and_has_the_gradient_of_its_values(make_batch, negatives):
    labels, embeddings = make_batch(9, 3, dtype="float64")

    def gradient(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            values = NPair(negatives=negatives).call(labels, embeddings)
        return tf.convert_to_tensor(tape.gradient(values, embeddings))

    eager = gradient(tf.constant(labels), tf.constant(embeddings)).numpy()
    signature = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 5], tf.float64)]
    for compiled in (tf.function(gradient, input_signature=signature), tf.function(gradient, jit_compile=True)):
        np.testing.assert_allclose(compiled(labels, embeddings), eager, rtol=1e-8, atol=1e-10)
    for place in np.ndindex(embeddings.shape):
        step = np.zeros_like(embeddings)
        step[place] = 1e-6
        high, low = (sum(naive(labels, embeddings + sign * step, negatives=negatives)) for sign in (1, -1))
        assert eager[place] == pytest.approx((high - low) / 2e-6, abs=1e-6)


def test_bad_arguments_are_told():
    known = ", ".join(map(repr, NEGATIVES))
    with pytest.raises(ValueError, match=f"negatives to be one of {known}; received 'some'"):
        NPair(negatives="some")
    with pytest.raises(ValueError, match="regularization to be a number of 0 or more; received -1"):
        NPair(regularization=-1)
