"""Proxies that are features of images, hardened every epoch."""

import itertools
from types import SimpleNamespace

import keras
import numpy as np
import pytest

import tfdml
from tests.callbacks.test_recluster import Log
from tests.commands import run
from tests.run_helpers import MODEL_FLAGS, events, pictures, result
from tfdml.callbacks import proxies as proxies_module
from tfdml.callbacks.proxies import ImageProxies, hard_proxies
from tfdml.losses import ContextualManifold, ProxyNPair, Triplet, WeightedSum
from tfdml.neighbors.nearest import unit_length

CLASSES = 4


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.fixture
def batch():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), 8)
    return random.normal(size=(32, 8, 8, 3)).astype(np.float32) + labels[:, None, None, None], labels


@pytest.mark.parametrize("loss", [ProxyNPair, ContextualManifold])
@pytest.mark.parametrize("steps", [0, 30])
def test_proxies_are_features_of_one_image_of_each_class(batch, loss, steps, monkeypatch):
    images, labels = batch
    monkeypatch.setattr(proxies_module, "BLOCK", 7)
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    model.compile("sgd", loss=loss(classes=CLASSES, proxies="hard", proxy_steps=steps, proxy_rate=0.1))
    model(images[:1])
    callback, log = ImageProxies(images, labels, log=(log := Log())), log
    callback.set_model(model)
    callback.on_epoch_begin(0)
    features = unit(model(images).numpy())
    assert sorted(labels[callback.rows]) == list(range(CLASSES))
    expected = hard_proxies(features, labels, callback.rows, steps=steps, learning_rate=0.1)
    (layer,) = model.loss_layers.learners
    np.testing.assert_allclose(layer.proxies, expected, atol=1e-6)
    assert np.allclose(expected, features[callback.rows], atol=1e-6) == (steps == 0)
    ((event, step, found),) = log.events
    assert (event, step) == ("proxies", 0)
    proxies = np.array(layer.proxies)
    nearest = [max(range(CLASSES), key=lambda k: row @ proxies[k]) for row in features]
    assert found["nearest_is_own"] == np.mean(nearest == labels)
    cosines = [first @ second for first, second in itertools.combinations(proxies, 2)]
    assert found["similarity_to_each_other"] == pytest.approx(np.mean(cosines), abs=1e-6)
    assert found["similarity_to_image"] == pytest.approx(np.mean(np.sum(expected * features[callback.rows], axis=1)))


def test_images_of_proxies_are_drawn_once_by_the_seed(batch):
    images, labels = batch
    drawn = {seed: [tuple(ImageProxies(images, labels, seed=seed).rows) for _ in range(2)] for seed in range(4)}
    assert all(first == second for first, second in drawn.values()) and len(set(map(tuple, drawn.values()))) == 4
    # Images of a meta-class that were permuted with the same seed come in another order.
    order = np.random.default_rng(0).permutation(len(labels))
    _, first = np.unique(labels[order], return_index=True)
    assert drawn[0][0] != tuple(order[first])
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    model.compile("sgd", loss=ProxyNPair(classes=CLASSES, proxies="images"))
    model(images[:1])
    callback = ImageProxies(images, labels)
    callback.set_model(model)
    for epoch in range(2):
        callback.on_epoch_begin(epoch)
        features = unit_length(model(images).numpy())[list(drawn[0][0])]
        np.testing.assert_allclose(model.loss_layers.learners[0].proxies, features, atol=1e-5)
        model.head.projection.kernel.assign(model.head.projection.kernel**3)


def test_a_loss_says_how_far_they_move(batch):
    images, labels = batch
    parts = SimpleNamespace(images=lambda: images, labels=labels, seed=0, of_passes=dict)
    loss = ProxyNPair(classes=CLASSES, proxies="hard", proxy_steps=30, proxy_rate=0.1, proxy_tolerance=100.0)
    (callback,) = loss.callbacks(parts)
    assert loss.image_proxies == {"steps": 30, "learning_rate": 0.1, "tolerance": 100.0}
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    model.compile("sgd", loss=loss)
    model(images[:1])
    callback.set_model(model)
    callback.on_epoch_begin(0)
    # No gradient is that long.
    (layer,) = model.loss_layers.learners
    np.testing.assert_allclose(layer.proxies, unit(model(images).numpy())[callback.rows], atol=1e-6)


@pytest.mark.slow
def test_gradients_do_not_move_them_and_an_epoch_renews_them(batch):
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    model.compile(keras.optimizers.SGD(0.1), loss=ProxyNPair(classes=CLASSES, proxies="images"))
    model(batch[0][:1])
    (layer,) = model.loss_layers.learners
    first = np.array(layer.proxies)
    for _ in range(2):
        model.train_on_batch(*batch)
    np.testing.assert_array_equal(layer.proxies, first)
    callback = ImageProxies(*batch, steps_per_epoch=2)
    model.fit(*batch, batch_size=16, epochs=2, verbose=0, callbacks=[callback])
    # Two more epochs of two steps each; the last began with these features.
    assert not np.allclose(layer.proxies, first)
    renewed = np.array(layer.proxies)
    # In the middle of an epoch, where a resumed run goes on.
    callback._step = lambda: 3
    callback.set_model(model)
    callback.on_epoch_begin(1)
    np.testing.assert_array_equal(layer.proxies, renewed)


def test_each_learner_has_proxies_of_its_own_features(batch):
    images, labels = batch
    backbone = tfdml.backbones.Small(width=4, stages=2)
    model = tfdml.MultiHead(backbone, embedding_size=8, learners=2, branch="stage1", divergence_weight=0.0)
    model.compile("sgd", loss=ProxyNPair(classes=CLASSES, proxies="images"))
    model(images[:1])
    callback = ImageProxies(images, labels)
    callback.set_model(model)
    callback.on_epoch_begin(0)
    learners = np.asarray(model.learner_embeddings(images))
    for k, layer in enumerate(model.loss_layers.learners):
        np.testing.assert_allclose(layer.proxies, learners[callback.rows, k], atol=1e-5)


def test_in_a_weighted_sum_learned_proxies_stay(batch):
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    terms = [(1.0, ProxyNPair(classes=CLASSES)), (2.0, ContextualManifold(classes=CLASSES, proxies="images"))]
    model.compile("sgd", loss=WeightedSum(terms))
    model(batch[0][:1])
    (layer,) = model.loss_layers.learners
    learned = np.array(layer.parts[0].proxies)
    callback = ImageProxies(*batch)
    callback.set_model(model)
    callback.on_epoch_begin(0)
    np.testing.assert_array_equal(layer.parts[0].proxies, learned)
    features = unit(model(batch[0]).numpy())
    np.testing.assert_allclose(layer.parts[1].proxies, features[callback.rows], atol=1e-5)


def test_learners_that_are_merged_later_are_told(batch):
    model = tfdml.DivideAndConquer(tfdml.backbones.Small(width=4, stages=2), embedding_size=8, learners=2)
    model.compile("sgd", loss=ProxyNPair(classes=CLASSES, proxies="images"))
    model(batch[0][:1])
    callback = ImageProxies(*batch)
    callback.set_model(model)
    with pytest.raises(ValueError, match="with 3 layers for 2 learners, because it merges the learners later"):
        callback.on_epoch_begin(0)


def test_proxies_that_nothing_computes_are_told(batch):
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    model.compile("sgd", loss=WeightedSum([(1.0, Triplet()), (1.0, ProxyNPair(classes=CLASSES, proxies="hard"))]))
    with pytest.raises(ValueError, match="and no callback computes them. Pass callbacks=.*ImageProxies"):
        model.fit(*batch, verbose=0)


@pytest.mark.parametrize("loss, words", [("triplet", "with Triplet"), (ProxyNPair(classes=4), "with ProxyNPair")])
def test_a_loss_without_such_proxies_is_told(batch, loss, words):
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    model.compile("sgd", loss=loss)
    with pytest.raises(ValueError, match=f"proxies='images' or proxies='hard'. Received: Single {words}"):
        ImageProxies(*batch).set_model(model)


def test_another_number_of_classes_is_told(batch):
    model = tfdml.Single(tfdml.backbones.Small(width=4, stages=2), embedding_size=6)
    model.compile("sgd", loss=ProxyNPair(classes=5, proxies="images"))
    with pytest.raises(ValueError, match="must have the 5 classes of the loss. Received: 4 classes"):
        ImageProxies(*batch).set_model(model)


def test_labels_with_a_gap_are_told(batch):
    with pytest.raises(ValueError, match=r"all integers from 0 to 1. Received: \[0, 2\]"):
        ImageProxies(batch[0][:2], [0, 2])


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_on_meta_classes(tmp_path):
    done = run(
        "tfdml.train",
        "--dataset=toycars(classes=16, images_per_class=8, image_size=24)",
        f"--data_dir={pictures()}",
        *MODEL_FLAGS,
        "--loss=contextual_manifold(proxies='hard', proxy_steps=5)",
        "--meta_classes=4",
        "--sampler=uniform(batch_size=16)",
        "--epochs=2",
        "--steps_per_epoch=3",
        f"--run_dir={tmp_path}/run",
    )
    assert done.returncode == 0, done.stderr
    found = [event for event in events(tmp_path / "run") if event["event"] == "proxies"]
    assert [event["step"] for event in found] == [0, 3]
    assert all(0 < event["similarity_to_image"] <= 1 for event in found)
    assert result(tmp_path / "run")["metrics"]["queries"] == 64


def test_the_old_spelling_of_learned_is_accepted():
    """Flags of earlier runs and saved models have it."""
    loss = tfdml.registry.create("loss", "proxy_n_pair(proxies='learnt')")
    assert loss.proxies == loss.get_config()["proxies"] == "learned"
    old = {**ContextualManifold().get_config(), "proxies": "learnt"}
    assert ContextualManifold.from_config(old).learns_proxies
    with pytest.raises(ValueError, match="'learned', 'images', 'hard'"):
        ProxyNPair(proxies="taught")
