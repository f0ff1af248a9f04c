import itertools

import numpy as np
import pytest
import tensorflow as tf

from pipelines.sampling.draws import key_of, shuffled_index


def orders(keys, size):
    """The whole order of `0 ... size - 1` for each key, `[keys, size]`."""
    keys = tf.repeat(tf.convert_to_tensor(keys), size)
    index = tf.tile(tf.range(size, dtype=tf.int64), [len(keys) // size])
    return tf.reshape(shuffled_index(index, keys, tf.fill(tf.shape(index), tf.constant(size, tf.int64))), [-1, size])


def test_each_size_is_gone_through_exactly_once():
    sizes = [*range(1, 201), 1000, 65535, 65536, 65537]
    index = np.concatenate([np.arange(size) for size in sizes])
    of_size = np.repeat(sizes, sizes)
    members = shuffled_index(tf.constant(index), key_of(5, tf.constant(of_size)), tf.constant(of_size)).numpy()
    for size, start in zip(sizes, np.cumsum([0, *sizes]), strict=False):
        np.testing.assert_array_equal(np.sort(members[start : start + size]), np.arange(size))
        if size > 20:
            assert np.mean(members[start : start + size] == np.arange(size)) < 0.3


@pytest.mark.parametrize("size", [2, 3, 5, 9, 10, 17])
def test_every_member_is_equally_often_at_every_place(size):
    count = 4000
    found = orders(key_of(11, tf.range(count)), size).numpy()
    counts = np.array([np.bincount(found[:, place], minlength=size) for place in range(size)])
    expected = count / size
    freedom = (size - 1) ** 2
    assert np.sum((counts - expected) ** 2 / expected) < freedom + 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("size", [3, 4])
def test_every_order_comes_about_equally_often(size):
    count = 6000
    found = orders(key_of(tf.range(count), 3), size).numpy()
    seen = [int(np.sum(np.all(found == order, axis=1))) for order in itertools.permutations(range(size))]
    freedom, expected = len(seen) - 1, count / len(seen)
    assert sum((number - expected) ** 2 / expected for number in seen) < freedom + 5 * np.sqrt(2 * freedom)


def test_orders_differ_by_key_and_by_size():
    found = {tuple(order) for order in orders(key_of(0, tf.range(500)), 30).numpy()}
    assert len(found) == 500
    first, second = (orders(key_of(0, [7]), size).numpy()[0, :30] for size in (30, 31))
    assert np.any(first != second)


def test_order_does_not_depend_on_what_is_computed_beside_it():
    keys = key_of(tf.range(40), 1)
    together = orders(keys, 23).numpy()
    for number in (0, 17, 39):
        np.testing.assert_array_equal(orders(keys[number : number + 1], 23)[0], together[number])
        alone = shuffled_index(tf.constant([4], tf.int64), keys[number : number + 1], tf.constant([23], tf.int64))
        assert alone.numpy() == [together[number, 4]]


def test_keys_tell_all_parts_and_their_order_apart():
    parts = list(itertools.product([-1, 0, 1, 2, 2**31, 2**62], repeat=2))
    keys = {int(key_of(tf.constant(first, tf.int64), tf.constant(second, tf.int64))) for first, second in parts}
    keys |= {int(key_of(tf.constant(first, tf.int64))) for first in {part[0] for part in parts}}
    assert len(keys) == 36 + 6


def test_keys_broadcast():
    keys = key_of(tf.range(3)[:, None], tf.range(4)[None, :]).numpy()
    assert keys.shape == (3, 4) and keys.dtype == np.uint64
    assert keys[2, 1] == int(key_of(2, 1))
