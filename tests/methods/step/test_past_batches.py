"""Batches are compared with the last embeddings, as in a loop over a deque."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.methods.models import small_model
from tfdml.functional.pairs import NO_IMAGE
from tfdml.losses import Contrastive
from tfdml.methods.step.past_batches import PastBatches

DIM, BATCH, MARGIN = 3, 4, 1.2
# Losses that compare negatives with both ends of a pair.
REFUSING = ("Angular", "ByLevel", "LiftedStructure", "ManifoldNPair")
# They compare rows that are not anchors.
REFUSED = ("swap=True", "mining='angular", "mining='maximum_loss'")


def batches(count):
    rng = np.random.default_rng(0)
    # Labels that differ in no float.
    labels = 2**53 + rng.integers(0, 3, (count, BATCH))
    return list(zip(labels, rng.normal(size=(count, BATCH, DIM)).astype(np.float32), strict=True))


def naive_contrastive(labels, embeddings, gallery):
    """Values of the anchors, and what their sum moves these; copies are the same object."""
    values, gradients = np.zeros(BATCH), np.zeros((BATCH, DIM))
    for i, (label, anchor) in enumerate(zip(labels, embeddings, strict=True)):
        for other_label, other in gallery:
            if other is anchor:
                continue
            distance = np.linalg.norm(anchor - other)
            if label == other_label:
                values[i] += distance**2
                pull = 2 * (anchor - other)
            elif distance < MARGIN:
                values[i] += MARGIN - distance
                pull = (other - anchor) / distance
            else:
                continue
            gradients[i] += pull
            for j, moved in enumerate(embeddings):
                if moved is other:
                    gradients[j] -= pull
    return values, gradients


def test_values_and_gradients_equal_a_loop_over_a_deque():
    """At first it only fills; then it is used before it is full, and when it is, it loses the oldest."""
    past = PastBatches(tfdml.memories.XBM(size=18, start=3))
    past.make([DIM], "float32")
    loss, queue = Contrastive(margin=MARGIN), collections.deque(maxlen=18)
    for number, (labels, rows) in enumerate(batches(7)):
        embeddings = tf.Variable(rows)
        with tf.GradientTape() as tape:
            values = past.values(loss, 0, labels, tf.convert_to_tensor(embeddings))
        found = tape.gradient(values, embeddings)
        rows = list(rows)
        # The last of a batch leaves first: a batch goes in as it stands, before the older ones.
        queue.extendleft(reversed(list(zip(labels, rows, strict=True))))
        gallery = list(queue)[:BATCH] if number < 3 else queue
        expected, gradients = naive_contrastive(labels, rows, gallery)
        np.testing.assert_allclose(values, expected, rtol=1e-5)
        np.testing.assert_allclose(found, gradients, rtol=1e-4, atol=1e-5)
    stored, names, steps = (variable.numpy() for variable in past.variables)
    np.testing.assert_array_equal(stored, [row for _, row in queue])
    np.testing.assert_array_equal(names, [label for label, _ in queue])
    assert stored.dtype == np.float32 and int(steps) == 7


@pytest.mark.nightly
def test_a_gallery_of_the_batch_alone_changes_nothing(pair_loss_spec, make_batch):
    """Whatever is empty in it."""
    loss = tfdml.registry.create("loss", pair_loss_spec)
    if type(loss).__name__ in REFUSING or any(part in pair_loss_spec for part in REFUSED):
        assert loss.refuses_memory
        return
    assert loss.refuses_memory is None
    labels, embeddings = make_batch(12, 3, dtype="float64")
    names = tf.constant([*labels, NO_IMAGE, NO_IMAGE], tf.int64)
    rows = tf.Variable(embeddings)
    with tf.GradientTape(persistent=True) as tape:
        gallery = tf.concat([rows, tf.zeros((2, embeddings.shape[1]), tf.float64)], axis=0)
        values = loss.call(names, gallery, 12), loss.call(labels, tf.convert_to_tensor(rows))
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-12)
    gradients = [tf.convert_to_tensor(tape.gradient(each, rows)) for each in values]
    np.testing.assert_allclose(*gradients, rtol=1e-9, atol=1e-12)


# Their values depend on the whole batch; loops in their own tests compare what is in one.
OF_THE_BATCH = ("Histogram", "IntraPairVariance", "Margin", "ThresholdConsistentMargin")


@pytest.mark.slow
@pytest.mark.few_by_day(9)
def test_anchors_are_compared_with_the_gallery_whose_rows_are_constant(pair_loss_spec, make_batch):
    loss = tfdml.registry.create("loss", pair_loss_spec)
    if loss.refuses_memory:
        return
    labels, embeddings = make_batch(12, 3, dtype="float64")
    rows = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = loss.call(labels, tf.convert_to_tensor(rows), 8)
    gradient = tf.convert_to_tensor(tape.gradient(values, rows)).numpy()
    assert np.any(gradient[:8]) and not np.any(gradient[8:])
    assert not np.allclose(values, loss.call(labels[:8], embeddings[:8]))
    if type(loss).__name__ in OF_THE_BATCH:
        return
    # A mean over the pairs of the batch has other factors, which are the same for all anchors of a sum over pairs.
    of_pairs = getattr(loss, "mean", None) in ("pairs", "nonzero")
    if not of_pairs:
        np.testing.assert_allclose(values, loss.call(labels, embeddings)[:8], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_training_fills_the_queue_and_evaluation_leaves_it(batch):
    images, labels = np.clip(batch[0], -2.0, 2.0), batch[1]
    model = small_model(freeze_batch_norm="all")
    model.compile(keras.optimizers.SGD(0.0), "multi_similarity", memory="xbm(size=12, start=1)", run_eagerly=True)
    losses = model.fit(images, labels, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
    stored, names, steps = (variable.numpy() for variable in model.past_batches.variables)
    embeddings = model(images).numpy()
    newest = [*range(8, 16), *range(4)]
    np.testing.assert_allclose(stored, embeddings[newest], atol=1e-5)
    np.testing.assert_array_equal(names, labels[newest])
    assert int(steps) == 4 and not any(variable.path.startswith("past") for variable in model.variables)
    # The gallery of each of the last two batches.
    galleries = [*range(12)], newest
    expected = [model.loss.call(tf.constant(labels[rows]), embeddings[rows], 8) for rows in galleries]
    assert losses[1] == pytest.approx(np.mean(expected), rel=1e-4)
    model.test_step((images, labels))
    np.testing.assert_array_equal(model.past_batches.variables[0], stored)


@pytest.mark.parametrize(
    "loss, memory, message",
    [
        ("proxy_nca(classes=4)", "xbm", "ProxyNCA does not support memory: .* compares images with proxies"),
        ("triplet + proxy_nca(classes=4)", "xbm", "WeightedSum does not support memory"),
        ("lifted_structure", "xbm", "LiftedStructure does not support memory: .* more than each anchor"),
        ("contrastive(pairs='given')", "xbm", "the sampler determines its pairs"),
        ("n_pair(negatives='one_per_class')", "xbm", "reads a batch as pairs"),
        ("margin(learn_beta='one')", "xbm", "the boundary that it learns"),
        (tfdml.losses.addons.TripletHardLoss(), "xbm", "TripletHardLoss does not support memory"),
        (keras.losses.MeanSquaredError(), "xbm", "MeanSquaredError does not support memory"),
        ("triplet", 8192, "memory must be one of tfdml.memories, .* or its spec"),
    ],
)
def test_what_takes_no_memory_is_told(loss, memory, message):
    with pytest.raises(ValueError, match=message):
        small_model().compile("sgd", loss, memory=memory)


def test_learners_in_turns_take_no_memory():
    model = tfdml.DivideAndConquer(tfdml.backbones.Small(width=8, stages=2), embedding_size=16, learners=2)
    with pytest.raises(ValueError, match="DivideAndConquer does not support memory"):
        model.compile("sgd", "triplet", memory="xbm")


def test_batches_that_do_not_fit_are_told():
    past = PastBatches(tfdml.memories.XBM(size=3))
    past.make([DIM], "float32")
    ((labels, rows),) = batches(1)
    with pytest.raises(ValueError, match="at least one batch. Received: size=3"):
        past.values(Contrastive(), 0, labels, tf.constant(rows))


def test_a_model_that_is_loaded_goes_on_with_a_memory_and_pieces(tmp_path):
    model = tfdml.Single(keras.Sequential([keras.layers.Flatten()]), embedding_size=4)
    model(np.zeros((1, 2, 2, 3), np.float32))
    model.compile("sgd", "contrastive", pieces=2, memory="xbm(size=12, start=3)")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.pieces == 2 and loaded.past_batches.memory == tfdml.memories.XBM(size=12, start=3)
