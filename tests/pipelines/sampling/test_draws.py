import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sampling.draws import draw, key_of, times_drawn


def arguments(size, count, numbers, seed=7):
    """The first four arguments of `draw` for draws of one population."""
    same = tf.zeros(len(numbers), tf.int64)
    return tf.fill([len(numbers)], key_of(seed, 3)), tf.constant(numbers, tf.int64), same + size, same + count


def check(size, count, draws, spare=0, seed=7):
    """Goes through the draws one after the other and counts."""
    given_arguments = arguments(size, count, range(draws), seed)
    members = draw(*given_arguments, count + spare)
    times = times_drawn(*given_arguments, members[:, :count], count + spare).numpy()
    padded_times = times_drawn(*given_arguments, members, count + spare).numpy()[:, :count]
    counts = np.zeros(size, int)
    for drawn, told, told_padded in zip(members.numpy()[:, :count], times, padded_times, strict=True):
        assert 0 <= drawn.min() and drawn.max() < size
        assert len(set(drawn)) == count, "a draw holds a member twice"
        np.testing.assert_array_equal(told, counts[drawn])
        np.testing.assert_array_equal(told_padded, counts[drawn])
        counts[drawn] += 1
        assert counts.max() - counts.min() <= 1, "some member came twice before another came once"


@pytest.mark.parametrize("spare", [0, 3])
@pytest.mark.parametrize(
    "size, count",
    [(1, 1), (2, 1), (3, 2), (3, 1), (5, 5), (6, 3), (7, 3), (8, 5), (10, 8), (63, 32), (64, 32), (65, 32), (101, 7)],
)
@pytest.mark.few_by_day(6)
def test_all_members_come_once_before_any_comes_twice(size, count, spare):
    check(size, count, 150, spare)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_so_it_is_for_any_size_count_and_seed(data):
    size = data.draw(st.integers(1, 40))
    count = data.draw(st.integers(1, size))
    check(size, count, 60, data.draw(st.integers(0, 4)), data.draw(st.integers(0, 2**31)))


@pytest.mark.parametrize("size, count", [(11, 4), (11, 8), (6, 6), (2**40, 5)])
def test_a_draw_does_not_depend_on_those_beside_it(size, count):
    numbers = [0, 1, 2, 5, 1000, 10**9, 3]
    together = draw(*arguments(size, count, numbers), count).numpy()
    for place, number in enumerate(numbers):
        alone = draw(*arguments(size, count, [number]), count).numpy()[0]
        np.testing.assert_array_equal(alone, together[place])
        assert len(set(alone)) == count and 0 <= alone.min() and alone.max() < size


def test_populations_of_many_sizes_share_a_call():
    sizes, counts = [5, 9, 1000, 4, 1], [5, 2, 4, 3, 1]
    keys = key_of(0, tf.range(5))
    numbers = tf.constant([3, 8, 20, 1, 2], tf.int64)
    together = draw(keys, numbers, tf.constant(sizes, tf.int64), tf.constant(counts, tf.int64), 5).numpy()
    for place, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        one = slice(place, place + 1)
        alone = draw(keys[one], numbers[one], tf.constant([size], tf.int64), tf.constant([count], tf.int64), count)
        np.testing.assert_array_equal(together[place, :count], alone[0])


def test_nothing_may_be_drawn():
    # As pxk does where a class's images fit evenly.
    size, zero = tf.constant([4, 6], tf.int64), tf.zeros(2, tf.int64)
    assert draw(key_of(0, tf.range(2)), tf.constant([5, 9], tf.int64), size, zero, 3).shape == (2, 3)


def test_keys_give_different_draws():
    drawn = {tuple(draw(*arguments(50, 6, [0], seed), 6).numpy()[0]) for seed in range(30)}
    assert len(drawn) == 30


def test_rounds_follow_each_other_in_different_orders():
    members = draw(*arguments(20, 5, range(40)), 5).numpy().reshape(10, 20)
    assert len({tuple(order) for order in members}) == 10


def test_members_are_drawn_equally_often_together():
    # 20 pairs of 5 members are 10 kinds of pairs; by chance alone each comes as often.
    count = 5000
    keys, zero = key_of(1, tf.range(count)), tf.zeros(count, tf.int64)
    members = np.sort(draw(keys, zero + 1, zero + 5, zero + 2, 2).numpy(), axis=1)
    _, seen = np.unique(members, axis=0, return_counts=True)
    assert len(seen) == 10
    assert np.sum((seen - count / 10) ** 2 / (count / 10)) < 9 + 5 * np.sqrt(18)
