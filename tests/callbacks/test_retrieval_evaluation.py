"""Where retrieval cannot be measured, or too late, is told."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml.callbacks import DivergenceGuard, RetrievalEvaluation
from tfdml.callbacks.retrieval_evaluation import TrainingDiverged
from tfdml.evaluation.embedder import Embedder

IMAGES = np.random.default_rng(0).normal(size=(8, 4, 4, 3)).astype(np.float32)
LABELS = np.repeat(np.arange(4), 2)


def single():
    model = tfdml.Single(keras.Sequential([keras.layers.Flatten()]), embedding_size=4)
    # Callbacks see no difference, and tracing takes longer than the steps.
    model.compile("sgd", loss="triplet(mining='all')", run_eagerly=True)
    return model


@pytest.mark.parametrize(
    "watching",
    [
        lambda: keras.callbacks.EarlyStopping("val_recall_at_1", mode="max"),
        lambda: keras.callbacks.ModelCheckpoint("model.keras", "val_recall_at_1", mode="max", save_best_only=True),
    ],
)
def test_behind_a_callback_that_watches_its_metrics_it_is_refused(watching):
    evaluation = RetrievalEvaluation(IMAGES, LABELS)
    with pytest.raises(
        ValueError,
        match=r"monitor='val_recall_at_1'.*is listed before RetrievalEvaluation.*List RetrievalEvaluation first",
    ):
        single().fit(IMAGES, LABELS, batch_size=8, callbacks=[watching(), evaluation], verbose=0)


def test_where_nothing_measures_what_is_watched_it_is_told_before_the_first_step():
    model = single()
    for mode in ("auto", "max"):
        with pytest.raises(ValueError, match=r"'val_recall_at_1'.*nothing measures.*RetrievalEvaluation\(images, lab"):
            watching = keras.callbacks.EarlyStopping("val_recall_at_1", mode=mode)
            model.fit(IMAGES, LABELS, batch_size=8, callbacks=[watching], verbose=0)
    with pytest.raises(ValueError, match=r"EarlyStopping\(monitor='val_recall_at_1'\).*Expected mode='max'"):
        watching = [RetrievalEvaluation(IMAGES, LABELS), keras.callbacks.EarlyStopping("val_recall_at_1")]
        model.fit(IMAGES, LABELS, batch_size=8, callbacks=watching, verbose=0)
    assert model.optimizer.iterations == 0


def test_a_callback_of_the_users_own_may_measure_what_is_watched():
    class Own(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["val_recall_at_1"] = 0.5

    adding = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update({"val_recall_at_1": 0.5}))
    for own in (Own(), adding):
        watching = keras.callbacks.EarlyStopping("val_recall_at_1", mode="max")
        history = single().fit(IMAGES, LABELS, batch_size=8, callbacks=[own, watching], verbose=0).history
        assert history["val_recall_at_1"] == [0.5]


def test_equal_embeddings_are_told_once():
    evaluation, equal = RetrievalEvaluation(np.zeros_like(IMAGES), LABELS), "All 8 embeddings are equal at step 0"
    with pytest.warns(UserWarning, match=equal) as told:
        single().fit(IMAGES, LABELS, batch_size=8, epochs=2, callbacks=[evaluation], verbose=0)
    assert len([each for each in told if "embeddings are equal" in str(each.message)]) == 1


@pytest.mark.slow
def test_callbacks_that_watch_other_metrics_may_stand_before_it():
    before = [
        keras.callbacks.EarlyStopping("val_positive_distance", mode="min"),
        keras.callbacks.EarlyStopping("loss"),
        RetrievalEvaluation(IMAGES, LABELS),
        keras.callbacks.EarlyStopping("val_recall_at_1", mode="max"),
    ]
    data = {"validation_data": (IMAGES, LABELS), "validation_batch_size": 8}
    history = single().fit(IMAGES, LABELS, batch_size=8, callbacks=before, verbose=0, **data).history
    assert {"val_recall_at_1", "val_positive_distance"} <= history.keys()


@pytest.mark.parametrize("is_list_of_keras", [False, True])
def test_alone_or_in_a_list_of_keras_it_is_taken_by_fit(is_list_of_keras):
    model, evaluation = single(), RetrievalEvaluation(IMAGES, LABELS)
    in_list = keras.callbacks.CallbackList([evaluation], add_history=True, model=model)
    model.fit(IMAGES, LABELS, batch_size=8, callbacks=in_list if is_list_of_keras else evaluation, verbose=0)
    assert [entry["step"] for entry in evaluation.history] == [0, 1]


def test_a_metric_without_a_value_does_not_end_training():
    """Keras' progress bar averages the logs."""
    evaluation = RetrievalEvaluation(IMAGES, LABELS, measure=lambda _: {"recall_at_1": 0.5, "distance_ratio": None})
    history = single().fit(IMAGES, LABELS, batch_size=8, callbacks=[evaluation], verbose=2).history
    assert history["val_recall_at_1"] == [0.5] and "val_distance_ratio" not in history


@pytest.mark.nightly
def test_every_other_epoch():
    evaluation = RetrievalEvaluation(IMAGES, LABELS, every=2)
    single().fit(IMAGES, LABELS, batch_size=4, epochs=5, callbacks=[evaluation], verbose=0)
    assert [entry["step"] for entry in evaluation.history] == [0, 4, 8]


def test_where_gradients_are_accumulated_a_step_is_evaluated_once():
    evaluation = RetrievalEvaluation(IMAGES, LABELS, every=1, unit="steps")
    model = single()
    model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), loss="triplet")
    model.fit(IMAGES, LABELS, batch_size=4, callbacks=[evaluation], verbose=0)
    steps = [entry["step"] for entry in evaluation.history]
    assert steps == sorted(set(steps)) and len(steps) > 1


@pytest.mark.nightly
def test_of_several_outputs_the_embedder_is_asked_for():
    inputs = keras.Input((4, 4, 3))
    embeddings = keras.layers.Dense(4)(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, [embeddings, keras.layers.Dense(2)(embeddings)])
    model.compile("sgd", loss=[tfdml.losses.Triplet(), "mse"])
    targets = [LABELS, np.zeros((8, 2))]
    with pytest.raises(ValueError, match="Received: 2 outputs.*embedder=keras.Model"):
        model.fit(IMAGES, targets, callbacks=[RetrievalEvaluation(IMAGES, LABELS)], verbose=0)
    evaluation = RetrievalEvaluation(IMAGES, LABELS, embedder=keras.Model(inputs, embeddings))
    model.fit(IMAGES, targets, callbacks=[evaluation], verbose=0)
    assert len(evaluation.history) == 2 and evaluation.history[0]["metrics"]["queries"] == 8


@pytest.mark.parametrize("is_sequential", [False, True])
def test_a_model_that_ends_with_proxies_needs_an_embedder(is_sequential):
    inputs = keras.Input((4, 4, 3))
    embedder = keras.Model(inputs, keras.layers.Dense(6)(keras.layers.Flatten()(inputs)))
    proxies = tfdml.layers.Proxies(classes=4)
    layered = keras.Sequential([embedder, proxies])
    model = layered if is_sequential else keras.Model(inputs, proxies(embedder.output))
    model.compile("sgd", loss=tfdml.losses.ProxyAnchor(classes=4))
    with pytest.raises(ValueError, match="ends with the layer Proxies of a loss.*embedder=keras.Model"):
        model.fit(IMAGES, LABELS, callbacks=[RetrievalEvaluation(IMAGES, LABELS)], verbose=0)
    evaluation = RetrievalEvaluation(IMAGES, LABELS, embedder=embedder)
    model.fit(IMAGES, LABELS, callbacks=[evaluation], verbose=0)
    assert evaluation.embeddings.shape == (8, 6) and len(evaluation.history) == 2


def test_what_cannot_be_measured_is_told():
    model = single()
    for monitor, patience, labels, words in (
        ("val_recall_at_1", None, LABELS, "prefix val_. Expected .*recall_at_1,.* Received: monitor='val_recall_at_1'"),
        ("recall_at_1", None, LABELS[1:], "Received: 8 images and 7 labels"),
    ):
        evaluation = RetrievalEvaluation(IMAGES, labels, monitor=monitor, patience=patience)
        evaluation.set_model(model)
        with pytest.raises(ValueError, match=words):
            evaluation.on_train_begin()
    with pytest.raises(ValueError, match="patience to be None or an integer of 1 or more. Received: patience=-1"):
        RetrievalEvaluation(IMAGES, LABELS, patience=-1)


def test_embeddings_in_bfloat16_are_measured():
    inputs = keras.Input((4, 4, 3))
    flat = keras.layers.Flatten(dtype="bfloat16")(inputs)
    evaluation = RetrievalEvaluation(IMAGES, LABELS)
    model = keras.Model(inputs, keras.layers.Dense(4, dtype="bfloat16")(flat))
    model.compile("sgd", loss=tfdml.losses.Triplet())
    evaluation.set_model(model)
    evaluation.on_train_begin()
    assert evaluation.embeddings.dtype == np.float32 and evaluation.history[0]["metrics"]["queries"] == 8


@pytest.mark.slow
def test_where_steps_are_executed_together_none_is_passed_over():
    model, evaluation = single(), RetrievalEvaluation(IMAGES, LABELS, every=3, unit="steps")
    model.compile("sgd", loss="triplet(mining='all')", steps_per_execution=2)
    model.fit(IMAGES, LABELS, batch_size=4, epochs=6, callbacks=[evaluation], verbose=0)
    assert [entry["step"] for entry in evaluation.history] == [0, 4, 6, 10, 12]


def test_patience_begins_anew_in_another_fit_and_the_best_with_another_model():
    model, best = single(), iter([0.9, 0.5, 0.5, 0.5, 0.4])
    evaluation = RetrievalEvaluation(IMAGES, LABELS, patience=2, measure=lambda _: {"recall_at_1": next(best)})
    data = {"batch_size": 8, "callbacks": [evaluation], "verbose": 0}
    assert len(model.fit(IMAGES, LABELS, epochs=5, **data).epoch) == 2
    assert len(model.fit(IMAGES, LABELS, epochs=1, **data).epoch) == 1 and not evaluation.exhausted
    single().fit(IMAGES, LABELS, epochs=0, **data)
    assert evaluation.best["metrics"]["recall_at_1"] == 0.4


def test_a_fit_that_goes_on_from_a_state_has_the_patience_that_was_left():
    """As a run that was stopped within an epoch does, whose rest is a `fit` of its own."""
    model, found = single(), iter([0.9, 0.5, 0.5, 0.5])
    evaluation = RetrievalEvaluation(IMAGES, LABELS, patience=2, measure=lambda _: {"recall_at_1": next(found)})
    data = {"batch_size": 8, "callbacks": [evaluation], "verbose": 0}
    model.fit(IMAGES, LABELS, epochs=1, **data)
    evaluation.set_state(evaluation.get_state())
    assert len(model.fit(IMAGES, LABELS, epochs=9, initial_epoch=1, **data).epoch) == 1 and evaluation.exhausted


def test_patience_counts_from_a_step_on():
    """The untrained model is the best, and the first evaluations fall: neither counts, and the rest improves."""
    found = iter([0.9, 0.4, 0.3, 0.5, 0.4, 0.4, 0.8])
    evaluation = RetrievalEvaluation(
        IMAGES, LABELS, patience=2, patience_from=2, measure=lambda _: {"recall_at_1": next(found)}
    )
    model = single()
    # A step an epoch.
    assert len(model.fit(IMAGES, LABELS, batch_size=8, epochs=9, callbacks=[evaluation], verbose=0).epoch) == 5
    assert evaluation.best["step"] == 0 and evaluation.exhausted
    state = evaluation.get_state()
    assert (state["waited"], state["highest"]) == (2, 0.5)
    evaluation.set_state(state)
    assert evaluation.get_state() == state


def test_a_tensor_of_images_has_a_label_each():
    with pytest.raises(ValueError, match="Received: 8 images and 4 labels"):
        single().fit(
            IMAGES, LABELS, callbacks=[RetrievalEvaluation(tf.constant(IMAGES), LABELS[:4])], batch_size=8, verbose=0
        )


def test_a_network_with_nan_weights_is_not_measured():
    """Where a fused ReLU makes 0 of NaN, all embeddings are equal, and Recall@1 would be 0.0."""
    hidden = keras.layers.Lambda(lambda features: keras.ops.nan_to_num(features))
    layers = [keras.layers.Conv2D(4, 3), hidden, keras.layers.GlobalAveragePooling2D()]
    model = tfdml.Single(keras.Sequential(layers), embedding_size=4)
    model.compile("sgd", loss="triplet(mining='all')")
    model(IMAGES)
    weight = next(each for each in model.weights if each.path.endswith("kernel"))
    weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(TrainingDiverged, match=rf"The weight {weight.path} is NaN at step 0"):
        model.fit(IMAGES, LABELS, batch_size=8, callbacks=[RetrievalEvaluation(IMAGES, LABELS)], verbose=0)
    with pytest.raises(ValueError, match=rf"The weight {weight.path} of .* is NaN"):
        Embedder(model, verbose=0)(IMAGES, len(LABELS))


def test_a_metric_without_a_value_selects_no_model():
    evaluation = RetrievalEvaluation(
        IMAGES, LABELS, measure=lambda each: {"tar_at_far_1e-6": None}, monitor="tar_at_far_1e-6"
    )
    with pytest.raises(ValueError, match="tar_at_far_1e-6 has no value for these 8 images, so it cannot select"):
        single().fit(IMAGES, LABELS, batch_size=8, callbacks=evaluation, verbose=0)


NAN, INFINITE = float("nan"), float("inf")


def guard_of(optimizer):
    guard = DivergenceGuard(step=lambda: 7)
    guard.set_model(types.SimpleNamespace(optimizer=optimizer))
    return guard


@pytest.mark.parametrize(
    "logs, message",
    [
        ({"loss": NAN, "gradient_norm": 1.0}, "The loss is nan at step 7"),
        ({"loss": INFINITE}, "The loss is inf at step 7"),
        ({"loss": 0.5, "gradient_norm": INFINITE}, "The gradient norm is inf at step 7"),
    ],
)
def test_what_is_not_finite_ends_training(logs, message):
    with pytest.raises(TrainingDiverged, match=message):
        guard_of(keras.optimizers.SGD()).on_train_batch_end(0, logs)


def test_finite_values_and_missing_ones_do_not():
    for logs in ({"loss": 1e30, "gradient_norm": 1e30}, {}, None):
        guard_of(keras.optimizers.SGD()).on_train_batch_end(0, logs)


def test_loss_scaling_may_overflow_in_the_gradient_alone():
    guard = guard_of(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()))
    guard.on_train_batch_end(0, {"loss": 0.5, "gradient_norm": INFINITE})
    with pytest.raises(TrainingDiverged, match="The loss is nan"):
        guard.on_train_batch_end(0, {"loss": NAN})


def test_training_names_the_step_of_the_optimizer():
    """The first step makes the weights too large, so the loss of the second is not finite."""
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e30), "mse")
    images, targets = keras.ops.ones((4, 2)), keras.ops.ones((4, 1))
    with pytest.raises(TrainingDiverged, match=r"The loss is (nan|inf) at step 2"):
        model.fit(images, targets, batch_size=2, verbose=0, callbacks=[DivergenceGuard()])
