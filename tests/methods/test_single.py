"""The base model and its plainest methods, as a Keras user meets them: `Single`, also unnormalized, and `Features`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.methods.models import small_model
from tfdml.heads import Linear
from tfdml.losses import Contrastive, Triplet


def test_embeddings_have_unit_length(batch):
    model = small_model()
    learners = model.learner_embeddings(batch[0])
    assert learners.shape == (16, 1, 16)
    np.testing.assert_allclose(np.linalg.norm(learners, axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(model(batch[0]), learners[:, 0], atol=1e-6)


class TwoLearners(tfdml.EmbeddingModel):
    """The first two features as one learner, the next two as another."""

    def learner_embeddings(self, images, training=False):
        return keras.ops.normalize(keras.ops.reshape(images[:, 0, :4, 0], (-1, 2, 2)), axis=-1)


def test_learners_stand_side_by_side_at_unit_length(batch):
    model = TwoLearners()
    learners, merged = model.learner_embeddings(batch[0]), model(batch[0])
    np.testing.assert_allclose(merged, np.concatenate([learners[:, 0], learners[:, 1]], axis=1) / np.sqrt(2), atol=1e-6)
    model.compile("sgd", loss=Contrastive())
    expected = sum(Contrastive().call(batch[1], learners[:, k]) for k in range(2))
    np.testing.assert_allclose(model.loss_values({"label": batch[1]}, learners), expected, rtol=1e-6)


def test_step_is_gradient_descent_on_the_mean_loss(batch):
    images, labels = batch
    model = small_model()
    model(images)
    model.compile(keras.optimizers.SGD(0.1), loss=Triplet(mining="all"))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(Triplet(mining="all").call(labels, model(images, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    expected = [
        variable - 0.1 * gradient for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
    ]
    logs = model.train_on_batch(images, labels, return_dict=True)
    for variable, weight in zip(model.trainable_variables, expected, strict=True):
        np.testing.assert_allclose(variable, weight, atol=1e-6)
    assert logs["loss"] == pytest.approx(float(loss), abs=1e-6)
    assert logs["gradient_norm"] == pytest.approx(float(tf.linalg.global_norm(gradients)), rel=1e-5)


def test_measures_are_what_they_are_called(batch):
    images, labels = batch
    model = small_model()
    model.compile("sgd", loss=Triplet(margin=0.01, mining="hard"), run_eagerly=True)
    logs = model.evaluate(images, labels, batch_size=16, verbose=0, return_dict=True)
    embeddings = model(images).numpy()
    distance = np.linalg.norm(embeddings[:, None] - embeddings[None], axis=-1)
    same = labels[:, None] == labels[None]
    pairs = same & ~np.eye(16, dtype=bool)
    values = Triplet(margin=0.01, mining="hard").call(labels, embeddings)
    assert logs["positive_distance"] == pytest.approx(distance[pairs].mean(), abs=1e-4)
    assert logs["negative_distance"] == pytest.approx(distance[~same].mean(), abs=1e-4)
    assert logs["active_anchors"] == pytest.approx(np.mean(values > 0), abs=1e-6)


def test_fit_learns_with_own_dataset_and_own_backbone():
    """A user's tf.data and a user's Keras network; two colours are two classes."""
    rng = np.random.default_rng(0)
    labels = np.tile([0, 0, 1, 1], 32)
    images = rng.normal(size=(128, 8, 8, 3)).astype(np.float32)
    images[labels == 1, ..., 0] += 1.0
    backbone = keras.Sequential([keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Conv2D(8, 3)])
    model = tfdml.Single(backbone, embedding_size=4)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="contrastive(margin=0.5)")
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(16)
    evaluation = tfdml.callbacks.RetrievalEvaluation(images, labels)
    losses = model.fit(data, epochs=6, verbose=0, callbacks=[evaluation]).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert evaluation.history[-1]["metrics"]["recall_at_1"] > evaluation.history[0]["metrics"]["recall_at_1"]


def test_weights_that_are_looked_up_train_too(batch):
    """Transformers look up their position embeddings, whose gradients are rows."""

    class Positions(keras.layers.Layer):
        def build(self, input_shape):
            self.table = keras.layers.Embedding(144, 3)
            self.table.build(())

        def call(self, tokens):
            return keras.ops.relu(tokens + self.table(keras.ops.arange(144)))

    keras.utils.set_random_seed(0)
    model = tfdml.Single(keras.Sequential([keras.layers.Reshape((144, 3)), Positions()]), embedding_size=4)
    model(batch[0])
    model.compile(tfdml.optimizers.Adam(0.01, lr_multipliers={"projection": 2}), loss="triplet(mining='all')")
    (table,) = [weight for weight in model.trainable_weights if weight.shape == (144, 3)]
    before = np.array(table)
    model.fit(*batch, batch_size=16, verbose=0)
    # All but those whose gradient happens to be near 0.
    assert np.mean(np.abs(table - before) > 1e-4) > 0.95


def test_features_of_tokens_and_of_vectors(batch):
    tokens = keras.Sequential([keras.layers.Reshape((144, 3))])
    vectors = keras.Sequential([keras.layers.Flatten()])
    assert tfdml.Single(tokens, embedding_size=4)(batch[0]).shape == (16, 4)
    assert tfdml.Single(vectors, embedding_size=4)(batch[0]).shape == (16, 4)


@pytest.mark.slow
def test_dataset_of_unknown_length_counts_its_steps_only(batch):
    model = small_model()
    model.compile("adam", loss="triplet(mining='all')")
    data = tf.data.Dataset.from_generator(
        lambda: iter([batch] * 3),
        output_signature=(tf.TensorSpec([16, 12, 12, 3]), tf.TensorSpec([16], tf.int64)),
    )
    with pytest.warns(UserWarning, match="ran out of data"):
        history = model.fit(data, epochs=2, verbose=0).history
    assert int(model.optimizer.iterations) == 6
    assert history["active_anchors"][0] == 1.0


@pytest.mark.slow
def test_saved_model_goes_on_as_it_was(batch, tmp_path):
    images, labels = batch
    model = small_model(head=tfdml.heads.Linear(dropout=0.2))
    model.compile(keras.optimizers.Adam(0.01), loss=Triplet(margin=0.3))
    model.fit(images, labels, batch_size=16, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(images), model(images))
    assert loaded.loss.margin == 0.3 and loaded.head.features.dropout.rate == 0.2
    assert int(loaded.optimizer.iterations) == 1
    moments = [[variable.numpy() for variable in each.optimizer.variables[2:]] for each in (loaded, model)]
    assert all(np.any(first) for first in moments[0]) and len(moments[0]) == 2 * len(model.trainable_variables)
    for restored, saved in zip(*moments, strict=True):
        np.testing.assert_array_equal(restored, saved)
    loaded.fit(images, labels, batch_size=16, verbose=0)
    assert int(loaded.optimizer.iterations) == 2


def test_it_comes_back_in_the_precision_it_had(batch, tmp_path):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = small_model()
        expected = np.asarray(model(batch[0]))
        model.save(tmp_path / "model.keras")
    finally:
        keras.config.set_dtype_policy("float32")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(batch[0]), expected)
    assert again.head.projection.compute_dtype == "bfloat16" and keras.config.dtype_policy().name == "float32"


@pytest.mark.nightly
def test_nothing_is_retraced(batch):
    traces = []

    class Counting(tfdml.Single):
        def learner_embeddings(self, images, training=False):
            traces.append(training)
            return super().learner_embeddings(images, training=training)

    model = Counting(tfdml.backbones.Small(width=8, stages=2), embedding_size=16)
    model.compile("adam", loss="triplet")
    data = tf.data.Dataset.from_tensors(batch).repeat(3)
    model.fit(data, epochs=1, verbose=0)
    before = len(traces)
    model.fit(data, epochs=3, verbose=0)
    assert len(traces) == before


def test_regularisation_is_part_of_the_loss(batch):
    images, labels = batch
    backbone = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(4, kernel_regularizer="l2")])
    model = tfdml.Single(backbone, embedding_size=4)
    model.compile("sgd", loss=Triplet(), run_eagerly=True)
    loss = model.evaluate(images, labels, batch_size=16, verbose=0, return_dict=True)["loss"]
    plain = np.mean(Triplet().call(labels, model(images)))
    penalty = 0.01 * np.sum(np.square(backbone.layers[1].kernel))
    assert loss == pytest.approx(plain + penalty, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.few_by_day(1)
def test_mixed_precision_keeps_the_loss_in_float32(precision, batch):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        model = small_model()
        optimizer = keras.optimizers.SGD(0.01)
        model.compile(
            keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0)
            if "float16" == precision[6:]
            else optimizer,
            loss=Triplet(mining="all"),
        )
        logs = model.train_on_batch(*batch, return_dict=True)
        assert model.backbone.layers[1].compute_dtype == precision[6:]
        assert model(batch[0]).dtype == tf.float32
        assert np.isfinite(logs["loss"]) and 0 < logs["gradient_norm"] < 10
    finally:
        keras.config.set_dtype_policy(before)


def test_a_functional_model_with_it_inside_comes_back_from_a_file(batch, tmp_path):
    embedder = small_model()
    embedder(batch[0])
    first, second = (keras.Input(batch[0].shape[1:]) for _ in range(2))
    siamese = keras.Model([first, second], keras.layers.Dot(axes=1)([embedder(first), embedder(second)]))
    siamese.save(tmp_path / "siamese.keras")
    loaded = keras.models.load_model(tmp_path / "siamese.keras")
    images = [batch[0], batch[0][::-1]]
    np.testing.assert_array_equal(loaded(images), siamese(images))


def test_evaluate_weighs_batches_by_their_images_and_measures_no_gradient(batch):
    model = small_model()
    model.compile("sgd", loss=tfdml.losses.NormSoftmax(classes=4), run_eagerly=True)
    whole = model.evaluate(*batch, batch_size=16, return_dict=True, verbose=0)
    parts = model.evaluate(*batch, batch_size=15, return_dict=True, verbose=0)
    assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-5) and "gradient_norm" not in whole
    history = model.fit(*batch, batch_size=16, validation_data=batch, verbose=0).history
    assert "gradient_norm" in history and "val_gradient_norm" not in history


def test_what_is_no_preprocessing_is_refused():
    model = small_model()
    with pytest.raises(ValueError, match="must be a tfdml.Preprocessing or None. Received: 224"):
        model.preprocessing = 224
    model.preprocessing = {"image_size": 12}
    assert model.preprocessing == tfdml.Preprocessing(image_size=12)


@pytest.fixture
def backbone():
    keras.utils.set_random_seed(0)
    return tfdml.backbones.Small(width=8, stages=2)


@pytest.mark.parametrize("pooling, pool", [("avg", np.mean), ("max", np.max)])
def test_features_are_pooled_and_at_unit_length(batch, backbone, pooling, pool):
    model = tfdml.Features(backbone, head=Linear(pooling))
    pooled = pool(np.asarray(backbone(batch[0])), axis=(1, 2))
    expected = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    np.testing.assert_allclose(model(batch[0]), expected, atol=1e-6)
    assert model.learners_shape == (1, pooled.shape[1])
    # There is nothing but the backbone.
    assert {id(weight) for weight in model.weights} == {id(weight) for weight in backbone.weights}


def test_features_of_vectors(batch):
    flat = keras.Sequential([keras.layers.Flatten()])
    pixels = batch[0].reshape(16, -1)
    found = tfdml.Features(flat)(batch[0])
    np.testing.assert_allclose(found, pixels / np.linalg.norm(pixels, axis=1, keepdims=True), atol=1e-6)


def test_features_have_no_size():
    with pytest.raises((TypeError, ValueError), match="embedding_size"):
        tfdml.Features(tfdml.backbones.Small(width=8, stages=2), embedding_size=64)


@pytest.mark.slow
def test_embeddings_may_keep_their_length(tmp_path):
    images = np.random.default_rng(0).normal(size=(16, 12, 12, 3)).astype(np.float32)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16, normalize=False)
    model.compile("sgd", loss="lifted_structure", run_eagerly=True)
    model.fit(images, np.repeat(np.arange(4), 4), batch_size=8, verbose=0)
    projected = model.head.projection(keras.ops.mean(model.backbone(images), axis=(1, 2)))
    assert np.ptp(np.linalg.norm(projected, axis=1)) > 1e-3
    np.testing.assert_allclose(model(images), projected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.predict(images, verbose=0), projected, rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(images), model(images))


def test_measured_distances_are_those_of_the_embeddings_as_they_are():
    images, labels = np.random.default_rng(0).normal(size=(8, 12, 12, 3)).astype(np.float32), np.repeat([0, 1], 4)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=16, normalize=False)
    model.compile("sgd", loss="lifted_structure")
    logs = model.evaluate(images, labels, batch_size=8, verbose=0, return_dict=True)
    embeddings = model(images).numpy()
    apart = np.linalg.norm(embeddings[:4, None] - embeddings[None, 4:], axis=-1).mean()
    assert abs(np.linalg.norm(embeddings, axis=1).mean() - 1.0) > 0.1
    np.testing.assert_allclose(logs["negative_distance"], apart, rtol=1e-3)
