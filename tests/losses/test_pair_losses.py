"""What the losses on pairs promise beyond their loops, see `test_loops`."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.goldens.comparisons import BATCHES, read
from tests.losses import loops
from tests.losses.loops import assert_is_gradient, value_and_gradient
from tfdml.losses import (
    Angular,
    Circle,
    FastAP,
    Histogram,
    LiftedStructure,
    NPair,
    SmoothAP,
)


@pytest.mark.parametrize("alpha", [45.0, 60.0])
@pytest.mark.parametrize(
    "angles, labels",
    [
        # Each anchor has the other's worst negative as its best one: no negative is near to both.
        ([0, 180, 0, 180], [0, 0, 1, 2]),
        ([0, 180, 1, 179], [0, 0, 1, 2]),
        # All in one point; one class opposite the other; a positive pair apart and a negative between them.
        ([0, 0, 0, 0], [0, 0, 1, 1]),
        ([0, 0, 180, 180], [0, 0, 1, 1]),
        ([0, 90, 45, 225], [0, 0, 1, 1]),
    ],
)
def test_extreme_similarities_lose_no_precision(angles, labels, alpha):
    points = [[math.cos(math.radians(angle)), math.sin(math.radians(angle))] for angle in angles]
    values = Angular(alpha=alpha).call(labels, np.array(points, np.float32))
    np.testing.assert_allclose(values, loops.angular(labels, points, alpha), rtol=1e-4, atol=1e-8)


def test_gradient_at_the_extremes():
    """Of the shift by the highest exponent nothing is left: differences of the loop agree."""
    labels = [0, 0, 1, 1, 2]
    embeddings = np.array([[1.0, 0], [-1, 0.01], [1, 0.02], [-1, 0], [0.9, 0.1]]) * 3
    _, gradient = value_and_gradient(Angular(alpha=60.0), labels, embeddings)
    assert_is_gradient(gradient, lambda rows: loops.angular(labels, rows, 60.0), embeddings, rel=1e-5, abs=1e-7)


def test_negatives_are_those_of_the_anchor_where_a_positive_does_not_share_them():
    """As of triplets: row 1, the positive of row 0, knows no negative; row 0 has row 2."""
    given = np.array([[1, 1, 0], [1, 1, -1], [0, -1, 1]], "float32")
    embeddings = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    values, gradient = value_and_gradient(Angular(alpha=40.0), given, embeddings)
    np.testing.assert_allclose(values, [loops.angular([0, 0, 1], embeddings, 40.0)[0], 0, 0], rtol=1e-5)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("scale", [4.0, 80.0])
def test_gradient_holds_the_weights_constant(make_batch, scale):
    labels, embeddings = make_batch(8, 3, dtype="float64", normalised=False)
    values, gradient = value_and_gradient(Circle(scale=scale), labels, embeddings)
    same, through = value_and_gradient(Circle(scale=scale, differentiate_weights=True), labels, embeddings)
    np.testing.assert_array_equal(values, same)
    assert np.abs(gradient - through).max() > 0.1

    def with_constant_weights(rows):
        return loops.circle(labels, rows, scale=scale, weights_at=embeddings)

    assert_is_gradient(gradient, with_constant_weights, embeddings, abs=1e-5, rel=1e-5)


def test_gradient_of_a_negative_is_the_one_printed_in_the_paper():
    # With one pair of each kind, d loss / d s_n = scale (s_n + margin) z, where z is the sigmoid of the exponent.
    angle = tf.Variable(math.acos(0.5), dtype=tf.float64)
    with tf.GradientTape() as tape:
        rows = tf.stack([[1.0, 0.0], [0.8, 0.6], tf.stack([tf.cos(angle), -tf.sin(angle)])])
        value = Circle(margin=0.25, scale=3.0).call([0, 0, 1], tf.cast(rows, tf.float64))[0]
    gradient = tape.gradient(value, angle) / -tf.sin(angle)
    exponent = 3 * (0.5**2 - 0.25**2) + 3 * ((1 - 0.8) ** 2 - 0.25**2)
    assert float(gradient) == pytest.approx(3 * (0.5 + 0.25) / (1 + math.exp(-exponent)), rel=1e-10)


FORMS = ["smooth", "hard"]


@pytest.mark.parametrize("form", FORMS)
def test_far_and_near_beyond_the_range_of_exponentials(form):
    rows = np.array([[0.0], [3.0], [500.0]], "float32")
    np.testing.assert_array_equal(LiftedStructure(form=form).call([0, 0, 1], rows), np.zeros(3))
    values = LiftedStructure(margin=700.0, form=form).call([0, 0, 1], rows)
    np.testing.assert_allclose(values, loops.lifted_structure([0, 0, 1], rows, 700.0, form), rtol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_zeros_keep_gradients_finite_at_unit_length(form):
    rows = np.array([[0, 0], [1, 2], [0, 0], [3, 1]], "float32")
    values, gradient = value_and_gradient(LiftedStructure(form=form, normalize=True), [0, 0, 1, 1], rows)
    assert np.all(np.isfinite(values)) and np.all(np.isfinite(gradient)) and np.any(gradient != 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("margin", [1.0, 4.0])
def test_an_end_without_a_negative_adds_nothing(form, margin):
    """Row 0 and row 1 are a pair, and only row 0 knows a negative; of rows 3 and 4 none does."""
    given = np.full((5, 5), -1, "float32")
    given[0, 1] = given[1, 0] = given[3, 4] = given[4, 3] = 1
    given[0, 2] = given[2, 0] = 0
    values, gradient = value_and_gradient(LiftedStructure(margin, form), given, [[0.0], [0.5], [3.0], [9.0], [10.0]])
    # The other form of one exponential is the same.
    cost = max(margin - 3.0 + 0.5, 0.0) ** 2
    assert np.mean(values) == pytest.approx(cost / (2 * 2), rel=1e-5)
    assert np.isfinite(gradient).all()


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


def test_long_embeddings_do_not_overflow_and_make_it_a_hinge(make_batch):
    embeddings, labels = 100 * make_batch(8)[1], np.arange(8) % 4
    products = embeddings.astype("float64") @ embeddings.T
    gaps = [[products[i, n] - products[i, (i + 4) % 8] for n in range(8) if labels[n] != labels[i]] for i in range(8)]
    hinges = [max(0.0, *gap) for gap in gaps]
    values, gradient = value_and_gradient(NPair(), labels, embeddings)
    assert max(hinges) > 1000
    np.testing.assert_allclose(values, hinges, rtol=1e-5, atol=0.1)
    assert np.all(np.isfinite(gradient))


@pytest.mark.usefixtures("improved_graphs")
@pytest.mark.parametrize("negatives", ["one_per_class", "first_pair_per_class"])
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
    assert_is_gradient(eager, lambda rows: loops.n_pair(labels, rows, negatives=negatives), embeddings)


# FastAP only nearly, because a positive between two nodes is found in two parts.
@pytest.mark.parametrize("loss, near", [(FastAP(bins=10**5), 0.05), (SmoothAP(temperature=1e-7), 1e-9)])
def test_at_the_limit_it_is_average_precision(make_batch, loss, near):
    labels, embeddings = make_batch(16, 3, dtype="float64")
    values = loss.call(labels, embeddings).numpy()
    for i in range(16):
        order = sorted((j for j in range(16) if j != i), key=lambda j: -embeddings[i] @ embeddings[j])
        right = [labels[j] == labels[i] for j in order]
        precisions = [np.mean(right[: place + 1]) for place in range(15) if right[place]]
        assert 1 - values[i] == pytest.approx(np.mean(precisions), abs=near)


def test_no_tensor_of_a_step_is_larger_than_the_batch_squared():
    """Neither in the function nor in what its gradient keeps of the loop over positives."""
    size = 24

    @tf.function
    def step(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            values = SmoothAP().call(labels, embeddings)
        return values, tape.gradient(values, embeddings)

    graph = step.get_concrete_function(tf.TensorSpec([size], tf.int64), tf.TensorSpec([size, 3], tf.float32)).graph
    graphs = [graph, *(each.graph for each in graph._functions.values())]
    operations = [operation for each in graphs for operation in each.get_operations()]
    sizes = [output.shape.num_elements() for operation in operations for output in operation.outputs]
    assert max(count for count in sizes if count) == size**2 and len(graphs) > 1
    # What a loop keeps for its gradient it pushes on lists.
    assert not [operation.name for operation in operations if "TensorList" in operation.type]


def test_an_anchor_has_the_part_of_its_own_negatives(make_batch):
    labels, embeddings = make_batch(9, 3, dtype="float64")
    values = Histogram(bins=10).call(labels, embeddings).numpy()
    pairs = [(i, j) for i in range(9) for j in range(9) if i != j]
    similarity = {(i, j): loops.cosine(embeddings[i], embeddings[j]) for i, j in pairs}
    positive = np.cumsum(loops.soft_histogram([similarity[i, j] for i, j in pairs if labels[i] == labels[j]], 10))
    negatives = [(i, j) for i, j in pairs if labels[i] != labels[j]]
    for anchor in range(9):
        own = [similarity[i, j] for i, j in negatives if i == anchor]
        part = np.dot(loops.soft_histogram(own, 10), positive) * len(own) / len(negatives)
        assert values[anchor] == pytest.approx(9 * part)


def test_of_some_anchors_only_their_pairs_count(make_batch):
    labels, embeddings = make_batch(9, 3, dtype="float64")
    values = Histogram(bins=10).call(labels, embeddings, 6)
    assert values.shape == (6,)
    assert np.mean(values) == pytest.approx(loops.histogram(labels, embeddings, 10, queries=6))
