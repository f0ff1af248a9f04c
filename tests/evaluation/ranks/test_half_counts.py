"""Ranks with half-precision products equal ranks with float32 exactly, and which processors use them."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.evaluation.ranks.test_positive_ranks import clustered, near_ties
from tfdml.evaluation.evaluate import measure
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.ranks import counts, half_counts
from tfdml.evaluation.ranks import ranks as ranks_module
from tfdml.evaluation.ranks.half_counts import HalfProducts
from tfdml.evaluation.ranks.ranks import depths_of

SETS = [
    ("recall_at_1", "recall_at_8"),
    ("recall_at_1", "mrr"),
    ("recall_at_20", "r_precision", "map_at_r", "precision_at_3"),
]


@pytest.fixture
def half(monkeypatch):
    """Uses half precision on any processor, even if much is in doubt. Set its values to change that."""

    def use(*, is_fast=True, few=1.0, most_left=1.0, tile=70, trial=16):
        monkeypatch.setattr(half_counts, "half_products_are_fast", lambda: is_fast)
        monkeypatch.setattr(half_counts, "FEW_IN_DOUBT", few)
        for name, value in {"TILE": tile, "TRIAL": trial, "MOST_LEFT": most_left}.items():
            monkeypatch.setattr(ranks_module, name, value)

    use()
    return use


def values(embeddings, task, metrics, **options):
    return measure(embeddings, task, metrics_of(metrics), **options).per_query


def check_equal(half, embeddings, task, **options):
    """Checks the values of each set of metrics."""
    for metrics in SETS:
        half(is_fast=False)
        expected = values(embeddings, task, metrics)
        half(**options)
        found = values(embeddings, task, metrics)
        assert {name: each.tobytes() for name, each in found.items()} == {
            name: each.tobytes() for name, each in expected.items()
        }


def data(kind):
    random = np.random.default_rng(3)
    if kind == "random":
        return random.normal(size=(200, 24)), random.integers(0, 9, 200)
    if kind == "near the mean":
        return 1.0 + 0.05 * random.normal(size=(200, 24)), random.integers(0, 9, 200)
    # Queries have from several to 60 positives.
    if kind in ("clustered", "few classes"):
        return clustered(rows=200, classes=25 if kind == "clustered" else 3, dim=24, seed=1, noise=1.6)
    return near_ties(kind, random)


KINDS = ["random", "clustered", "few classes", "near the mean"]
TIES = ["collapsed", "nearly collapsed", "duplicates", "scaled duplicates", "steps"]


@pytest.mark.parametrize("kind", KINDS + TIES)
def test_values_are_those_of_float32(kind, half):
    embeddings, labels = data(kind)
    check_equal(half, embeddings, RetrievalTask.of(labels))


@pytest.mark.parametrize("kind", ["clustered", "duplicates"])
def test_what_half_precision_leaves_is_counted_in_float32(kind, half):
    """Some queries, all queries, and all blocks after one that leaves much in doubt."""
    embeddings, labels = data(kind)
    rows = np.arange(200)
    task = RetrievalTask.of(labels, queries=rows % 3 > 0, gallery=rows % 4 > 0, apart=[rows % 5])
    for options in ({"few": 0.05}, {"few": -1.0}, {"few": 0.05, "most_left": 0.1}):
        check_equal(half, embeddings, task, **options)


@pytest.mark.parametrize("kind", ["clustered", "few classes", "steps"])
@pytest.mark.parametrize("rounding", [np.floor, np.ceil, np.round])
def test_products_wrong_by_the_bound_change_nothing(kind, rounding, half, monkeypatch):
    """Moves each product by most of its error bound, in either direction, and rounds it either way."""
    random = np.random.default_rng(0)

    def wrong(products, queries, rows):
        exact = queries.astype(np.float64) @ products.vectors[rows].T.astype(np.float64)
        moved = exact + 0.99 * products.errors(queries)[:, None] * random.choice([-1, 1], exact.shape)
        parts, exponents = np.frexp(moved)
        return integers(np.ldexp(rounding(parts * 2**8), exponents - 8))

    monkeypatch.setattr(HalfProducts, "__call__", wrong)
    embeddings, labels = data(kind)
    check_equal(half, embeddings, RetrievalTask.of(labels))


def integers(numbers):
    """The upper 16 bits of float32."""
    return (numbers.astype(np.float32).view(np.int32) >> 16).astype(np.int16)


def vectors_of(kind, dim):
    """Vectors no longer than 1, one of zeros."""
    random = np.random.default_rng(dim)
    if kind == "random":
        vectors = random.normal(size=(60, dim))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    else:
        # All nearly halfway between two bfloat16 numbers, on the same side, so that rounding errors add up.
        vectors = np.full((60, dim), (1 + 2.0**-8 - 2.0**-18) * 2.0 ** -np.ceil(np.log2(dim + 1) / 2))
        vectors *= random.choice([-1, 1], (60, 1))
    vectors[7] = 0.0
    return vectors.astype(np.float32)


@pytest.mark.parametrize("dim", [1, 33, 1000, 3000])
@pytest.mark.parametrize("kind", ["random", "halfway"])
def test_similarities_are_within_the_bounds(kind, dim):
    vectors = vectors_of(kind, dim)
    products = HalfProducts(vectors)
    exact = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    found = products(vectors, slice(0, 60))
    for row, (low, high), similarities in zip(found, products.bounds(vectors, list(exact)), exact, strict=True):
        for threshold, lowest, sure in zip(similarities, low, high, strict=True):
            assert lowest <= 0 or np.all(similarities[row < lowest] < threshold)
            assert np.all(similarities[row >= sure] >= threshold)
    rounded = vectors.astype(tf.bfloat16.as_numpy_dtype).astype(np.float64)
    wrong, errors = np.abs(rounded @ rounded.T - exact).max(axis=1), products.errors(vectors)
    assert np.all(wrong <= errors)
    if kind == "halfway" and dim == 1000:
        # No wider than it must be.
        assert wrong.max() > 0.95 * errors.max()


def test_ranks_within_the_depth_are_exact_and_others_are_beyond(half):
    embeddings, labels = data("clustered")
    task = RetrievalTask.of(labels)
    depths = depths_of(metrics_of(("recall_at_9", "precision_at_4")))
    pairs = zip(
        *(
            [(row, ranks[ranks > 0]) for block in blocks for row, ranks in zip(block.rows, block.ranks, strict=True)]
            for blocks in (
                ranks_module.positive_ranks(embeddings, task),
                ranks_module.positive_ranks(embeddings, task, depths=depths),
            )
        ),
        strict=True,
    )
    beyond = 0
    for (row, exact), (same, ranks) in pairs:
        depth = np.array([9] + [4] * (len(exact) - 1))
        assert row == same and np.array_equal(np.minimum(ranks, depth + 1), np.minimum(exact, depth + 1))
        beyond += np.count_nonzero(ranks > depth)
    assert beyond > 100


def test_only_ranks_up_to_a_depth_are_counted_in_half_precision(half, monkeypatch, tmp_path):
    embeddings, labels = data("clustered")
    used = []
    plain = HalfProducts.__call__
    monkeypatch.setattr(HalfProducts, "__call__", lambda *args: used.append("half") or plain(*args))
    np.save(tmp_path / "embeddings.npy", embeddings.astype(np.float32))
    mapped = np.load(tmp_path / "embeddings.npy", mmap_mode="r")
    task = RetrievalTask.of(labels)

    def uses_half(*metrics, embeddings=embeddings, **options):
        used.clear()
        values(embeddings, task, metrics, **options)
        return bool(used)

    assert uses_half("recall_at_1", "mrr") and uses_half("map_at_r")
    assert not uses_half("recall_at_1", "map")
    assert not uses_half("recall_at_1", distance="euclidean")
    assert not uses_half("recall_at_1", embeddings=mapped)
    # After the first block, which leaves more in doubt than is worthwhile.
    half(few=-1.0, most_left=0.5, tile=200)
    assert uses_half("mrr") and len(used) == 1


def test_depths_are_the_largest_that_any_metric_needs():
    depths = depths_of(metrics_of(("recall_at_100", "r_precision", "precision_at_5")))
    first, others = depths(np.array([2, 7]))
    assert first.tolist() == [100, 100] and others.tolist() == [5, 7]
    assert depths_of(metrics_of(("recall_at_1", "map"))) is None
    first, others = depths_of(metrics_of(("mrr",)))(np.array([3]))
    assert first.tolist() == [np.inf] and others.tolist() == [0]


@pytest.fixture
def is_fast(monkeypatch, tmp_path):
    """Checks a processor that has the right instructions."""
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx512_bf16 avx512f\n")
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    monkeypatch.setattr(half_counts, "gpus", list)
    monkeypatch.setattr(half_counts, "CPU_FILE", str(tmp_path / "cpuinfo"))
    return half_counts.half_products_are_fast.__wrapped__


def test_processors_with_the_instructions_are_fast(is_fast, tmp_path):
    assert is_fast()
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx512f\n")
    assert not is_fast()


def test_gpus_unknown_systems_and_those_without_onednn_use_float32(is_fast, monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert not is_fast()
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    monkeypatch.setattr(half_counts, "gpus", lambda: ["/GPU:0"])
    assert not is_fast()
    monkeypatch.setattr(half_counts, "gpus", list)
    assert is_fast()
    monkeypatch.setattr(half_counts, "CPU_FILE", "no such file")
    assert not is_fast()


def test_sums_in_bfloat16_are_noticed(is_fast, monkeypatch):
    assert is_fast()
    monkeypatch.setattr(tf, "matmul", lambda *args, **options: tf.fill([64, 64], tf.cast(256, tf.bfloat16)))
    assert not is_fast()


def test_tensorflow_is_used_where_it_is_loaded_or_worth_it(monkeypatch):
    vectors = np.zeros((40, 8), np.float32)
    assert counts.may_use_tensorflow(vectors)
    monkeypatch.delitem(sys.modules, "tensorflow")
    assert not counts.may_use_tensorflow(vectors)
    monkeypatch.setattr(counts, "MANY", 40 * 40 * 8)
    assert counts.may_use_tensorflow(vectors) and not counts.may_use_tensorflow(vectors[:39])
