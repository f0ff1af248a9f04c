"""The shares that workers compute make the same whole as one process alone."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.build import evaluation_batches
from pipelines.datasets import Split
from tests.thread_workers import together
from tfdml.evaluation.evaluate import measure
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.queries import RetrievalTask
from tfdml.neighbors.nearest import nearest_negatives
from tfdml.runtime.workers import Workers

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
    assert all("no query has one" in str(error) for error in results)


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
