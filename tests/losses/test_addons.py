"""The losses of TensorFlow Addons: loops written from its 0.23's documented behaviour, files, graphs, errors."""

import inspect
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses import loops
from tfdml import registry
from tfdml.losses import addons


@keras.saving.register_keras_serializable(package="test_addons")
def negated_products(embeddings):
    return -tf.matmul(embeddings, embeddings, transpose_b=True)


METRICS = {
    "L2": loops.distance,
    "squared-L2": lambda x, y: loops.distance(x, y) ** 2,
    "angular": lambda x, y: max(1 - loops.cosine(x, y), 0.0),
    negated_products: lambda x, y: -loops.dot(x, y),
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


def naive_npairs(labels, similarities):
    costs = []
    for label, row in zip(labels, np.asarray(similarities, np.float64), strict=True):
        own = [j for j, other in enumerate(labels) if other == label]
        total = sum(math.exp(value) for value in row)
        costs.append(-sum(math.log(math.exp(row[j]) / total) / len(own) for j in own))
    return sum(costs) / len(costs)


@of_every_metric
@of_every_batch
@pytest.mark.few_by_day(7)
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
        assert float(value) == pytest.approx(np.mean(loops.lifted_structure(labels, embeddings, margin)), **near)
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


def test_the_soft_margin_does_not_overflow():
    variable = tf.Variable([[0.0], [500.0], [1.0]])
    with tf.GradientTape() as tape:
        value = addons.TripletHardLoss(soft=True)([0, 0, 1], variable)
    gaps = 500 - 1, 500 - 499, 0 - 1
    assert float(value) == pytest.approx((gaps[0] + sum(math.log(1 + math.exp(gap)) for gap in gaps[1:])) / 3)
    assert np.all(np.isfinite(tape.gradient(value, variable)))


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
    # Labels of this loss are another kind.
    assert set(addons.__all__) == {*LOSSES, "NpairsMultilabelLoss"}
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


def test_n_pairs_of_several_labels_weights_columns_by_shared_labels():
    has = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0], [0, 1, 1]])
    similarities = np.random.default_rng(0).normal(size=(4, 4)).astype("float32")
    costs = []
    for own, row in zip(has, similarities.astype("float64"), strict=True):
        shared = [sum(own * other) for other in has]
        log = [value - math.log(sum(map(math.exp, row))) for value in row]
        costs.append(-sum(count * each for count, each in zip(shared, log, strict=True)) / sum(shared))
    values = addons.NpairsMultilabelLoss(reduction=None)(has, similarities)
    np.testing.assert_allclose(values, costs, rtol=1e-5)
    assert float(addons.NpairsMultilabelLoss()(has, similarities)) == pytest.approx(np.mean(costs), rel=1e-5)
    with pytest.raises(ValueError, match=r"labels of shape \[batch, labels\]. Received: shape=\(4,\)"):
        addons.NpairsMultilabelLoss()(np.arange(4), similarities)


@pytest.mark.nightly
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


@pytest.mark.nightly
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
@pytest.mark.few_by_day(4)
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
    with pytest.raises(
        ValueError, match="distance_metric must be one of L2, squared-L2, angular, .*Received: distance_metric='l2'"
    ):
        make(distance_metric="l2")


def test_bad_shapes_are_told(make_batch):
    labels, embeddings = make_batch(4)
    with pytest.raises(ValueError, match=r"distances of shape \[batch\].*Received: shape=\(4, 5\)"):
        addons.ContrastiveLoss()(labels, embeddings)
    with pytest.raises(ValueError, match=r"\[batch, batch\]. Received: shape=\(4, 5\)"):
        addons.NpairsLoss()(labels, embeddings)
    with pytest.raises(ValueError, match=r"\[batch, dim\]"):
        addons.TripletHardLoss()(labels, embeddings[:, 0])


def test_the_training_command_does_not_know_them():
    kinds = {type(registry.create("loss", name)) for name in ("contrastive", "lifted_structure", "triplet")}
    assert not kinds & {getattr(addons, name) for name in LOSSES}
    assert not [name for name in registry.names("loss") if name.endswith("loss")]
