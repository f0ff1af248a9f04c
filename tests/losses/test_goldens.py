"""Losses agree with pytorch-metric-learning 2.9 and TensorFlow Addons 0.23 where definitions do.

The numbers are in tests/goldens, beside the scripts that made them and the tables of what is compared with what.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.goldens.comparisons import (
    AGREE,
    BATCHES,
    DIFFER,
    NEARLY,
    SAME_AS_ADDONS,
    SAME_AS_SIMILARITY,
    batches_of,
    read,
    stored,
    terms_of,
    weights_of,
)
from tests.night import others_at_night
from tfdml import registry
from tfdml.losses import addons

TOLERANCE = 1e-5


def ours(terms, batch):
    """Value, gradient for the embeddings, and gradient for the weights of a layer or None, of a sum of losses."""
    labels, variable, weights = tf.constant(batch["labels"]), tf.Variable(np.array(batch["embeddings"])), []
    with tf.GradientTape() as tape:
        value = 0.0
        for spec, prepare, weigh in terms:
            loss = registry.create("loss", spec)
            layer, taken = loss.make_layer(), prepare(variable)
            if layer is not None:
                layer.build((None, variable.shape[1]))
                weights = layer.weights
                weights[0].assign(stored(weights[0].shape, batch))
                taken = layer(taken, labels)
            values = loss.call(labels, taken)
            value += tf.reduce_sum(values * weights_of(weigh, batch, values))
    gradients = tape.gradient(value, [variable, *(weight.value for weight in weights)])
    return [np.asarray(tf.convert_to_tensor(part)) for part in (value, *gradients)]


def golden(name, which):
    stored_value = read("pytorch_metric_learning")[name][which]
    parts = (stored_value.get(part) for part in ("value", "gradient", "weights_gradient"))
    return [np.array(part) for part in parts if part is not None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, which",
    others_at_night(
        [(name, which) for name in AGREE for which in batches_of(name)[1]],
        lambda case: case[1] == "uneven" or "uneven" not in batches_of(case[0])[1] and case[1] == "pk",
    ),
)
@pytest.mark.few_by_day(26)
def test_agrees_with_pytorch_metric_learning(name, which):
    found, expected = ours(terms_of(AGREE[name]), read("inputs")[which]), golden(name, which)
    # The golden of `p2s_grad` has no gradient of its weights.
    for part, other in zip(found[: len(expected)], expected, strict=True):
        np.testing.assert_allclose(part, other.reshape(part.shape), rtol=TOLERANCE, atol=TOLERANCE)
    assert abs(expected[0]) > 1e-4 and all(np.abs(gradient).max() > 1e-4 for gradient in expected[1:])


@pytest.mark.parametrize("which", BATCHES)
@pytest.mark.parametrize("name", NEARLY)
def test_agrees_but_for_a_small_term(name, which):
    found, expected = ours(terms_of(NEARLY[name]), read("inputs")[which]), golden(name, which)
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, other, rtol=0, atol=NEARLY[name][3] * np.abs(other).max())


@pytest.mark.parametrize("name, which", [(name, which) for name in DIFFER for which in batches_of(name)[0]])
def test_where_definitions_differ(name, which):
    """The table says in what. If this fails they differ no more, and the table and the docs need a change."""
    found, expected = ours(terms_of(DIFFER[name]), read("inputs")[which])[:2], golden(name, which)[:2]
    differences = [
        np.abs(part - other).max() / np.abs(other).max() for part, other in zip(found, expected, strict=True)
    ]
    assert max(differences) > 100 * TOLERANCE


def test_every_golden_is_compared():
    agree = {(name, which) for name in AGREE for which in batches_of(name)[1]}
    nearly = {(name, which) for name in NEARLY for which in BATCHES}
    differ = {(name, which) for name in DIFFER for which in batches_of(name)[0]}
    goldens = read("pytorch_metric_learning").items()
    assert agree | nearly | differ == {(name, which) for name, golden in goldens for which in golden}
    # All have all batches, but for those that the other library refuses, or that have no triplet of a kind.
    missing = {(name, which) for name, golden in goldens for which in BATCHES if which not in golden}
    assert missing == {("smooth_ap", "uneven"), ("smooth_ap_warm", "uneven"), ("triplet_margin_hard", "pairs")}


# TensorFlow Addons: the losses under its names, and our own that mean the same.

ADDONS = {
    "triplet_semihard": addons.TripletSemiHardLoss(),
    "triplet_semihard_squared": addons.TripletSemiHardLoss(margin=0.3, distance_metric="squared-L2"),
    "triplet_semihard_angular": addons.TripletSemiHardLoss(margin=0.3, distance_metric="angular"),
    "triplet_hard": addons.TripletHardLoss(),
    "triplet_hard_soft": addons.TripletHardLoss(soft=True),
    "triplet_hard_squared": addons.TripletHardLoss(margin=0.3, distance_metric="squared-L2"),
    "triplet_hard_angular": addons.TripletHardLoss(margin=0.3, distance_metric="angular"),
    "lifted_struct": addons.LiftedStructLoss(),
    "lifted_struct_margin": addons.LiftedStructLoss(margin=0.4),
    "npairs": addons.NpairsLoss(),
    "npairs_multilabel": addons.NpairsMultilabelLoss(),
    "contrastive": addons.ContrastiveLoss(),
    "contrastive_margin": addons.ContrastiveLoss(0.7),
}


def addons_golden(name, which):
    stored_value = read("tensorflow_addons")[name][which]
    return [np.array(stored_value[part]) for part in ("value", "gradient")]


@pytest.mark.parametrize("name", ADDONS)
def test_addons_agrees_with_tensorflow_addons(name):
    for which in read("tensorflow_addons")[name]:
        batch = read("inputs")[which]
        if which == "distances":
            labels, taken = batch["same"], np.array(batch["distances"])
        else:
            labels, taken = batch["labels"], np.array(batch["embeddings"])
            taken = taken @ taken.T if name.startswith("npairs") else taken
        if name == "npairs_multilabel":
            labels = np.maximum(np.eye(7)[labels], np.eye(7)[np.array(labels) % 3])
        variable = tf.Variable(taken)
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(ADDONS[name].call(tf.constant(labels), variable))
        found = value, tape.gradient(value, variable)
        for part, other in zip(found, addons_golden(name, which), strict=True):
            np.testing.assert_allclose(part, other, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", SAME_AS_ADDONS)
def test_own_losses_agree_with_tensorflow_addons(name):
    for which in SAME_AS_ADDONS[name][3]:
        found = ours(terms_of(SAME_AS_ADDONS[name]), read("inputs")[which])
        for part, other in zip(found, addons_golden(name, which), strict=True):
            np.testing.assert_allclose(part, other, rtol=TOLERANCE, atol=TOLERANCE)


def test_every_golden_of_tensorflow_addons_is_compared():
    assert set(ADDONS) == set(read("tensorflow_addons"))


@pytest.mark.parametrize("name", read("tensorflow_similarity"))
def test_agrees_with_tensorflow_similarity(name):
    for which in SAME_AS_SIMILARITY[name][3]:
        found, golden = ours(terms_of(SAME_AS_SIMILARITY[name]), read("inputs")[which]), read("tensorflow_similarity")
        for part, other in zip(found, ("value", "gradient"), strict=True):
            np.testing.assert_allclose(part, golden[name][which][other], rtol=1e-4, atol=TOLERANCE)
