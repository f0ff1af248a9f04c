"""Slices are joined to the whole embedding, split from it, and the embedding layer is fine-tuned alone."""

import keras
import numpy as np
import pytest

import tfdml
from tfdml.losses import Margin, ProxyNCA, SoftTriple, Triplet, WeightedSum

LEARNERS, DIM, CLASSES = 3, 2, 4
IMAGES = np.random.default_rng(0).normal(size=(12, 8, 8, 3)).astype(np.float32)
LABELS = np.arange(12) % CLASSES


def make_model(loss, **arguments):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    plan = {"recluster_every": 1, "divide_at": 1, "merge_at": 3, **arguments}
    model = tfdml.DivideAndConquer(
        keras.Sequential(layers),
        embedding_size=LEARNERS * DIM,
        learners=LEARNERS,
        head=tfdml.heads.Linear(dropout=0.5),
        **plan,
    )
    model(IMAGES[:1])
    model.compile(keras.optimizers.Adam(0.05), loss=loss, run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    return model


def step(model, turn=-1):
    model.train_on_batch(IMAGES, {"label": LABELS, "learner": np.full(len(LABELS), turn)})


def moments(model, place):
    """What the optimizer keeps for a layer of the loss, as one array."""
    (variable,) = model.loss_layers.learners[place].trainable_variables
    at = next(k for k, each in enumerate(model.optimizer._trainable_variables) if each is variable)
    return np.stack([model.optimizer._momentums[at].numpy(), model.optimizer._velocities[at].numpy()])


@pytest.mark.parametrize("loss", [ProxyNCA(classes=CLASSES), SoftTriple(classes=CLASSES, per_class=2)])
def test_the_joined_cosine_is_the_mean_of_the_slices(loss):
    model = make_model(loss)
    model.begin_epoch(1)
    for turn in range(LEARNERS):
        step(model, turn)
    *slices, whole = model.loss_layers.learners
    learners = model(IMAGES, merged=False)
    cosines = [layer(learners[:, k]).numpy() for k, layer in enumerate(slices)]
    before = [layer.proxies.numpy() for layer in slices]
    assert not np.allclose(whole(model(IMAGES)), np.mean(cosines, axis=0), atol=0.01)
    model.begin_epoch(3)
    np.testing.assert_allclose(whole(model(IMAGES)), np.mean(cosines, axis=0), atol=1e-5)
    # As long in each slice as those that trained are on average.
    lengths = np.mean([np.linalg.norm(each, axis=1) for each in before], axis=0)
    joined = np.split(whole.proxies.numpy(), LEARNERS, axis=1)
    np.testing.assert_allclose([np.linalg.norm(each, axis=1) for each in joined], [lengths] * LEARNERS, rtol=1e-5)
    for layer, proxies in zip(slices, before, strict=True):
        np.testing.assert_array_equal(layer.proxies, proxies)


def test_slices_begin_as_parts_of_the_whole():
    model = make_model(ProxyNCA(classes=CLASSES))
    step(model)
    *slices, whole = model.loss_layers.learners
    expected = np.split(whole.proxies.numpy(), LEARNERS, axis=1)
    assert not np.allclose(slices[1].proxies, expected[1])
    model.begin_epoch(1)
    for layer, part in zip(slices, expected, strict=True):
        np.testing.assert_array_equal(layer.proxies, part)


def test_boundaries_are_joined_and_split():
    model = make_model(Margin(learn_beta="per_class", classes=CLASSES))
    *slices, whole = model.loss_layers.learners
    whole.margins.assign([0.9, 1.0, 1.1, 1.2])
    model.begin_epoch(1)
    assert all(np.array_equal(layer.margins.numpy(), whole.margins.numpy()) for layer in slices)
    for k, layer in enumerate(slices):
        layer.margins.assign([0.5 + k] * CLASSES)
    model.begin_epoch(3)
    # Squared distances of the whole are the mean of the slices'.
    np.testing.assert_allclose(whole.margins, [((0.25 + 2.25 + 6.25) / 3) ** 0.5] * CLASSES, rtol=1e-6)


def test_a_sum_of_losses_joins_and_splits_what_each_of_them_has():
    terms = [(1.0, ProxyNCA(classes=CLASSES)), (0.5, Triplet(mining="all")), (2.0, ProxyNCA(classes=CLASSES))]
    model = make_model(WeightedSum(terms))
    *slices, whole = model.loss_layers.learners
    model.begin_epoch(1)
    for place in (0, 2):
        expected = np.split(whole.parts[place].proxies.numpy(), LEARNERS, axis=1)
        np.testing.assert_array_equal([layer.parts[place].proxies.numpy() for layer in slices], expected)
        slices[1].parts[place].proxies.assign(-expected[1])
    model.begin_epoch(3)
    for place in (0, 2):
        joined = np.split(whole.parts[place].proxies.numpy(), LEARNERS, axis=1)[1]
        own = slices[1].parts[place].proxies.numpy()
        lengths = np.linalg.norm(joined, axis=1) * np.linalg.norm(own, axis=1)
        np.testing.assert_allclose(np.sum(joined * own, axis=1), lengths, rtol=1e-5)


@pytest.mark.parametrize("epoch, changed", [(1, range(LEARNERS)), (3, [LEARNERS])])
def test_what_begins_anew_has_no_moments_and_no_steps(epoch, changed):
    model = make_model(ProxyNCA(classes=CLASSES))
    for turn in (-1, 0, 1, 2):
        step(model, turn)
    kept = {place: moments(model, place) for place in range(LEARNERS + 1)}
    model.begin_epoch(epoch)
    for place, before in kept.items():
        assert before.any()
        np.testing.assert_array_equal(moments(model, place), 0 * before if place in changed else before)
        assert model.steps.of_layers.numpy()[place] == (0 if place in changed else 1)
    assert model.steps.of_slices.numpy().tolist() == [2] * LEARNERS


@pytest.mark.parametrize("epoch, goes_on", [(0, False), (2, False), (4, False), (1, True), (3, True)])
@pytest.mark.few_by_day(2)
def test_nothing_else_changes_at_other_epochs_or_where_an_epoch_goes_on(epoch, goes_on):
    model = make_model(ProxyNCA(classes=CLASSES))
    step(model, 1)
    before = [weight.numpy() for weight in model.variables + model.optimizer.variables]
    model.begin_epoch(epoch, goes_on=goes_on)
    for old, new in zip(before, model.variables + model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(old, new.numpy())


def test_the_loss_may_merge_before_the_data():
    model = make_model(ProxyNCA(classes=CLASSES), merge_loss_at=2)
    step(model, 0)
    whole = model.loss_layers.learners[-1].proxies
    before = whole.numpy()
    model.begin_epoch(2)
    joined = whole.numpy()
    assert not np.allclose(before, joined)
    model.begin_epoch(3)
    np.testing.assert_array_equal(whole.numpy(), joined)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Triplet(mining="all"), ProxyNCA(classes=CLASSES)])
def test_the_embedding_layer_is_fine_tuned_alone(loss):
    """The backbone's weights, moving statistics and moments stay; its dropout is off, that of the layer is not."""
    model = make_model(loss, finetune="embedding")
    backbone = {id(variable) for variable in model.backbone.variables}
    for epoch in (2, 3, 4):
        model.begin_epoch(epoch)
        of_backbone = [variable for variable in model.variables if id(variable) in backbone]
        of_backbone += [each for each in model.optimizer.variables if "conv" in each.path or "norm" in each.path]
        assert len(of_backbone) == 7 + 8
        head = [*model.head.trainable_variables, *model.loss_layers.trainable_variables[-1:]]
        before, other = [[each.numpy() for each in group] for group in (of_backbone, head)]
        step(model)
        moved = [not np.array_equal(old, new.numpy()) for old, new in zip(before, of_backbone, strict=True)]
        assert any(moved) == (epoch == 2), epoch
        assert all(not np.array_equal(old, new.numpy()) for old, new in zip(other, head, strict=True))


@pytest.mark.slow
@pytest.mark.few_by_day(1)
def test_compiled_steps_follow_the_plan():
    """`fit` has made its function when the epoch comes that trains the embedding layer alone."""
    model = make_model(Triplet(mining="all"), finetune="embedding", divide_at=0, merge_at=1)
    model.compile(keras.optimizers.Adam(0.05), loss="contrastive")
    plan = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: model.begin_epoch(epoch))
    kernels = []

    def keep(epoch, logs):
        kernels.append([model.backbone.layers[0].kernel.numpy(), model.head.kernel.numpy()])

    keep = keras.callbacks.LambdaCallback(on_epoch_end=keep)
    model.fit(IMAGES, LABELS, batch_size=12, epochs=3, verbose=0, callbacks=[plan, keep])
    (first, *_), (second, head), (third, last) = kernels
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(second, third)
    assert np.any(head != last)
