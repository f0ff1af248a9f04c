"""Workers share things and gather arrays; here they are threads, processes are in test_shared_passes.py."""

import numpy as np
import pytest
import tensorflow as tf

from tests.thread_workers import together
from tfdml.runtime import workers as module
from tfdml.runtime.workers import WorkerFailed, Workers


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 60])
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_shares_are_contiguous_and_make_the_whole(count, workers):
    shares = [Workers(index, workers).share(count) for index in range(workers)]
    assert [each for share in shares for each in share] == list(range(count))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_a_process_alone_has_all():
    assert Workers().share(5) == range(5)
    array = np.arange(3)
    assert Workers().gather(lambda: (array,))[0] is array and Workers().from_first(lambda: (array,))[0] is array
    assert Workers.of(tf.distribute.get_strategy()) == Workers()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("counts", [(4, 4, 4), (0, 7, 2), (5, 0, 0), (0, 0, 0)])
@pytest.mark.parametrize("piece", [1, 40, 2**22])
def test_rows_are_gathered_in_the_order_of_workers(order, counts, piece, monkeypatch):
    monkeypatch.setattr(module, "PIECE", piece)
    ends = np.cumsum(counts)
    rows = np.random.default_rng(0).normal(size=(sum(counts), 3)).astype(np.float32)
    # What a sum with zeros, or a comparison, would change.
    rows[:2], rows[-1:] = -0.0, np.nan
    numbers = np.arange(sum(counts))

    def task(workers):
        own = slice(ends[workers.index] - counts[workers.index], ends[workers.index])
        return workers.gather(lambda: (rows[own], numbers[own], rows[own, 0]))

    results, exchange = together(task, order)
    for found in results:
        assert [each.tobytes() for each in found] == [rows.tobytes(), numbers.tobytes(), rows[:, 0].tobytes()]
        assert [each.dtype for each in found] == [rows.dtype, numbers.dtype, rows.dtype]
    # A row is the least that is sent; the first exchange tells what will be.
    assert max(exchange.sizes[3:], default=0) <= max(piece, 12)


def test_a_worker_without_anything_gets_what_others_have():
    results, _ = together(lambda workers: workers.gather(lambda: (np.eye(4),) if workers.index == 1 else ()))
    assert all(np.array_equal(found, np.eye(4)) for (found,) in results)


def test_only_the_first_computes():
    computed = []

    def task(workers):
        return workers.from_first(lambda: computed.append(workers.index) or (np.arange(4) + workers.index,))

    results, _ = together(task)
    assert computed == [0] and all(np.array_equal(found, np.arange(4)) for (found,) in results)


def test_an_error_of_one_is_an_error_of_all():
    error = ValueError("Image 3 is\nblank.")

    def task(workers):
        def compute():
            if workers.index == 1:
                raise error
            return (np.arange(2),)

        return workers.gather(compute)

    (first, second, third), _ = together(task)
    assert second is error
    assert {type(first), type(third)} == {WorkerFailed} and str(first) == "Worker 1 failed: Image 3 is\nblank."


def test_an_error_of_tensorflow_keeps_its_kind():
    """By which the image behind it is looked for."""

    def task(workers):
        return workers.gather(lambda: (tf.io.read_file("/no/such/file") if workers.index else np.arange(2),))

    (first, second, third), _ = together(task)
    assert type(first) is type(second) is type(third) is tf.errors.NotFoundError
    assert "/no/such/file" in second.message and first.message.startswith("Worker ")
