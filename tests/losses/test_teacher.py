"""Losses on reference vectors equal loops over images, alone and in a sum, and a model learns from them."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.losses.loops import assert_is_gradient, cosine, distance
from tests.methods.models import small_model
from tfdml import losses, registry
from tfdml.layers import BesideReference
from tfdml.run.training.model import loss_of

LABELS = np.array([0, 1, 2, 1, 3, 0])
numpy_of = keras.ops.convert_to_numpy


def both(dim, dims, seed=0, dtype="float64"):
    """Embeddings and the teacher's vectors of six images."""
    random = np.random.default_rng([seed, dim, dims])
    return random.normal(size=(6, dim)).astype(dtype), random.normal(size=(6, dims)).astype(dtype)


def by_cosine(rows, vectors):
    return [1 - cosine(x, t) for x, t in zip(rows, vectors, strict=True)]


def by_square(rows, vectors):
    return [distance(x, t) ** 2 for x, t in zip(rows, vectors, strict=True)]


def by_pairs(rows, vectors):
    values = []
    for i in range(len(rows)):
        apart = [(cosine(rows[i], rows[j]) - cosine(vectors[i], vectors[j])) ** 2 for j in range(len(rows)) if j != i]
        values.append(sum(apart) / len(apart))
    return values


def from_unit(rows, vectors):
    units = [[x / np.linalg.norm(x) for x in each] for each in (rows, vectors)]
    return by_square(*units)


CASES = [
    (losses.Teacher(projection=False, teacher_dims=4), by_cosine, 4, 4),
    (losses.Teacher(distance="euclidean", projection=False, teacher_dims=4), by_square, 4, 4),
    (losses.Teacher(form="pairs", teacher_dims=7), by_pairs, 3, 7),
    (losses.TowardInitial(), from_unit, 4, 4),
]


@pytest.mark.parametrize("loss, loop, dim, dims", CASES, ids=[loop.__name__ for _, loop, _, _ in CASES])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-10)])
def test_values_and_gradients_are_those_of_the_loop(loss, loop, dim, dims, dtype, tolerance):
    rows, vectors = both(dim, dims, dtype=dtype)
    layer, variable = loss.make_layer(), tf.Variable(rows)
    with tf.GradientTape() as tape:
        values = loss.call(LABELS, layer(variable, references={name: vectors for name in loss.references}))
    assert values.dtype == dtype
    np.testing.assert_allclose(values, loop(rows, vectors), rtol=tolerance, atol=tolerance)
    if dtype == "float64":
        gradient = tf.convert_to_tensor(tape.gradient(values, variable)).numpy()
        assert_is_gradient(gradient, lambda rows: loop(rows, vectors), rows)


def test_a_projection_maps_embeddings_of_any_size_to_the_teachers():
    rows, vectors = both(3, 5)
    loss = losses.Teacher(teacher_dims=5)
    layer = loss.make_layer()
    layer.build((None, 3))
    (kernel,) = layer.trainable_variables
    kernel.assign(np.random.default_rng(1).normal(size=(3, 5)))
    with tf.GradientTape() as tape:
        values = loss.call(LABELS, layer(rows, references={"teacher": vectors}))
    projected = numpy_of(kernel).astype("float64")
    np.testing.assert_allclose(values, by_cosine(rows @ projected, vectors), rtol=1e-6)
    gradient = tf.convert_to_tensor(tape.gradient(values, kernel.value)).numpy()
    assert_is_gradient(gradient, lambda kernel: by_cosine(rows @ kernel, vectors), projected, abs=1e-5)


def test_equal_and_zero_embeddings_have_finite_gradients():
    for loss, _, dim, dims in CASES:
        vectors = both(dim, dims, dtype="float32")[1]
        for rows in (np.ones((6, dim), "float32"), np.zeros((6, dim), "float32")):
            variable = tf.Variable(rows)
            with tf.GradientTape() as tape:
                values = loss.call(LABELS, loss.make_layer()(variable, references={loss.references[0]: vectors}))
            gradient = tf.convert_to_tensor(tape.gradient(values, variable))
            assert np.all(np.isfinite(values)) and np.all(np.isfinite(gradient))


def test_a_single_image_has_no_pairs():
    loss = losses.Teacher(form="pairs", teacher_dims=2)
    assert loss.call(np.array([0]), np.ones((1, 5), "float32")).numpy() == [0]


def test_a_sum_gives_each_term_what_it_compares():
    rows, vectors = both(4, 5, dtype="float32")
    before = both(4, 4, seed=1, dtype="float32")[1]
    spec = "triplet(mining='all') + 0.5*teacher(form='pairs') + 3*toward_initial + 0.1*toward_initial(of='weights')"
    loss = registry.create("loss", spec, teacher_dims=5)
    assert loss.references == ("teacher", "initial") and loss.weights_penalty == pytest.approx(0.1)
    layer = loss.make_layer()
    layer.build((None, 4))
    taken = layer(rows, LABELS, {"teacher": vectors, "initial": before})
    expected = losses.Triplet(mining="all").call(LABELS, rows).numpy()
    expected += 0.5 * np.array(by_pairs(rows, vectors)) + 3 * np.array(from_unit(rows, before))
    np.testing.assert_allclose(loss.call(LABELS, taken), expected, rtol=1e-4)
    found = loss.statistics(LABELS, taken)
    assert float(found["teacher_distance_of_loss_1"]) == pytest.approx(np.mean(by_pairs(rows, vectors)), rel=1e-4)
    assert float(found["initial_distance_of_loss_2"]) == pytest.approx(np.mean(from_unit(rows, before)), rel=1e-4)
    # Other images take the place of the batch for the initial model only.
    others = both(4, 4, seed=2, dtype="float32")[0]
    taken = layer(rows, LABELS, {"teacher": vectors, "initial": before, "anchor": others})
    expected += 3 * np.array(from_unit(others, before)) - 3 * np.array(from_unit(rows, before))
    np.testing.assert_allclose(loss.call(LABELS, taken), expected, rtol=1e-4)


def test_settings_survive_saving():
    for loss in (losses.Teacher(form="pairs", teacher_dims=3), losses.TowardInitial(of="weights")):
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
        assert type(again) is type(loss) and again.get_config() == loss.get_config()
    layer = BesideReference("teacher", dims=5, projection=True)
    assert BesideReference.from_config(layer.get_config()).compute_output_shape((None, 2)) == (None, 10)


def test_errors():
    with pytest.raises(ValueError, match="teacher needs a teacher. Set --teacher"):
        losses.Teacher().make_layer()
    with pytest.raises(ValueError, match="the teacher's 3 dimensions. Received: embeddings of 2 dimensions"):
        losses.Teacher(projection=False, teacher_dims=3)(LABELS, np.ones((6, 5), "float32"))
    with pytest.raises(ValueError, match="output of its layer BesideReference"):
        losses.Teacher(teacher_dims=3)(LABELS, np.ones((6, 3), "float32"))
    with pytest.raises(ValueError, match="vector of 4 dimensions as the target 'teacher'"):
        losses.Teacher(teacher_dims=4).make_layer()(np.ones((6, 2), "float32"), references={"teacher": np.ones((6, 3))})
    with pytest.raises(ValueError, match="a loss in plain Keras does not know"):
        losses.TowardInitial(of="weights")(LABELS, np.ones((6, 3), "float32"))
    with pytest.warns(UserWarning, match="projection=False has no effect with form='pairs'"):
        losses.Teacher(form="pairs", projection=False)


# Models.


@pytest.fixture
def batch(batch):
    """16 small images in the range of pixels, and their labels."""
    images, labels = batch
    return np.clip(images, -2, 2), labels


def vectors_of(labels, dims=6, seed=0):
    """A teacher that knows the classes."""
    vectors = np.random.default_rng(seed).normal(size=(labels.max() + 1, dims))[labels]
    return vectors.astype("float32")


def step_of(model, images, targets):
    """The gradient of a step, as the change of all variables by plain gradient descent."""
    before = [numpy_of(each) for each in model.trainable_variables]
    logs = model.train_on_batch(images, targets, return_dict=True)
    return [numpy_of(each) - old for each, old in zip(model.trainable_variables, before, strict=True)], logs


def test_a_model_learns_the_vectors_of_a_teacher(batch):
    images, labels = batch
    model, vectors = small_model(), vectors_of(labels)
    model.compile(keras.optimizers.Adam(0.01), losses.Teacher(teacher_dims=6))
    targets = {"label": np.arange(16), "teacher": vectors}
    history = model.fit(images, targets, batch_size=16, epochs=25, verbose=0).history["loss"]
    assert history[-1] < 0.2 * history[0]
    assert model.loss_statistics()["teacher_distance"] == pytest.approx(history[-1], rel=1e-3)
    # The projection belongs to the training.
    assert model.predict(images, verbose=0).shape == (16, 16)


@pytest.mark.few_by_day(1)
def test_the_step_is_that_of_a_plain_tape_with_pieces_and_without(batch):
    images, labels = batch
    vectors = vectors_of(labels)
    changes = []
    for pieces in (1, 4):
        keras.utils.set_random_seed(1)
        model = small_model(freeze_batch_norm="statistics")
        loss = "triplet + 0.5*teacher(form='pairs', teacher_dims=6)"
        model.compile(keras.optimizers.SGD(1.0), loss, pieces=pieces)
        model.build(images.shape)
        with tf.GradientTape() as tape:
            rows = model(images, training=True)
            values = losses.Triplet().call(labels, rows)
            values += 0.5 * losses.Teacher(form="pairs", teacher_dims=6).call(
                labels, tf.concat([rows, vectors], axis=1)
            )
            loss = tf.reduce_mean(values)
        expected = tape.gradient(loss, [each.value for each in model.trainable_variables])
        found, logs = step_of(model, images, {"label": labels, "teacher": vectors})
        assert float(logs["loss"]) == pytest.approx(float(loss), rel=1e-5)
        for change, gradient in zip(found, expected, strict=True):
            np.testing.assert_allclose(change, -tf.convert_to_tensor(gradient).numpy(), atol=2e-6)
        changes.append(found)
    assert max(np.abs(each).max() for each in changes[0]) > 1e-3


def test_the_penalty_pulls_the_weights_of_the_backbone_back(batch):
    images, labels = batch
    model = small_model()
    model.compile(keras.optimizers.SGD(0.1), "0*triplet + 0.25*toward_initial(of='weights')")
    model.build(images.shape)
    first = [numpy_of(each) for each in model.backbone.trainable_variables]
    assert len(model.initial_weights.variables) == len(first)
    # At the initial weights, the penalty and its gradient are 0.
    _, logs = step_of(model, images, labels)
    assert float(logs["loss"]) == 0
    moved = [np.random.default_rng(0).normal(size=each.shape).astype("float32") for each in first]
    for variable, old, way in zip(model.backbone.trainable_variables, first, moved, strict=True):
        variable.assign(old + way)
    embedding = [numpy_of(each) for each in model.head.trainable_variables]
    _, logs = step_of(model, images, labels)
    assert float(logs["loss"]) == pytest.approx(0.25 * sum(np.sum(way**2) for way in moved), rel=1e-4)
    for variable, old, way in zip(model.backbone.trainable_variables, first, moved, strict=True):
        np.testing.assert_allclose(numpy_of(variable) - old, way * (1 - 0.1 * 2 * 0.25), rtol=1e-4, atol=1e-5)
    for variable, old in zip(model.head.trainable_variables, embedding, strict=True):
        np.testing.assert_array_equal(numpy_of(variable), old)


def test_the_weights_of_a_loaded_model_are_its_initial_ones(batch, tmp_path):
    """`load_model` compiles the model before it loads the weights."""
    images, labels = batch
    model = small_model()
    model.compile(keras.optimizers.SGD(0.1), "0*triplet + toward_initial(of='weights')")
    model.build(images.shape)
    for variable in model.backbone.trainable_variables:
        variable.assign(variable + 1)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    _, logs = step_of(loaded, images, labels)
    assert float(logs["loss"]) == 0
    loaded.backbone.trainable_variables[0].assign_add(np.ones_like(loaded.backbone.trainable_variables[0]))
    assert loaded.train_on_batch(images, labels, return_dict=True)["loss"] > 1


def test_penalties_have_no_levels(batch):
    images, labels = batch
    train = SimpleNamespace(level_names=("kind", "class"), num_classes=4)
    spec = "contrastive + 0.5*toward_initial + 0.25*toward_initial(of='weights')"
    values = {}
    for name, of_images in (("sum", spec), ("levels", "by_level(loss='contrastive')")):
        model = small_model()
        model.compile(keras.optimizers.SGD(0.0), loss_of(of_images, train))
        model.build(images.shape)
        targets = {
            "label": np.stack([labels // 2, labels], axis=1),
            "initial": np.roll(labels, 1)[:, None] * np.eye(16)[:1],
        }
        values[name] = model.train_on_batch(images, targets, return_dict=True)["loss"]
        if name == "sum":
            assert model.initial_weights.factor == 0.25 and model.loss.takes_levels
    assert loss_of("by_level(loss=\"triplet + 0.1*toward_initial(of='weights')\")", train).weights_penalty == 0.1
    assert values["sum"] > values["levels"] > 0


def test_other_images_stay_near_the_initial_embeddings(batch):
    images, labels = batch
    anchors = np.random.default_rng(3).uniform(-2, 2, images.shape).astype("float32")
    model = small_model(freeze_batch_norm="statistics")
    model.compile(keras.optimizers.SGD(0.1), "0*triplet + toward_initial")
    model.build(images.shape)
    before = model.predict(anchors, verbose=0)
    other = np.roll(before, 1, axis=0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.reduce_sum((model(anchors, training=True) - other) ** 2, axis=1))
    expected = tape.gradient(loss, [each.value for each in model.trainable_variables])
    found, logs = step_of(model, images, {"label": labels, "initial": other, "anchor": anchors})
    assert float(logs["loss"]) == pytest.approx(float(loss), rel=1e-5)
    for change, gradient in zip(found, expected, strict=True):
        np.testing.assert_allclose(change, -0.1 * tf.convert_to_tensor(gradient).numpy(), atol=2e-6)


def test_each_learner_stays_near_its_own_initial_embedding(batch):
    import tfdml

    images, labels = batch
    model = tfdml.MultiHead(tfdml.backbones.Small(width=8, stages=2), embedding_size=8, learners=2)
    model.compile("sgd", "0*triplet + toward_initial")
    model.build(images.shape)
    model.freeze_batch_norm = "statistics"
    initial = model.predict(images, verbose=0)
    assert model.evaluate(images, {"label": labels, "initial": initial}, verbose=0, return_dict=True)[
        "loss"
    ] == pytest.approx(0, abs=1e-6)


def test_errors_of_models(batch):
    import tfdml

    images, labels = batch
    model = small_model()
    model.compile("sgd", losses.Teacher(teacher_dims=6))
    with pytest.raises(ValueError, match="Expected targets {'label': ..., 'teacher': "):
        model.fit(images, labels, verbose=0)
    with pytest.raises(ValueError, match="vector of 6 dimensions as the target 'teacher'. Received: vectors of 5"):
        model.fit(images, {"label": labels, "teacher": vectors_of(labels, 5)}, verbose=0)
    with pytest.raises(ValueError, match="does not support memory: the memory has no reference vectors"):
        model.compile("sgd", losses.Teacher(teacher_dims=6), memory="xbm")
    divided = tfdml.DivideAndConquer(tfdml.backbones.Small(width=8, stages=2), embedding_size=8, learners=2)
    with pytest.raises(ValueError, match="DivideAndConquer does not support a loss that compares embeddings"):
        divided.compile("sgd", losses.Teacher(teacher_dims=6))
