import numpy as np
import pytest
import tensorflow as tf

from pipelines.datasets import Split
from pipelines.sampling import Given

IMAGES = np.array([f"{number}.jpg" for number in range(12)], dtype=object)
PAIRS = np.array([[0, 1, -1], [0, -1, 2], [3, 4, -1], [5, -1, 6], [7, 8, -1], [9, 10, -1], [9, -1, 11]])
TRIPLETS = np.array([[0, 1, 2], [0, 1, 3], [4, 5, 6], [7, 8, 9], [10, 11, 0]])


def bound(relations, count):
    sampler = Given(count)
    sampler.bind_split(Split(IMAGES, np.arange(12), relations=relations))
    return sampler


def drawn(sampler, steps, seed=3):
    tables, steps = sampler.tables(), tf.constant(steps, tf.int64)
    return sampler.rows(seed, steps, tables).numpy(), sampler.relevance(
        tf.constant(seed, tf.int64), steps, tables
    ).numpy()


@pytest.mark.parametrize("relations", [PAIRS, TRIPLETS], ids=["pairs", "triplets"])
def test_only_what_is_given_is_known(relations):
    sampler = bound(relations, 3)
    assert sampler.parts == (2 if relations is PAIRS else 3)
    rows, known = drawn(sampler, range(14))
    assert rows.shape == (14, 3 * sampler.parts) and known.shape == (14, 3 * sampler.parts, 3 * sampler.parts)
    others = [(row[0], row[place], same) for row in relations.tolist() for place, same in ((1, 1), (2, 0))]
    table = {(anchor, other): same for anchor, other, same in others if other >= 0}
    times = {}
    for batch, values in zip(rows, known, strict=True):
        for i, one in enumerate(batch):
            for j, other in enumerate(batch):
                if i % 3 == j % 3 and 0 in (i // 3, j // 3) and i != j:
                    pair = (one, other) if i < j else (other, one)
                    assert values[i, j] == table[pair]
                    times[pair] = times.get(pair, 0) + (i < j)
                else:
                    assert values[i, j] == -1
    counts = list(times.values()) if relations is PAIRS else []
    assert set(times) == set(table) and (not counts or max(counts) - min(counts) <= 1)


def test_what_does_not_fit_is_told(caplog):
    with pytest.raises(ValueError, match=r"given\(count=8\) needs that many training pairs. Received: 7"):
        bound(PAIRS, 8)
    with pytest.raises(ValueError, match="needs a dataset with explicit pairs"):
        Given(2).bind_split(Split(IMAGES, np.arange(12)))
    bound(PAIRS[[0, 2, 4]], 2)
    assert "has no pair that is different" in caplog.text
