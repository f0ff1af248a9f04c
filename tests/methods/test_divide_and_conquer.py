"""Learners that take turns."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml.losses import Margin, ProxyNCA, SoftTriple, Triplet, WeightedSum

LEARNERS, DIM = 4, 3
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda: keras.optimizers.Adam(0.01),
}


def sum_with(proxy_loss):
    return WeightedSum([(1.0, Triplet(mining="all")), (0.5, proxy_loss), (2.0, ProxyNCA(classes=4))])


def turn_of(labels, learner):
    return {"label": labels, "learner": np.full(len(labels), learner)}


def make_model(loss=None, optimizer="sgd", run_eagerly=False, **arguments):
    keras.utils.set_random_seed(0)
    backbone = tfdml.backbones.Small(width=4, stages=2)
    arguments = {"embedding_size": LEARNERS * DIM, "learners": LEARNERS, **arguments}
    model = tfdml.DivideAndConquer(backbone, **arguments)
    model(np.zeros((1, 12, 12, 3), np.float32))
    optimizer = OPTIMIZERS[optimizer]() if isinstance(optimizer, str) else optimizer
    model.compile(optimizer, loss=loss or Triplet(mining="all"), run_eagerly=run_eagerly)
    optimizer.build(model.trainable_variables)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Triplet(mining="all"), Margin(), ProxyNCA(classes=4), sum_with(ProxyNCA(classes=4))])
@pytest.mark.few_by_day(2)
def test_the_loss_is_that_of_the_slice_whose_turn_it_is(batch, loss):
    images, labels = batch
    model = make_model(loss, run_eagerly=True)
    learners = model.learner_embeddings(images)
    if model.loss_layers.learners:
        dims = [layer.weights[0].shape[1] for layer in model.loss_layers.learners]
        assert dims == [DIM] * LEARNERS + [LEARNERS * DIM]
    for turn in (0, 2, 3):
        taken = learners[:, turn]
        if model.loss_layers.learners:
            taken = model.loss_layers.learners[turn](taken, labels)
        expected = np.asarray(loss.call(labels, taken))
        values = model.loss_values({"label": labels, "learner": np.full(16, turn)}, learners)
        np.testing.assert_allclose(values, expected, rtol=1e-5, err_msg=str(turn))
        model.reset_metrics()
        logs = model.test_on_batch(images, turn_of(labels, turn), return_dict=True)
        assert logs["loss"] == pytest.approx(np.mean(expected), rel=1e-4), turn


@pytest.mark.slow
@pytest.mark.parametrize("targets", [lambda labels: labels, lambda labels: turn_of(labels, -1)])
@pytest.mark.parametrize("loss", [Triplet(mining="all"), ProxyNCA(classes=4), sum_with(ProxyNCA(classes=4))])
@pytest.mark.few_by_day(2)
def test_without_a_turn_it_is_that_of_the_whole_embedding(batch, loss, targets):
    images, labels = batch
    model = make_model(loss, run_eagerly=True)
    taken = model(images)
    if model.loss_layers.learners:
        taken = model.loss_layers.learners[LEARNERS](taken, labels)
    expected = np.mean(loss.call(labels, taken))
    assert model.test_on_batch(images, targets(labels), return_dict=True)["loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("turn", [-1, 2])
@pytest.mark.parametrize("loss", [lambda own: own, sum_with], ids=["alone", "in a sum"])
def test_of_what_the_loss_keeps_only_the_learners_own_moves(batch, loss, turn):
    images, labels = batch
    model = make_model(loss(SoftTriple(classes=4, per_class=3, merging=2.0)), "adam")
    layers = model.loss_layers.learners
    expected = np.mean(
        model.loss.call(
            labels, layers[turn](model(images) if turn < 0 else model(images, merged=False)[:, turn], labels)
        )
    )
    expected += float(sum(layers[turn].losses))
    logs = model.test_on_batch(images, turn_of(labels, turn), return_dict=True)
    assert logs["loss"] == pytest.approx(expected, rel=1e-4)
    before = [layer.get_weights() for layer in layers]
    for _ in range(2):
        model.train_on_batch(images, turn_of(labels, turn))
    for k, (old, layer) in enumerate(zip(before, layers, strict=True)):
        moved = [bool(np.any(was != now)) for was, now in zip(old, layer.get_weights(), strict=True)]
        assert moved == [k == turn % (LEARNERS + 1)] * len(old)


def test_without_split_embedding_the_layer_is_one(batch):
    model = make_model(split_embedding=False)
    assert model.learner_embeddings(batch[0]).shape == (16, 1, LEARNERS * DIM)
    assert not model.division.divides_embedding(0) and model.division.divides_data(0)


@pytest.mark.nightly
def test_losses_of_learners_are_means_over_their_batches(batch):
    images, labels = batch
    model = make_model(optimizer=keras.optimizers.SGD(0.0))
    batches = np.stack([images, images, np.roll(images, 1, axis=0), images])
    losses = []
    for taken, turn in zip(batches, (0, 2, 0, -1), strict=True):
        losses.append(model.train_on_batch(taken, turn_of(labels, turn), return_dict=True)["loss"])
        model.reset_metrics()
    assert abs(losses[0] - losses[2]) > 1e-3
    data = tf.data.Dataset.from_tensor_slices(
        (batches, {"label": np.stack([labels] * 4), "learner": np.repeat([[0], [2], [0], [-1]], 16, 1)})
    )
    # Validation data of a single learner, which do not count.
    other = tf.data.Dataset.from_tensors((images, turn_of(labels, 1)))
    history = model.fit(data, validation_data=other, shuffle=False, verbose=0).history
    assert "val_loss" in history and not any(name.startswith("val_loss_of") for name in history)
    found = model.learner_losses()
    assert [count for _, count in found] == [2, 0, 1, 0]
    assert found[0][0] == pytest.approx((losses[0] + losses[2]) / 2, rel=1e-5)
    assert found[2][0] == pytest.approx(losses[1], rel=1e-5)


def test_accumulated_gradients_are_refused_where_others_are_held():
    accumulating = keras.optimizers.Adam(gradient_accumulation_steps=2)
    with pytest.raises(ValueError, match="does not support gradient accumulation"):
        make_model().compile(accumulating, loss="contrastive")
    with pytest.raises(ValueError, match="does not support gradient accumulation"):
        make_model().compile(keras.optimizers.LossScaleOptimizer(accumulating), loss="contrastive")
    make_model(hold_others=False).compile(accumulating, loss="contrastive")


@pytest.mark.nightly
def test_a_batch_of_several_learners_or_of_one_too_many_is_refused(batch):
    images, labels = batch
    model = make_model()
    for learners, told in (([0, 1] * 8, "the same learner"), ([4] * 16, "at most 3")):
        with pytest.raises(ValueError, match=f"must (have|be) {told}"):
            model.train_on_batch(images, {"label": labels, "learner": np.array(learners)})


@pytest.mark.nightly
@pytest.mark.slow
def test_where_xla_leaves_out_errors_the_loss_of_such_a_batch_is_nan(batch):
    images, labels = batch
    model = make_model()
    model.compile("sgd", loss="contrastive", jit_compile=True)
    start = model.get_weights()
    for learners in ([3] * 16, [0, 1] * 8, [4] * 16, [-1, 1] * 8):
        model.set_weights(start)
        model.reset_metrics()
        targets = {"label": labels, "learner": np.array(learners)}
        loss = model.train_on_batch(images, targets, return_dict=True)["loss"]
        assert np.isfinite(loss) if learners[0] == learners[1] == 3 else np.isnan(loss), learners


def test_an_optimizer_that_keeps_numbers_for_several_learners_is_refused():
    """One for each row of the kernel has no place for each slice."""
    with pytest.raises(ValueError, match="does not support Adafactor.* hold_others=False"):
        make_model().compile(keras.optimizers.Adafactor(), loss="contrastive")
    make_model(hold_others=False).compile(keras.optimizers.Adafactor(), loss="contrastive")
