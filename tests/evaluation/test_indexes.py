"""Indexes: equal to exact ranks if they find everything, and otherwise compared with a literal count."""

import math

import faiss
import numpy as np
import pytest

from tests.evaluation.naive_ranks import naive_ranks
from tests.evaluation.ranks.test_positive_ranks import clustered, euclidean, near_ties
from tfdml import registry
from tfdml.evaluation import evaluate
from tfdml.evaluation.evaluate import measure
from tfdml.evaluation.indexes import ApproximateIndex
from tfdml.evaluation.indexes import index as index_module
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.queries import RetrievalTask

METRICS = ("recall_at_1", "recall_at_4", "precision_at_3", "r_precision", "map_at_r")
PERFECT = {"index_recall": 1.0, "index_short_lists": 0.0}


class Forgetful(ApproximateIndex):
    """Compares only with every second image of the gallery and finds at most `most` of them."""

    name = "forgetful"

    def __init__(self, most=1000):
        self.most = most

    def of_size(self, count):
        return self

    def create(self, dim, metric, sample):
        self.vectors = np.zeros((0, dim), np.float32)
        return self

    def add(self, vectors):
        self.vectors = np.concatenate([self.vectors, vectors])

    def search(self, queries, count):
        products = queries @ self.vectors.T
        products[:, 1::2] = -math.inf
        found = np.argsort(-products, axis=1, kind="stable")[:, : min(count, self.most, -(-len(self.vectors) // 2))]
        return None, np.pad(found, ((0, 0), (0, count - found.shape[1])), constant_values=-1)


def scores(index, embeddings, labels, *, metrics=METRICS, distance="cosine", **task):
    found = registry.create("index", index) if isinstance(index, str) else index
    return measure(embeddings, RetrievalTask.of(labels, **task), metrics_of(metrics), distance=distance, index=found)


def assert_equal_to_exact(index, *data, **options):
    found, exact = scores(index, *data, **options), scores("exact", *data, **options)
    # The last bit of a sum depends on the order of its terms.
    assert found.summary() == pytest.approx({**exact.summary(), **PERFECT}, rel=1e-14)
    np.testing.assert_array_equal(found.queries, exact.queries)
    for name, values in exact.per_query.items():
        np.testing.assert_allclose(found.per_query[name], values, rtol=1e-14, err_msg=name)


def part(labels, seed):
    """Queries and gallery that overlap, and cameras."""
    random = np.random.default_rng(seed)
    marks = {name: random.random(len(labels)) < 0.7 for name in ("queries", "gallery")}
    return marks | {"apart": [random.integers(0, 4, len(labels)), random.integers(0, 9, len(labels))]}


@pytest.mark.parametrize("index", ["ivf(lists=6, probes=6)", "hnsw(ef_search=400)", "flat"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("seed, classes", [(1, 60), (2, 3)])
@pytest.mark.few_by_day(4)
def test_an_index_that_finds_all_is_exact(index, distance, seed, classes):
    embeddings, labels = clustered(rows=300, classes=classes, seed=seed)
    embeddings[:3] = 0
    assert_equal_to_exact(index, embeddings, labels, distance=distance)
    assert_equal_to_exact(index, embeddings, labels, distance=distance, **part(labels, seed))
    assert_equal_to_exact(index, embeddings, labels, distance=distance, metrics=("recall_at_2", "recall_at_900"))


@pytest.mark.parametrize("kind", ["collapsed", "nearly collapsed", "duplicates", "scaled duplicates", "steps"])
def test_ties_at_the_end_of_a_list(kind):
    embeddings, labels = near_ties(kind, np.random.default_rng(0))
    for metrics in ("recall_at_1", METRICS):
        assert_equal_to_exact("ivf(lists=5, probes=5)", embeddings, labels, metrics=metrics)
        assert_equal_to_exact("ivf(lists=5, probes=5)", embeddings, labels, metrics=metrics, **part(labels, 3))
    if kind == "collapsed":
        assert evaluate(embeddings, labels, index="ivf")["recall_at_8"] == 0.0


@pytest.mark.parametrize("kind", ["offset", "large offset", "outlier", "lengths"])
def test_euclidean_lists_depend_neither_on_the_origin_nor_on_outliers(kind):
    embeddings, labels = euclidean(kind)
    assert_equal_to_exact("ivf(lists=5, probes=5)", embeddings, labels, distance="euclidean")


def test_duplicates_of_one_class_are_found():
    """The list of two images ends within a tie that contains only images of the query's class."""
    embeddings, labels = np.eye(5)[np.arange(60) % 5], np.arange(60) % 5
    assert evaluate(embeddings, labels, "recall_at_1", index="ivf(lists=1)")["recall_at_1"] == 1.0


def test_blocks_change_nothing(monkeypatch):
    embeddings, labels = clustered(rows=300)
    for module, name, value in (
        (index_module, "MEMORY", 20000),
        (index_module, "QUERIES", 7),
        (index_module, "ROWS", 100),
        (index_module, "PAIRS", 50),
    ):
        monkeypatch.setattr(module, name, value)
        assert_equal_to_exact("ivf(lists=5, probes=5)", embeddings, labels, **part(labels, 4))


@pytest.mark.parametrize("with_parts", [False, True])
def test_an_index_that_forgets_half_of_the_gallery(with_parts):
    """Ranks count only the images that the index knows. Images that it does not find count as misses."""
    embeddings, labels = clustered(rows=120, classes=9)
    task = part(labels, 5) if with_parts else {}
    gallery = task.get("gallery", np.ones(len(labels), bool))
    known = np.zeros(len(labels), bool)
    known[np.flatnonzero(gallery)[::2]] = True
    everything, among_known = (
        naive_ranks(embeddings, labels, **{**task, "gallery": marks}) for marks in (gallery, known)
    )
    found = scores(Forgetful(), embeddings, labels, **task)
    assert found.queries.tolist() == sorted(everything)
    for place, query in enumerate(found.queries.tolist()):
        ranks, size = among_known.get(query, []), len(everything[query])
        assert found.per_query["recall_at_4"][place] == any(rank <= 4 for rank in ranks)
        assert found.per_query["precision_at_3"][place] == sum(rank <= 3 for rank in ranks) / 3
        assert found.per_query["r_precision"][place] == sum(rank <= size for rank in ranks) / size
        precisions = [number / rank for number, rank in enumerate(ranks, 1) if rank <= size]
        assert found.per_query["map_at_r"][place] == pytest.approx(sum(precisions) / size)
    assert found.index.spec.startswith("forgetful(most=1000")
    assert found.index.recall == pytest.approx(naive_recall(embeddings, labels, task, gallery, known, everything))


def naive_recall(embeddings, labels, task, gallery, known, everything):
    """The share of each query's nearest images that the index knows, among those that the metrics use."""
    unit, shares = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), []
    for query, ranks in everything.items():
        counted = [
            row
            for row in np.flatnonzero(gallery)
            if row != query
            and not (labels[row] == labels[query] and any(key[row] == key[query] for key in task.get("apart", ())))
        ]
        nearest = sorted(counted, key=lambda row: -unit[query] @ unit[row])[: max(4, len(ranks))]
        shares.append(np.mean(known[nearest]))
    return np.mean(shares)


def test_lists_that_are_too_short_are_told():
    embeddings, labels = clustered(rows=120, classes=9)
    found = scores(Forgetful(most=5), embeddings, labels, metrics=("recall_at_4",)).summary()
    assert found["index_short_lists"] == 0.0
    # A list contains the query itself if the index knows it.
    found = scores(Forgetful(most=4), embeddings, labels, metrics=("recall_at_4",)).summary()
    assert found["index_short_lists"] == 0.5


def test_the_recall_is_of_a_sample(monkeypatch):
    embeddings, labels = clustered(rows=300)
    monkeypatch.setattr(index_module, "SAMPLE", 20)
    first, again = (scores(Forgetful(), embeddings, labels).summary()["index_recall"] for _ in range(2))
    monkeypatch.setattr(index_module, "SAMPLE", 1000)
    assert first == again != scores(Forgetful(), embeddings, labels).summary()["index_recall"]


def test_more_probes_find_more():
    embeddings, labels = clustered(rows=2000, classes=300, dim=12)
    recalls = [
        evaluate(embeddings, labels, index=f"ivf(lists=40, probes={probes})")["index_recall"] for probes in (1, 8, 40)
    ]
    assert recalls[0] < recalls[1] < recalls[2] == 1.0
    assert evaluate(embeddings, labels, index="ivf(lists=40, probes=1)")["index_recall"] == recalls[0]


def test_memory_mapped_embeddings_give_the_same(tmp_path):
    embeddings, labels = clustered(rows=300)
    np.save(tmp_path / "embeddings.npy", embeddings.astype(np.float16))
    mapped = np.load(tmp_path / "embeddings.npy", mmap_mode="r")
    found, expected = (evaluate(each, labels, METRICS, index="ivf") for each in (mapped, np.array(mapped)))
    assert found == expected


@pytest.mark.parametrize("spec", ["ivf", "ivf(lists=2)", "hnsw", "flat", "pq"])
def test_galleries_of_a_few_images(spec):
    labels = [0, 0, 1, 1, 2]
    assert evaluate(np.eye(3)[labels], labels, "recall_at_1", index=spec)["queries"] == 4


def test_numbers_of_lists_and_probes():
    ivf = registry.create("index", "ivf")
    assert repr(ivf) == "ivf(lists=None, probes=64)"
    assert [repr(ivf.of_size(count)) for count in (5, 390, 1_000_000)] == [
        "ivf(lists=1, probes=1)",
        "ivf(lists=10, probes=10)",
        "ivf(lists=4000, probes=64)",
    ]


def test_compressed_vectors_are_near_the_exact_ones():
    pq = registry.create("index", "pq")
    assert [repr(pq.of_size(count)) for count in (5, 390, 1_000_000)] == [
        "pq(subvectors=None, bits=1, lists=1, probes=1, rescore=0, stored='float16')",
        "pq(subvectors=None, bits=3, lists=10, probes=10, rescore=0, stored='float16')",
        "pq(subvectors=None, bits=8, lists=4000, probes=64, rescore=0, stored='float16')",
    ]
    vectors = np.random.default_rng(0).normal(size=(800, 12)).astype(np.float32)
    for spec, parts in (("pq", 3), ("pq(subvectors=6, bits=6)", 6)):
        index = registry.create("index", spec).of_size(800).create(12, faiss.METRIC_L2, lambda count: vectors[:count])
        index.add(vectors)
        assert index.pq.M == parts
        found = index.search(vectors[:200], 10)[1]
        assert np.mean([row in rows for row, rows in enumerate(found)]) > 0.9
    with pytest.raises(ValueError, match=r"subvectors must divide the dimension .* which is 12. .*pq\(subvectors=5\)"):
        registry.create("index", "pq(subvectors=5)").of_size(800).create(12, faiss.METRIC_L2, None)
    with pytest.raises(ValueError, match=r"pq\(bits=8\) needs at least 256 images in the gallery, which has 100"):
        registry.create("index", "pq(bits=8)").of_size(100)


@pytest.mark.parametrize(
    "spec, message",
    [
        ("ivf(lists=9)", r"ivf\(lists=9\) needs at least 9 images in the gallery, which has 4"),
        ("ivff", "Unknown index 'ivff'. Did you mean 'ivf'"),
    ],
)
def test_wrong_indexes_are_named(spec, message):
    with pytest.raises(ValueError, match=message):
        evaluate(np.eye(4), [0, 0, 1, 1], index=spec)


def test_metrics_of_all_ranks_are_refused():
    for name in ("map", "mrr", "map(trapezoid=True)"):
        with pytest.raises(ValueError, match=f"{metrics_of(name)[0].name} needs the ranks of all positives.*hnsw"):
            evaluate(np.eye(4), [0, 0, 1, 1], ("recall_at_1", name), index="hnsw")
    # The other metrics need no ranks.
    found = evaluate(np.eye(4), [0, 0, 1, 1], ("nmi", "effective_rank"), index="hnsw")
    assert set(found) == {"nmi", "effective_rank"}
