"""Workers share passes over images: the same bits as one process, and none waits for one that failed."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.build import evaluation_batches
from pipelines.datasets import Split
from tests.commands import Forked
from tests.photo_runs import half, photo_flags
from tests.thread_workers import together
from tests.worker_processes import PROGRAMS, config_of, finish, free_ports, start
from tfdml.evaluation.evaluate import measure
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.queries import RetrievalTask
from tfdml.neighbors.nearest import nearest_negatives
from tfdml.run.training.run_training import LOST_WORKER
from tfdml.runtime.workers import Workers

PROGRAM = PROGRAMS / "shared_passes.py"


def two_workers(*arguments):
    """Two processes that have ended, and what each has printed."""
    ports = free_ports(2)
    processes = [start([PROGRAM, "workers", *arguments], worker, ports) for worker in range(2)]
    return [(process, finish(process)) for process in processes]


@pytest.mark.nightly
def test_the_same_bits_as_one_process(tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    process = start([PROGRAM, "cpu:1", alone])
    for each, printed in [(process, finish(process)), *two_workers(together)]:
        assert each.returncode == 0, printed
    expected = np.load(alone / "0.npz")
    assert len(set(expected["assignment"])) == 2 and expected["refreshed"].min() >= 0
    seen = []
    for worker in range(2):
        found = dict(np.load(together / f"{worker}.npz"))
        assert list(found) == expected.files
        seen.append(int(found.pop("seen by this worker")))
        different = [name for name in found if found[name].tobytes() != expected[name].tobytes()]
        assert not different, worker
    # Batches of eight: seven of them, the last filled up.
    assert seen == [24, 32]


@pytest.mark.nightly
def test_an_image_that_one_cannot_read_is_an_error_on_both(tmp_path):
    for _, printed in two_workers(tmp_path, "error"):
        last = printed[printed.rindex("InvalidArgumentError: ") :]
        assert "The file is not a JPEG, PNG or WebP image" in last and "IteratorGetNext" in last


@pytest.mark.nightly
def test_a_worker_lost_within_a_pass_is_an_error_on_the_other(tmp_path):
    (_, printed), (lost, _) = two_workers(tmp_path, "kill")
    assert lost.returncode == -9
    assert any(f"\n{error.__name__}: " in printed for error in LOST_WORKER), printed


@pytest.mark.nightly
def test_both_name_the_image_that_one_cannot_read(damaged_photos, tmp_path):
    folder, path = damaged_photos("test/gnu/3.jpg", half)
    ports = free_ports(2)
    flags = photo_flags(folder, tmp_path / "run", "--devices=workers", "--eval_batch_size=4")
    for worker in [Forked("tfdml.train", *flags, environment=config_of(worker, ports)) for worker in range(2)]:
        done = worker.wait()
        lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        assert len(lines) == 1 and f"Cannot read {path}" in lines[0], done.stderr


RANDOM = np.random.default_rng(0)
# One class has a single row, which is no query.
LABELS = np.append(np.repeat(np.arange(6), 7), 6)
EMBEDDINGS = (np.eye(9)[LABELS] + RANDOM.normal(size=(len(LABELS), 9))).astype(np.float32)


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_shares_of_batches_are_those_of_one_process(workers):
    images = np.array([bytes([row]) for row in range(20)], object)
    split = Split(images, np.zeros(20, np.int64))

    def prepare(content, seed):
        return tf.io.decode_raw(content, tf.uint8)

    def batches(share=range):
        found = evaluation_batches(split, prepare, batch_size=3, share=share)
        return [batch.numpy().ravel().tolist() for batch in found]

    whole = batches()
    assert whole[-1] == [18, 19, 19]
    shares = [batches(Workers(index, workers).share) for index in range(workers)]
    assert [batch for share in shares for batch in share] == whole


@pytest.mark.parametrize("pooling", [None, "mean"])
def test_scores_are_those_of_one_process(pooling):
    apart = (RANDOM.integers(0, 3, len(LABELS)),)
    task = RetrievalTask.of(LABELS, apart=apart, pooling=pooling)
    metrics = metrics_of(("recall_at_1", "map", "nmi", "uniformity"))
    alone = measure(EMBEDDINGS, task, metrics)
    results, exchange = together(lambda workers: measure(EMBEDDINGS, task, metrics, workers=workers))
    assert exchange.sizes
    for found in results:
        assert found.values == alone.values and found.query_count == alone.query_count
        np.testing.assert_array_equal(found.queries, alone.queries)
        for name, values in alone.per_query.items():
            np.testing.assert_array_equal(found.per_query[name], values)


def test_a_search_without_a_positive_is_an_error_of_all():
    task = RetrievalTask.of(np.arange(len(LABELS)))
    results, _ = together(lambda workers: measure(EMBEDDINGS, task, metrics_of("recall_at_1"), workers=workers))
    assert all("No query has one" in str(error) for error in results)


# Of 43 rows these are one block, of which two workers have nothing, and several.
@pytest.mark.parametrize("memory", [2**27, 1500])
def test_hard_neighbors_are_those_of_one_process(memory):
    alone = nearest_negatives(EMBEDDINGS, LABELS, 4, memory=memory)

    def task(workers):
        return nearest_negatives(EMBEDDINGS, LABELS, 4, memory=memory, workers=workers)

    results, exchange = together(task)
    for found in results:
        np.testing.assert_array_equal(found, alone)
    # Behind what the three tell each other: each row is found by one of them.
    assert sum(exchange.sizes[3:]) == alone.nbytes
