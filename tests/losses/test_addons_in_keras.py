"""The losses of TensorFlow Addons as classes: arguments, files, compiled functions, errors."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses.test_addons import negated_products
from tfdml import registry
from tfdml.losses import addons

LOSSES = {
    "ContrastiveLoss": {"margin": 0.7},
    "LiftedStructLoss": {"margin": 0.7},
    "NpairsLoss": {},
    "TripletHardLoss": {"margin": 0.7, "soft": True, "distance_metric": "angular"},
    "TripletSemiHardLoss": {"margin": 0.7, "distance_metric": "squared-L2"},
}
of_every_loss = pytest.mark.parametrize("name", LOSSES)


@pytest.fixture
def fed(make_batch):
    """Function that makes what a loss takes: class numbers and embeddings, or what it takes instead of them."""

    def make(name, dtype="float32"):
        labels, embeddings = make_batch(12, 4, dtype=dtype)
        if name == "ContrastiveLoss":
            return labels % 2, embeddings[:, 0] ** 2
        return labels, embeddings @ embeddings.T if name == "NpairsLoss" else embeddings

    return make


@of_every_loss
def test_a_loss_is_the_mean_over_anchors_and_has_an_effect_of_each_argument(fed, name):
    assert set(addons.__all__) == set(LOSSES)
    labels, values = fed(name)
    make = getattr(addons, name)
    for arguments in ({}, LOSSES[name]):
        loss = make(**arguments)(labels, values)
        anchors = make(**arguments, reduction=None)(labels, values)
        assert loss.dtype == "float32" and anchors.shape == (12,)
        assert np.mean(anchors) == pytest.approx(float(loss), rel=1e-6)
    for argument, changed in LOSSES[name].items():
        assert make(**{argument: changed})(labels, values) != make()(labels, values)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("ContrastiveLoss", "margin=1.0, reduction='sum_over_batch_size', name='contrastive_loss'"),
        ("LiftedStructLoss", "margin=1.0, name=None"),
        ("NpairsLoss", "name='npairs_loss'"),
        ("TripletHardLoss", "margin=1.0, soft=False, distance_metric='L2', name=None"),
        ("TripletSemiHardLoss", "margin=1.0, distance_metric='L2', name=None"),
    ],
)
def test_arguments_stand_in_their_old_order(name, arguments):
    written = str(inspect.signature(getattr(addons, name)))
    assert written.removesuffix(", **kwargs)").removesuffix(")") == f"({arguments}"


@pytest.mark.slow
@of_every_loss
def test_keras_trains_saves_and_loads_with_it(name, tmp_path):
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    labels, images = random.integers(0, 3, 24), random.normal(size=(24, 5)).astype("float32")
    inputs = keras.Input((5,))
    outputs = keras.layers.Dense(4)(inputs)
    if name == "ContrastiveLoss":
        labels = labels % 2
        outputs = keras.layers.Dense(1, activation="softplus")(outputs)
    elif name == "NpairsLoss":
        outputs = keras.ops.matmul(outputs, keras.ops.transpose(outputs))
    network = keras.Model(inputs, outputs)
    loss = getattr(addons, name)(**LOSSES[name])
    # Eagerly: graphs are compared below, and three would be traced here.
    network.compile(keras.optimizers.Adam(0.03), loss=loss, run_eagerly=True)
    losses = network.fit(images, labels, batch_size=24, epochs=15, verbose=0).history["loss"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
    network.save(tmp_path / "network.keras")
    loaded = keras.models.load_model(tmp_path / "network.keras")
    assert type(loaded.loss) is type(loss) and loaded.loss.get_config() == loss.get_config()
    value = network.evaluate(images, labels, batch_size=24, verbose=0)
    assert loaded.evaluate(images, labels, batch_size=24, verbose=0) == pytest.approx(value, rel=1e-5)


@of_every_loss
def test_config_survives_json(name):
    own = getattr(addons, name)(**LOSSES[name], name="own", reduction="sum", dtype="float64")
    written = json.loads(json.dumps(keras.saving.serialize_keras_object(own)))
    assert written["registered_name"] == f"tfdml>{name}"
    read = keras.saving.deserialize_keras_object(written)
    assert type(read) is type(own) and read.get_config() == own.get_config()
    assert (read.name, read.reduction, read.dtype) == ("own", "sum", "float64")
    assert LOSSES[name].items() <= read.get_config().items()


@pytest.mark.parametrize("make", [addons.TripletHardLoss, addons.TripletSemiHardLoss])
def test_a_distance_function_survives_json(fed, make):
    own = make(distance_metric=negated_products)
    read = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(own))))
    assert read.distance_metric is negated_products
    assert read(*fed(make.__name__)) == own(*fed(make.__name__)) != make()(*fed(make.__name__))


@pytest.mark.slow
@pytest.mark.usefixtures("improved_graphs")
@of_every_loss
def test_compiled_functions_give_the_eager_value_and_gradient(fed, name):
    loss = getattr(addons, name)(**LOSSES[name])

    def both(labels, values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            value = loss(labels, values)
        return value, tape.gradient(value, values)

    labels, values = (tf.constant(part) for part in fed(name))
    eager = both(labels, values)
    assert np.abs(eager[1]).max() > 1e-3
    unknown_size = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([None] * values.shape.rank, tf.float32)]
    for compiled in (tf.function(both, input_signature=unknown_size), tf.function(both, jit_compile=True)):
        for got, expected in zip(compiled(labels, values), eager, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "ContrastiveLoss"])
@pytest.mark.parametrize("labels", [[3] * 6, range(6), [2**24, 2**24 + 1, 2**24] * 2], ids=["one", "all", "large"])
def test_values_and_gradients_are_finite(make_batch, name, labels):
    embeddings = make_batch(6)[1]
    for rows in (embeddings, embeddings[[0, 0, 0, 1, 1, 2]], np.zeros_like(embeddings), 100 * embeddings):
        variable = tf.Variable(rows)
        for arguments in ({}, LOSSES[name]):
            with tf.GradientTape() as tape:
                taken = variable @ tf.transpose(variable) if name == "NpairsLoss" else variable
                value = getattr(addons, name)(**arguments)(np.array(labels), taken)
            assert np.isfinite(value) and np.all(np.isfinite(tape.gradient(value, variable)))


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "ContrastiveLoss"])
def test_neighbouring_large_labels_stay_apart(fed, name):
    labels, values = fed(name)
    loss = getattr(addons, name)()
    assert loss(labels + 2**24, values) == loss(labels, values) == loss(labels[:, None], values)


def test_without_a_positive_pair_it_is_zero_where_it_was_no_number(make_batch):
    variable = tf.Variable(make_batch(6)[1])
    for loss in (addons.TripletSemiHardLoss(), addons.LiftedStructLoss()):
        with tf.GradientTape() as tape:
            value = loss(np.arange(6), variable)
        assert value == 0
        np.testing.assert_array_equal(tape.gradient(value, variable), np.zeros((6, 5)))


@pytest.mark.parametrize("make", [addons.TripletHardLoss, addons.TripletSemiHardLoss])
def test_an_unknown_distance_metric_names_the_known(make):
    with pytest.raises(ValueError, match="distance_metric 'l2'.*L2, squared-L2, angular, or a function"):
        make(distance_metric="l2")


def test_bad_shapes_are_told(make_batch):
    labels, embeddings = make_batch(4)
    with pytest.raises(ValueError, match=r"distances of shape \[batch\].*received shape \(4, 5\)"):
        addons.ContrastiveLoss()(labels, embeddings)
    with pytest.raises(ValueError, match=r"\[batch, batch\], received shape \(4, 5\)"):
        addons.NpairsLoss()(labels, embeddings)
    with pytest.raises(ValueError, match=r"\[batch, dim\]"):
        addons.TripletHardLoss()(labels, embeddings[:, 0])


def test_the_training_command_does_not_know_them():
    kinds = {type(registry.create("loss", name)) for name in ("contrastive", "lifted_structure", "triplet")}
    assert not kinds & {getattr(addons, name) for name in LOSSES}
    assert not [name for name in registry.names("loss") if name.endswith("loss")]
