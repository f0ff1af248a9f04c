"""Every loss on pairs with categories from coarse to fine, several labels an image, and given pairs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.methods.models import small_model
from tfdml import registry

ONE_CLASS = "n_pair(negatives="
# Their values are those of pairs of the whole batch, or weigh by their number.
OF_ANCHORS = ("contrastive", "multi_similarity", "nt_xent", "triplet(mining='all')", "triplet(mining='batch_hard')")
OF_ANCHORS += ("circle", "sup_con", "smooth_ap", "angular")


@pytest.fixture
def loss(pair_loss_spec):
    return registry.create("loss", pair_loss_spec)


@pytest.mark.nightly
def test_they_are_the_class_where_they_say_no_more(loss, make_batch, pair_loss_spec):
    labels, embeddings = make_batch(12, 4)
    expected, value = loss.call(labels, embeddings), loss(labels, embeddings)
    kinds = [np.stack([labels // 2, labels], axis=1), np.eye(4, dtype=bool)[labels]]
    kinds.append((labels[:, None] == labels[None, :]).astype("float32"))
    for kind in kinds[loss.takes_levels :]:
        if ONE_CLASS in pair_loss_spec:
            with pytest.raises(ValueError, match=r"integer class labels of shape \[batch\]"):
                loss.call(kind, embeddings)
        else:
            np.testing.assert_array_equal(loss.call(kind, embeddings), expected)
            np.testing.assert_array_equal(loss(kind, embeddings), value)


@pytest.mark.parametrize("spec", OF_ANCHORS)
def test_unknown_pairs_are_left_out(spec, make_batch):
    loss = registry.create("loss", spec)
    labels, embeddings = make_batch(12, 2)
    given = (labels[:, None] == labels[None, :]).astype("float32")
    given[:5, 5:] = given[5:, :5] = -1
    apart = [loss.call(labels[rows], embeddings[rows]) for rows in (slice(0, 5), slice(5, 12))]
    together = loss.call(given, embeddings)
    np.testing.assert_allclose(together, np.concatenate(apart), rtol=1e-5, atol=1e-6)
    assert np.abs(together - loss.call(labels, embeddings)).max() > 1e-3


@pytest.mark.parametrize(
    "labels, message",
    [
        (
            [[0, 1], [1, 1], [1, 2], [0, 3]],
            "a category belongs to two categories of the level above it, which is not a tree",
        ),
        (np.eye(4, dtype=int), "Convert one-hot labels with argmax first. For several labels per image, use booleans"),
        (-np.ones((4, 4), "float32"), "one pair of the batch must be known.* Received: only values below 0"),
        (np.zeros((4, 2, 2)), r"shape \[batch\].*Received: shape=\(4, 2, 2\)"),
    ],
)
def test_labels_of_which_nothing_can_be_learned_are_named(make_batch, labels, message):
    with pytest.raises(ValueError, match=message):
        registry.create("loss", "triplet")(np.array(labels), make_batch(4)[1])


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_one_hot_labels_are_not_trained_on_in_a_graph(make_batch, dtype):
    """Where no value is known, and no error can be raised, the loss is NaN; class numbers and a tree are not."""
    loss, embeddings = registry.create("loss", "triplet"), make_batch(4)[1]
    compiled = tf.function(lambda labels: loss(labels, embeddings))
    assert np.isnan(compiled(tf.constant(np.eye(4)[[1, 2, 1, 0]].astype(dtype))))
    assert np.isfinite(compiled(tf.constant([[0, 0], [0, 0], [0, 1], [2, 3]])))
    assert np.isfinite(compiled(tf.constant(np.kron(np.eye(2), np.ones((2, 2))).astype("float32"))))


def test_proxies_take_one_class_an_image(make_batch, make_feed):
    loss = registry.create("loss", "proxy_anchor(classes=4)")
    labels, embeddings = make_batch(8)
    similarities = make_feed(loss)(labels, embeddings)
    with pytest.raises(ValueError, match=r"integer class labels of shape \[batch\]. Received: shape=\(8, 4\)"):
        loss.call(np.eye(4, dtype=bool)[labels], similarities)


def seeded_model():
    keras.utils.set_random_seed(0)
    return small_model()


@pytest.fixture
def images():
    return np.random.default_rng(0).normal(size=(16, 8, 8, 3)).astype("float32")


KINDS = {
    "levels": lambda labels: np.stack([labels // 2, labels], axis=1),
    "several": lambda labels: np.eye(4, dtype=bool)[labels],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind, as_dataset", [("levels", False), ("several", True)])
@pytest.mark.few_by_day(1)
def test_a_model_trains_as_on_the_class(images, kind, as_dataset):
    labels, losses = np.arange(16) % 4, []
    for of_images in (labels, KINDS[kind](labels)):
        model = seeded_model()
        # A dataset's in a graph, whose shapes are known in part.
        model.compile("sgd", loss="multi_similarity", run_eagerly=not as_dataset)
        if as_dataset:
            rows = tf.data.Dataset.from_tensor_slices((images, of_images)).batch(16)
            history = model.fit(rows, epochs=2, verbose=0, shuffle=False).history
        else:
            history = model.fit(images, of_images, batch_size=16, epochs=2, verbose=0, shuffle=False).history
        losses.append([history[name] for name in ("loss", "positive_distance", "negative_distance")])
    np.testing.assert_array_equal(*losses)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "labels, message",
    [
        (lambda labels: np.stack([labels, labels // 2], axis=1), "form a tree"),
        (lambda _: -np.ones((16, 16)), "No pair of"),
    ],
)
def test_a_model_names_what_it_cannot_learn_from(images, labels, message):
    model = seeded_model()
    model.compile("sgd", loss="triplet")
    with pytest.raises(ValueError, match=message):
        model.fit(tf.data.Dataset.from_tensors((images, labels(np.arange(16) % 4))), verbose=0)


def test_past_batches_need_class_numbers(images):
    model = seeded_model()
    model.compile("sgd", loss="triplet", memory="xbm(size=64)")
    with pytest.raises(ValueError, match=r"integer class labels of shape \[batch\]"):
        model.fit(images, KINDS["levels"](np.arange(16) % 4), batch_size=16, verbose=0)
