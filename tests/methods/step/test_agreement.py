"""Images that agree least with the embeddings of past batches are left out."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tests.methods.models import small_model
from tfdml.functional.pairs import NO_IMAGE
from tfdml.losses import Contrastive
from tfdml.methods.step.past_batches import PastBatches, agrees

# Labels that differ in no float.
FIRST = 2**53


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def drawn(seed, rows, classes=4, dim=3):
    random = np.random.default_rng(seed)
    return FIRST + random.integers(0, classes, rows), random.normal(size=(rows, dim))


def naive(labels, embeddings, names, stored, share):
    classes = sorted({name for name in names if name != NO_IMAGE})
    right = []
    for label, row in zip(labels, unit(embeddings), strict=True):
        means = [
            np.mean([row @ unit(past) for past, name in zip(stored, names, strict=True) if name == each])
            for each in classes
        ]
        right.append(np.exp(means[classes.index(label)]) / np.sum(np.exp(means)) if label in classes else None)
    judged = sorted(each for each in right if each is not None)
    wrong = judged[: int(share * len(judged))]
    return [each not in wrong for each in right]


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_equal_to_a_loop(seed, share):
    labels, embeddings = drawn(seed, 12)
    names, stored = drawn(seed + 10, 20)
    names[[3, 7, 8]] = NO_IMAGE
    # A class that no past image has.
    labels[5] = FIRST + 9
    found = agrees(labels, tf.constant(embeddings), tf.constant(names), tf.constant(stored), share)
    expected = naive(labels, embeddings, names, stored, share)
    np.testing.assert_array_equal(found, expected)
    assert found[5] and np.sum(~found.numpy()) == int(share * 11)


def test_without_past_images_none_is_judged():
    labels, embeddings = drawn(0, 6)
    names = np.full(5, NO_IMAGE)
    assert np.all(agrees(labels, tf.constant(embeddings), tf.constant(names), tf.zeros([5, 3], tf.float64), 0.9))


@pytest.mark.slow
def test_compiled_by_xla_it_is_the_same():
    (labels, embeddings), (names, stored) = drawn(0, 12), drawn(1, 20)
    arguments = [tf.constant(each) for each in (labels, embeddings, names, stored)]
    compiled = tf.function(lambda *given: agrees(*given, 0.3), jit_compile=True)
    np.testing.assert_array_equal(compiled(*arguments), agrees(*arguments, 0.3))


def test_those_left_out_are_in_no_pair_and_stay_out_of_the_memory():
    past = PastBatches(tfdml.memories.Agreement(size=12, start=1, share=0.3))
    past.make([3], "float64")
    loss = Contrastive(margin=1.2)
    (names, stored), (labels, embeddings) = drawn(1, 6), drawn(2, 6)
    first = past.values(loss, 0, names, tf.constant(stored))
    np.testing.assert_allclose(first, loss.call(tf.constant(names), tf.constant(stored)))
    kept = np.array(naive(labels, embeddings, names, stored, 0.3))
    assert 0 < np.sum(~kept) < 6
    rows = tf.Variable(embeddings)
    with tf.GradientTape() as tape:
        values = past.values(loss, 0, labels, tf.convert_to_tensor(rows))
    gradient = tf.convert_to_tensor(tape.gradient(values, rows)).numpy()
    gallery = np.concatenate([embeddings[kept], stored]), np.concatenate([labels[kept], names])
    expected = loss.call(tf.constant(gallery[1]), tf.constant(gallery[0]), int(kept.sum()))
    np.testing.assert_allclose(values.numpy()[kept], expected, rtol=1e-9)
    assert not np.any(values.numpy()[~kept]) and not np.any(gradient[~kept]) and np.all(np.any(gradient[kept], axis=1))
    in_memory = past.variables[1].numpy()
    np.testing.assert_array_equal(in_memory[:6], np.where(kept, labels, NO_IMAGE))
    np.testing.assert_array_equal(in_memory[6:], names)


def test_a_model_trains_with_it(batch):
    images, labels = batch
    model = small_model(freeze_batch_norm="all")
    spec = "agreement(size=32, start=1, share=0.5)"
    model.compile(keras.optimizers.SGD(0.1), "multi_similarity", memory=spec, run_eagerly=True)
    model.fit(images, labels, batch_size=16, epochs=3, shuffle=False, verbose=0)
    stored = model.past_batches.variables[1].numpy()
    # All of the first batch, and half of each of the others.
    assert np.sum(stored != NO_IMAGE) == 16 and model.past_batches.memory.share == 0.5
    assert tfdml.registry.create("memory", model.past_batches.spec) == tfdml.registry.create("memory", spec)
