import numpy as np
import pytest
import tensorflow as tf

from tfdml.losses import Triplet, triplet_loss

MININGS = ["all", "semi_hard", "hard", "batch_hard"]


def squared(x, y):
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def naive(labels, embeddings, margin, mining, power=2):
    """Every triplet in a loop, from the words of the papers."""
    values, size = [], len(labels)
    for anchor in range(size):
        distance = [squared(embeddings[anchor], other) ** (power / 2) for other in np.asarray(embeddings, np.float64)]
        positives = [distance[j] for j in range(size) if j != anchor and labels[j] == labels[anchor]]
        negatives = [distance[j] for j in range(size) if labels[j] != labels[anchor]]
        triplets = []
        if positives and negatives:
            if mining == "all":
                triplets = [(positive, negative) for positive in positives for negative in negatives]
            elif mining == "hard":
                triplets = [(positive, min(negatives)) for positive in positives]
            elif mining == "batch_hard":
                triplets = [(max(positives), min(negatives))]
            else:
                for positive in positives:
                    farther = [negative for negative in negatives if negative > positive]
                    triplets.append((positive, min(farther) if farther else max(negatives)))
        hinges = [max(0.0, positive - negative + margin) for positive, negative in triplets]
        values.append(sum(hinges) / len(hinges) if hinges else 0.0)
    return values


@pytest.mark.parametrize("mining", MININGS)
@pytest.mark.parametrize("margin", [0.0, 0.2, 3.0])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-10)])
@pytest.mark.parametrize("size, classes, dim", [(2, 2, 2), (7, 2, 3), (13, 5, 8), (20, 3, 2)])
def test_equal_to_a_loop_over_triplets(make_batch, size, classes, dim, dtype, tolerance, margin, mining):
    for normalised in (True, False):
        labels, embeddings = make_batch(size, classes, dim, dtype=dtype, normalised=normalised)
        values = triplet_loss(labels, embeddings, margin=margin, mining=mining)
        assert values.dtype == dtype
        expected = naive(labels, embeddings, margin, mining)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)
        values = triplet_loss(labels, embeddings, margin=margin, mining=mining, squared=False)
        expected = naive(labels, embeddings, margin, mining, power=1)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mining", MININGS)
def test_ties_are_broken_as_in_the_loop(mining):
    # Whole numbers, so that equal distances are equal in every bit.
    embeddings = np.random.default_rng(0).integers(0, 2, (14, 3)).astype("float32")
    labels = np.arange(14) % 4
    values = triplet_loss(labels, embeddings, margin=0.5, mining=mining)
    np.testing.assert_allclose(values, naive(labels, embeddings, 0.5, mining), rtol=1e-6)


def test_by_hand():
    # On a line at 0, 1 (one class) and 3 (another): squared distances 1, 9 and 4.
    values = triplet_loss([5, 5, 9], np.array([[0.0], [1.0], [3.0]]), margin=6.0, mining="hard")
    np.testing.assert_allclose(values, [0.0, 1 - 4 + 6, 0.0])


@pytest.mark.parametrize("mining", MININGS)
@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [0, 1, 2, 3]], ids=["one class", "all different"])
def test_without_triplets_it_is_zero_with_zero_gradient(make_batch, labels, mining):
    variable = tf.Variable(make_batch(4)[1])
    with tf.GradientTape() as tape:
        values = triplet_loss(np.array(labels), variable, margin=10.0, mining=mining)
    np.testing.assert_array_equal(values, np.zeros(4))
    np.testing.assert_array_equal(tape.gradient(values, variable), np.zeros((4, 5)))


@pytest.mark.parametrize("mining", MININGS)
def test_an_anchor_without_a_positive_has_no_part(make_batch, mining):
    embeddings = make_batch(4)[1]
    values = triplet_loss(np.array([0, 0, 0, 1]), embeddings, margin=10.0, mining=mining).numpy()
    assert values[3] == 0 and np.all(values[:3] > 0)


def test_a_class_passes_its_arguments_on(make_batch):
    labels, embeddings = make_batch()
    for arguments in ({"margin": 0.7}, {"mining": "batch_hard"}, {"squared": False}):
        np.testing.assert_allclose(
            Triplet(reduction=None, **arguments)(labels, embeddings),
            triplet_loss(labels, embeddings, **arguments),
            rtol=1e-6,
        )
    assert len({float(Triplet(**arguments)(labels, embeddings)) for arguments in ({}, {"squared": False})}) == 2


def test_defaults_of_function_and_class_agree(make_batch):
    labels, embeddings = make_batch(seed=2)
    np.testing.assert_allclose(Triplet(reduction=None)(labels, embeddings), triplet_loss(labels, embeddings), rtol=1e-6)
    np.testing.assert_allclose(triplet_loss(labels, embeddings), naive(labels, embeddings, 0.2, "semi_hard"), rtol=1e-4)


def test_unknown_mining_names_the_known(make_batch):
    for use in (lambda: Triplet(mining="semihard"), lambda: triplet_loss(*make_batch(), mining="semihard")):
        with pytest.raises(ValueError, match="'semihard'.*all, semi_hard, hard, batch_hard"):
            use()
