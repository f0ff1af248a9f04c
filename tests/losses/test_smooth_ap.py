import math

import numpy as np
import pytest
import tensorflow as tf

from tests.losses.test_sup_con import cosine
from tests.of_batches import of_batches
from tfdml.losses import SmoothAP

DEFAULTS = {"temperature": 0.01, "include_query": False}


def naive(labels, embeddings, temperature, include_query):
    """1 - AP of each query with ranks that are sums of sigmoids, row by row."""
    embeddings, values = np.asarray(embeddings, np.float64), []
    rows = range(len(labels))
    for query in rows:
        scores = [cosine(embeddings[query], other) for other in embeddings]
        own = [i for i in rows if labels[i] == labels[query] and (include_query or i != query)]
        others = [i for i in rows if labels[i] != labels[query]]

        def rank(i, among, scores=scores):
            return 1 + sum(sigmoid((scores[j] - scores[i]) / temperature) for j in among if j != i)

        precisions = [rank(i, own) / rank(i, own + others) for i in own]
        alone = not [i for i in own if i != query]
        values.append(0.0 if alone else 1 - sum(precisions) / len(precisions))
    return values


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("temperature", [0.01, 0.5])
@of_batches("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 1, 2), (6, 99, 3)])
def test_equal_to_a_loop_over_rows(make_batch, size, classes, dim, dtype, tolerance, temperature, include_query):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        arguments = {"temperature": temperature, "include_query": include_query}
        values = SmoothAP(**arguments).call(labels, embeddings)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, **arguments)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def test_by_hand():
    # Cosines of the first: 1 to its positive, to one negative the same, to the other 0.
    embeddings = np.array([[2.0, 0.0], [1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    values = SmoothAP(temperature=0.001).call([4, 4, 6, 7], embeddings)
    np.testing.assert_allclose(values, [1 / 3, 1 / 3, 0.0, 0.0], atol=1e-12)
    # As the authors have it: the query and its positive at the same place, a negative too.
    values = SmoothAP(temperature=0.001, include_query=True).call([4, 4, 6, 7], embeddings)
    np.testing.assert_allclose(values, [1 / 4, 1 / 4, 0.0, 0.0], atol=1e-12)


def test_with_a_low_temperature_it_is_average_precision(make_batch):
    labels, embeddings = make_batch(16, 3, dtype="float64")
    values = SmoothAP(temperature=1e-7).call(labels, embeddings).numpy()
    for i in range(16):
        order = sorted((j for j in range(16) if j != i), key=lambda j: -embeddings[i] @ embeddings[j])
        right = [labels[j] == labels[i] for j in order]
        precisions = [np.mean(right[: place + 1]) for place in range(15) if right[place]]
        assert 1 - values[i] == pytest.approx(np.mean(precisions), abs=1e-9)


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_both_kinds_of_pairs_it_is_zero_with_zero_gradient(make_batch, labels, include_query):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = SmoothAP(include_query=include_query).call(np.array(labels), variable)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


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


@pytest.mark.parametrize("temperature", [0, -0.5])
def test_bad_temperatures_are_told(temperature):
    with pytest.raises(ValueError, match=f"temperature to be a number above 0; received {temperature}"):
        SmoothAP(temperature)
