import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.losses.test_proxy_losses import merging
from tfdml import registry
from tfdml.losses import (
    ContextualManifold,
    Contrastive,
    Margin,
    NormSoftmax,
    ProxyAnchor,
    ProxyNCA,
    ProxyNPair,
    SoftTriple,
    Triplet,
    WeightedSum,
)

# What each sum is of; the contract tests run on such sums, too.
SUMS = {
    "embeddings": [(1.0, Triplet()), (0.25, Contrastive())],
    "embeddings and proxies": [(1.0, Triplet()), (0.5, ProxyAnchor(classes=7))],
    "two sets of proxies": [(3, ProxyNCA(classes=7)), (0.5, NormSoftmax(classes=7))],
    "all kinds": [
        (0.5, Margin(learn_beta="per_class", classes=7, mining="all")),
        (2.0, SoftTriple(classes=7, per_class=2)),
        (1.0, Contrastive()),
    ],
    "a sum": [(2.0, WeightedSum([(0.5, ProxyNCA(classes=7)), (1.0, Triplet())])), (1.0, Contrastive())],
}


@pytest.fixture(params=SUMS)
def terms(request):
    return SUMS[request.param]


def parts_of(layer, terms):
    return [None] * len(terms) if layer is None else layer.parts


def test_value_and_gradients_are_the_weighted_sums_of_the_losses_own(terms, make_batch):
    labels, embeddings = make_batch(12, 7, dtype="float64")
    loss = WeightedSum(terms)
    layer = loss.make_layer()
    variable = tf.Variable(embeddings)
    with tf.GradientTape(persistent=True) as tape:
        values = loss.call(labels, variable if layer is None else layer(variable, labels))
        expected = [
            weight * each.call(labels, variable if part is None else part(variable, labels))
            for (weight, each), part in zip(terms, parts_of(layer, terms), strict=True)
        ]
    np.testing.assert_allclose(values, sum(expected), rtol=1e-9)
    assert all(np.any(each.numpy() != 0) for each in expected)
    sources = [variable, *(weight.value for weight in (layer.weights if layer else ()))]
    for source in sources:
        found = tape.gradient(values, source)
        own = [tape.gradient(each, source) for each in expected]
        np.testing.assert_allclose(found, sum(part for part in own if part is not None), rtol=1e-4, atol=1e-7)
        assert np.abs(found).max() > 1e-3


def test_regularizers_count_with_the_weight_of_their_loss():
    loss = WeightedSum([(1.0, Triplet()), (0.25, SoftTriple(classes=3, per_class=4, merging=2.0))])
    layer = WeightedSum([(2.0, loss), (3.0, SoftTriple(classes=3, per_class=2))]).make_layer()
    layer.build((None, 5))
    inner, outer = layer.parts
    expected = [
        2.0 * 0.25 * merging(inner.parts[1].proxies.numpy(), 4, weight=2.0),
        3.0 * merging(outer.proxies.numpy(), 2),
    ]
    assert sorted(map(float, layer.losses)) == pytest.approx(sorted(expected), rel=1e-5)


def test_regularizers_keep_their_weight_when_a_model_is_saved(tmp_path):
    loss = WeightedSum([(0.25, SoftTriple(classes=3, per_class=4, merging=2.0)), (1.0, Triplet())])
    inputs = keras.Input((5,))
    model = keras.Model(inputs, loss.make_layer()(inputs))
    model.compile(loss=loss)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    expected = 0.25 * merging(model.layers[-1].parts[0].proxies.numpy(), 4, weight=2.0)
    for each in (model, loaded):
        assert float(sum(each.losses)) == pytest.approx(expected, rel=1e-5)


def test_specs():
    loss = registry.create(
        "loss", "triplet(margin=0.5)+0.5*proxy_anchor + 2 * margin(learn_beta='per_class')", classes=7
    )
    assert [(weight, type(each)) for weight, each in loss.terms] == [(1.0, Triplet), (0.5, ProxyAnchor), (2.0, Margin)]
    assert (loss.terms[0][1].margin, loss.terms[1][1].classes, loss.terms[2][1].classes) == (0.5, 7, 7)
    (term,) = registry.create("loss", "0.5*triplet").terms
    assert (term[0], type(term[1])) == (0.5, Triplet)
    assert type(registry.create("loss", "triplet")) is Triplet


@pytest.mark.parametrize(
    "spec, message",
    [
        ("triplet|0.5*proxy_anchor", "Cannot read the spec"),
        ("triplet|contrastive", "Expected one loss. Received: a chain of 2.*Write a sum with [+]"),
        ("triplet-contrastive", "Cannot read the spec"),
        ("triplet+0.5", "Cannot read the spec"),
        ("triplet*0.5", "Cannot read the weight triplet in"),
        ("-1*triplet", "Cannot read the weight -1 in"),
        ("True*triplet", "Cannot read the weight True in"),
        ("2*(triplet+contrastive)", "Cannot read the spec"),
        ("triplet+tripelt", "Unknown loss 'tripelt'. Did you mean 'triplet'"),
        ("triplet+contrastive(m=1)", "'contrastive' has no argument 'm'"),
    ],
)
def test_what_is_no_sum_is_told(spec, message):
    with pytest.raises(ValueError, match=message):
        registry.create("loss", spec)


@pytest.mark.parametrize("kind, spec", [("backbone", "small+small"), ("sampler", "2*pxk")])
def test_only_losses_are_summed(kind, spec):
    with pytest.raises(ValueError, match="Cannot read the spec"):
        registry.create(kind, spec)


@pytest.mark.parametrize(
    "terms, message",
    [
        ([], "at least one pair"),
        ([(-1.0, Triplet())], "number of 0 or more. Received: weight=-1.0"),
        ([(float("nan"), Triplet())], "number of 0 or more. Received: weight=nan"),
        ([(float("inf"), Triplet())], "number of 0 or more. Received: weight=inf"),
        ([("1", Triplet())], "number of 0 or more. Received: weight='1'"),
        ([Triplet(), Contrastive()], r"must be pairs of a weight and a loss, such as \(1.0, Triplet\(\)\)"),
        ([(1.0, "triplet")], "must have a keras.losses.Loss. Received: 'triplet'"),
        ([(1.0, ProxyAnchor())], "needs the number of training classes"),
        (
            [(1.0, ContextualManifold(classes=3, proxies="hard")), (1.0, ProxyNPair(classes=3, proxies="images"))],
            "2 losses of the sum have proxies that are features of images",
        ),
        (
            [(1.0, Contrastive(pairs="given")), (1.0, Triplet(mining="given"))],
            "with 2 parts and with 3 parts",
        ),
    ],
)
def test_bad_terms_are_told(terms, message):
    with pytest.raises(ValueError, match=message):
        WeightedSum(terms)


def test_plain_keras_without_the_layer_is_an_error():
    loss = WeightedSum([(1.0, Triplet()), (0.5, ProxyAnchor(classes=8))])
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(16)])
    model.compile(loss=loss, run_eagerly=True)
    with pytest.raises(ValueError, match=r"ends with outputs = loss.make_layer\(\).*Received.*\(4, 16\)"):
        model.fit(np.ones((4, 5)), np.arange(4), verbose=0)
    for width in (0, 7, 8):
        with pytest.raises(ValueError, match="Received: an output of shape"):
            loss(np.arange(4), np.ones((4, 1, width), "float32"))


def test_any_keras_loss_can_be_a_term(make_batch):
    class Length(keras.losses.Loss):
        def call(self, labels, embeddings):
            return keras.ops.sum(keras.ops.square(embeddings), axis=1)

    labels, embeddings = make_batch(normalised=False)
    values = WeightedSum([(0.1, Length()), (1.0, ProxyNCA(classes=4))], reduction=None)
    layer = values.make_layer()
    expected = 0.1 * np.sum(embeddings**2, axis=1) + ProxyNCA(reduction=None)(labels, layer.parts[1](embeddings))
    np.testing.assert_allclose(values(labels, layer(embeddings)), expected, rtol=1e-4)


def test_a_loss_of_keras_gets_the_labels_themselves(make_batch):
    """Its labels may be more than names of classes, such as factors."""

    class Scaled(keras.losses.Loss):
        def call(self, labels, embeddings):
            return keras.ops.cast(labels, "float32") * keras.ops.sum(embeddings, axis=1)

    _, embeddings = make_batch(4, 3)
    labels = np.array([7, 7, 2, 2])
    expected = 2 * np.mean(labels * embeddings.sum(axis=1))
    assert float(WeightedSum([(2.0, Scaled())])(labels, embeddings)) == pytest.approx(expected, rel=1e-5)


def test_neighbouring_large_labels_stay_apart_beside_a_boundary_for_all(make_batch):
    labels, embeddings = make_batch()
    loss = WeightedSum([(1.0, Triplet()), (1.0, Margin(learn_beta="one"))])
    layer = loss.make_layer()
    assert layer.classes == 1
    taken = layer(embeddings, labels)
    assert (
        float(loss(labels + 2**24, taken)) == float(loss(labels[:, None] + 2**40, taken)) == float(loss(labels, taken))
    )


def test_labels_are_checked_against_the_fewest_classes():
    terms = [(1.0, ProxyNCA(classes=5)), (1.0, Margin(learn_beta="one")), (1.0, ProxyNCA(classes=3))]
    assert WeightedSum(terms).make_layer().classes == 3
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=1), embedding_size=4)
    model.compile("sgd", loss=WeightedSum(terms), run_eagerly=True)
    with pytest.raises(ValueError, match="for 3 classes, so labels must be from 0 to 2. Received: 3 at position 3"):
        model.fit(np.zeros((4, 8, 8, 3)), np.arange(4), verbose=0)
    with pytest.raises(ValueError, match="Expected labels from 0 to 2. Received: a batch with another label"):
        model.fit(tf.data.Dataset.from_tensors((np.zeros((4, 8, 8, 3)), np.arange(4))), verbose=0)


def test_a_label_that_is_no_class_of_a_loss_is_named(make_batch, make_feed):
    labels, embeddings = make_batch(6, 3)
    loss = WeightedSum([(1.0, ProxyNCA(classes=3)), (1.0, Triplet())])
    taken = make_feed(loss)(labels, embeddings)
    assert np.isfinite(loss(labels, taken))
    labels[4] = 3
    with pytest.raises(
        ValueError, match="WeightedSum was created for 3 classes, .* from 0 to 2. Received: 3 at pos.* 4"
    ):
        loss(labels, taken)
    # Where no loss has classes, labels are any numbers.
    loss = WeightedSum([(1.0, Margin(learn_beta="one")), (1.0, Triplet())])
    assert np.isfinite(loss(labels - 9, make_feed(loss)(labels, embeddings)))
