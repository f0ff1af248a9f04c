"""Each slice, and what the loss has for it, takes the steps of an optimizer of its own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.night import others_at_night
from tfdml.losses import ProxyNCA, Triplet

LEARNERS, DIM = 3, 2
IMAGES = np.random.default_rng(0).normal(size=(12, 8, 8, 3)).astype(np.float32)
LABELS = np.repeat(np.arange(3), 4)
# Slice 2 begins late and then waits; whole embeddings (-1) before, between and after turns.
TURNS = [-1, 0, 0, 1, 0, 2, -1, 0, 2]
RATE = keras.optimizers.schedules.PiecewiseConstantDecay([5], [0.02, 0.005])
OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adamax": lambda: keras.optimizers.Adamax(0.01),
    "keras adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.5),
    "adamw": lambda: tfdml.optimizers.AdamW(0.01, weight_decay=0.5),
    "l2": lambda: tfdml.optimizers.Adam(0.01, weight_decay=0.1, l2=True),
}


def make_model(optimizer, loss=None, traced=False, **arguments):
    keras.utils.set_random_seed(0)
    backbone = keras.Sequential([keras.layers.Conv2D(4, 3, activation="relu")])
    model = tfdml.DivideAndConquer(backbone, embedding_size=LEARNERS * DIM, learners=LEARNERS, **arguments)
    model(IMAGES[:1])
    model.compile(optimizer, loss=loss or Triplet(mining="all"), run_eagerly=not traced)
    model.optimizer.build(model.trainable_variables)
    return model


def targets(turn):
    return {"label": LABELS, "learner": np.full(len(LABELS), turn)}


def learned(model):
    """What each learner has: `[[kernel, bias] of each slice..., [proxies] of each layer of the loss...]`."""
    columns = [slice(k * DIM, (k + 1) * DIM) for k in range(LEARNERS)]
    slices = [[model.head.kernel.numpy()[:, own], model.head.bias.numpy()[own]] for own in columns]
    return slices + [[each.numpy() for each in layer.trainable_variables] for layer in model.loss_layers.learners]


def gradients(model, turn):
    """The gradients of all that `learned` gives, in its order."""
    kept = [model.head.kernel, model.head.bias, *model.loss_layers.trainable_variables]
    batch = {name: tf.constant(value) for name, value in targets(turn).items()}
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model.loss_values(batch, model(IMAGES, training=True, merged=False)))
    found = tape.gradient(loss, [each.value for each in kept], unconnected_gradients="zero")
    found = [np.asarray(tf.convert_to_tensor(each)) for each in found]
    columns = [slice(k * DIM, (k + 1) * DIM) for k in range(LEARNERS)]
    return [[found[0][:, own], found[1][own]] for own in columns] + [[each] for each in found[2:]]


def learns(number, turn):
    """Whether part `number` of `learned` learns in a turn: slices in whole embeddings too, layers in their own."""
    return number == turn or (turn < 0 and (number < LEARNERS or number == 2 * LEARNERS)) or number - LEARNERS == turn


def compare_with_lone_layers(model, make_optimizer, turns):
    lone = [[keras.Variable(each) for each in part] for part in learned(model)]
    optimizers = [make_optimizer() for _ in lone]
    for turn in turns:
        for number, gradient in enumerate(gradients(model, turn)):
            if learns(number, turn):
                optimizers[number].apply([tf.constant(each) for each in gradient], lone[number])
        model.train_on_batch(IMAGES, targets(turn))
    for number, (found, expected) in enumerate(zip(learned(model), lone, strict=True)):
        for array, variable in zip(found, expected, strict=True):
            np.testing.assert_allclose(array, variable.numpy(), rtol=1e-4, atol=1e-5, err_msg=str((turns, number)))


@pytest.mark.slow
@pytest.mark.parametrize("name", others_at_night(OPTIMIZERS, ["adamw"]))
def test_a_slice_takes_the_steps_of_a_lone_layer_with_an_optimizer_of_its_own(name):
    model = make_model(OPTIMIZERS[name]())
    compare_with_lone_layers(model, OPTIMIZERS[name], TURNS)
    assert model.steps.of_slices.numpy().tolist() == [6, 3, 4]


@pytest.mark.slow
def test_so_do_proxies_of_slices_and_of_the_whole():
    model = make_model(OPTIMIZERS["adam"](), ProxyNCA(classes=3), traced=True)
    compare_with_lone_layers(model, OPTIMIZERS["adam"], TURNS)
    assert model.steps.of_layers.numpy().tolist() == [4, 1, 2, 2]


@pytest.mark.nightly
def test_the_schedule_goes_by_all_steps():
    """The sixth step is the first of slice 2, with the later learning rate: its first step has that length."""
    model = make_model(keras.optimizers.Adam(RATE))
    for turn in [0] * 6:
        model.train_on_batch(IMAGES, targets(turn))
    before = learned(model)[2][0]
    model.train_on_batch(IMAGES, targets(2))
    moved = np.abs(learned(model)[2][0] - before)
    np.testing.assert_allclose(moved[moved > 0], 0.005, rtol=1e-2)


@pytest.mark.nightly
def test_frozen_steps_do_not_count():
    """After them a slice begins as with a new optimizer, and those that wait still longer do so later."""
    frozen, turns = 4, [0, 1, -1, 0]
    model = make_model(tfdml.optimizers.Adam(0.01, frozen_steps={"embedding": frozen}))
    before = learned(model)
    for turn in turns:
        model.train_on_batch(IMAGES, targets(turn))
    for old, new in zip(before, learned(model), strict=True):
        np.testing.assert_array_equal(old[0], new[0])
    compare_with_lone_layers(model, lambda: keras.optimizers.Adam(0.01), [0, 1, 1, 0, 2])


@pytest.mark.nightly
def test_without_holding_each_step_is_that_of_the_optimizer():
    """A zero gradient is one, too: as one layer with the gradients of all turns."""
    model = make_model(keras.optimizers.Adam(0.01), hold_others=False)
    lone, optimizer = keras.Variable(model.head.kernel.numpy()), keras.optimizers.Adam(0.01)
    for turn in TURNS:
        found = gradients(model, turn)
        optimizer.apply([tf.constant(np.concatenate([found[k][0] for k in range(LEARNERS)], axis=1))], [lone])
        model.train_on_batch(IMAGES, targets(turn))
    np.testing.assert_allclose(model.head.kernel.numpy(), lone.numpy(), rtol=1e-4, atol=1e-5)
    assert model.steps.of_slices.numpy().tolist() == [len(TURNS)] * LEARNERS


@pytest.mark.slow
def test_counts_are_saved_and_begin_again_with_a_new_optimizer(tmp_path):
    model = make_model(keras.optimizers.Adam(0.01), ProxyNCA(classes=3))
    for turn in TURNS[:5]:
        model.train_on_batch(IMAGES, targets(turn))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        for turn in TURNS[5:]:
            each.train_on_batch(IMAGES, targets(turn))
    for old, new in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(old.numpy(), new.numpy(), err_msg=old.path)
    loaded.compile(model.optimizer, loss="contrastive")
    assert loaded.steps.of_slices.numpy().tolist() == [6, 3, 4]
    loaded.compile("adam", loss="contrastive")
    assert not loaded.steps.of_slices.numpy().any() and not loaded.steps.of_layers.numpy().any()


@pytest.mark.slow
def test_a_step_that_overflows_does_not_count():
    model = make_model(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), initial_scale=1e38))
    model.train_on_batch(1e5 * IMAGES, targets(0))
    assert int(model.optimizer.iterations) == 0 and not model.steps.of_slices.numpy().any()
    model.optimizer.dynamic_scale.assign(1.0)
    compare_with_lone_layers(model, lambda: keras.optimizers.Adam(0.01), [0, 1, 0])
