"""Two streams: which pairs the loss compares, which networks learn, files, pieces, and wrong arguments."""

import keras
import numpy as np
import pytest

import tfdml
from tfdml.backbones import Small

LABELS = np.array([0, 0, 1, 1, 2, 2])


@pytest.fixture
def make():
    """Function that makes a model with small networks of different sizes."""

    def make(loss=None, **arguments):
        keras.utils.set_random_seed(0)
        query = tfdml.Single(Small(width=4, stages=2), embedding_size=6, freeze_batch_norm="statistics")
        gallery = tfdml.Single(Small(width=8, stages=1), embedding_size=6, freeze_batch_norm="statistics")
        model = tfdml.TwoStreams(query, gallery)
        if loss is not None:
            model.compile(keras.optimizers.SGD(0.1), loss, **arguments)
        return model

    return make


@pytest.fixture
def images():
    random = np.random.default_rng(0)
    return {name: random.uniform(-2, 2, size=(6, 16, 16, 3)).astype(np.float32) for name in ("query", "gallery")}


def test_an_image_is_embedded_as_a_query(make, images):
    model = make()
    both = model(images, merged=False)
    np.testing.assert_allclose(model(images["query"]), both[:, 0], atol=1e-6)
    np.testing.assert_allclose(model.query(images["query"]), both[:, 0], atol=1e-6)
    np.testing.assert_allclose(model.gallery(images["gallery"]), both[:, 1], atol=1e-6)


def test_only_pairs_of_a_query_and_a_gallery_image_are_compared(make, images):
    model = make("contrastive(mean='pairs')")
    loss = model.evaluate(images, LABELS, batch_size=6, verbose=0, return_dict=True)["loss"]
    query, gallery = model.query(images["query"]).numpy(), model.gallery(images["gallery"]).numpy()
    distance = np.linalg.norm(query[:, None] - gallery[None, :], axis=2)
    same = LABELS[:, None] == LABELS[None, :]
    expected = np.mean(distance[same] ** 2) + np.mean(np.maximum(1.0 - distance[~same], 0.0))
    assert loss == pytest.approx(expected, rel=1e-5)


def test_proxies_are_compared_with_both_streams(make, images):
    model = make("norm_softmax(classes=3)")
    loss = model.evaluate(images, LABELS, batch_size=6, verbose=0, return_dict=True)["loss"]
    rows = np.concatenate([model.query(images["query"]), model.gallery(images["gallery"])])
    labels = np.concatenate([LABELS, LABELS])
    taken = model.loss_layers.inputs_of(0, labels, rows)
    assert loss == pytest.approx(float(tfdml.losses.NormSoftmax(classes=3)(labels, taken)), rel=1e-5)


@pytest.mark.parametrize("loss", ["triplet(mining='batch_hard')", "proxy_anchor(classes=3)", "n_pair + 0.1*uniformity"])
@pytest.mark.few_by_day(1)
def test_both_networks_learn(make, images, loss):
    model = make(loss)
    model(images)
    before = [model.query.get_weights(), model.gallery.get_weights()]
    model.fit(images, LABELS, batch_size=6, verbose=0)
    for old, network in zip(before, (model.query, model.gallery), strict=True):
        assert any(np.any(one != other) for one, other in zip(old, network.get_weights(), strict=True))


def test_one_network_can_embed_both_streams(images):
    network = tfdml.Single(Small(width=4, stages=2), embedding_size=6, freeze_batch_norm="statistics")
    model = tfdml.TwoStreams(network, network)
    model.compile("adam", "contrastive")
    model.fit(images, LABELS, batch_size=6, verbose=0)
    assert len(model.backbones()) == len(model.embedding_layers()) == 1
    assert len(model.trainable_variables) == len(network.trainable_variables)


@pytest.mark.nightly
def test_pieces_take_the_same_step(make, images):
    for one, other in zip(train(make, images), train(make, images, pieces=3), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def train(make, images, **arguments):
    model = make("multi_similarity", **arguments)
    model.fit(images, LABELS, batch_size=6, shuffle=False, verbose=0)
    return model.get_weights()


def test_a_file_has_both_networks(make, images, tmp_path):
    model = make("contrastive")
    expected = model(images, merged=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(images, merged=False), expected, atol=1e-6)


def test_networks_of_different_sizes_are_refused(images):
    one, other = (tfdml.Single(Small(width=4, stages=1), embedding_size=size) for size in (6, 8))
    with pytest.raises(ValueError, match="same size.*Received: 6 dimensions of queries and 8 of gallery images"):
        tfdml.TwoStreams(one, other)(images)


@pytest.mark.parametrize(
    "loss, arguments, message",
    [
        ("contrastive", {"memory": "xbm(size=64)"}, "cannot compare batches with past batches"),
        ("teacher(form='pairs', teacher_dims=4)", {}, "because its batches have two images per row"),
        ("contrastive + norm_softmax(classes=3)", {}, "Expected a sum of losses of one kind"),
    ],
)
def test_what_needs_more_than_two_streams_is_refused(make, loss, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(loss, **arguments)


def test_a_penalty_on_weights_can_be_added_to_any_loss(make, images):
    for loss in ("contrastive", "norm_softmax(classes=3)"):
        model = make(f"{loss} + 0.1*toward_initial(of='weights')")
        assert model.fit(images, np.array([0, 0, 1, 1, 2, 2]), verbose=0).history["loss"][0] > 0


def test_the_initial_embedding_of_joined_networks_is_refused(make, images):
    initial = tfdml.callbacks.InitialEmbedding(images["query"], [0, 0, 1, 1, 2, 2], kind="pca")
    model = make()
    model(images)
    with pytest.raises(ValueError, match="Initialize the networks of a TwoStreams model before you join them"):
        initial.apply(model)
