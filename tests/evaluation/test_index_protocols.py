"""Indexes in protocols and on the command line."""

import json

import numpy as np
import pytest

from tests.commands import assert_one_error, run
from tests.evaluation.ranks.test_positive_ranks import clustered
from tests.evaluation.test_protocols import rows_of
from tfdml import registry
from tfdml.evaluation.protocols import protocol_of

CHEAP = "metrics=('recall_at_1', 'recall_at_5', 'nmi')"
ALL_LISTS = "index='ivf(lists=3, probes=3)'"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["self_retrieval", "query_gallery", "random_gallery"])
@pytest.mark.few_by_day(1)
def test_protocols_take_an_index(name):
    embeddings, labels = clustered(rows=200, classes=20)
    rows = rows_of(labels, cameras=np.arange(200) % 3)
    exact, indexed, hasty = (
        registry.create("protocol", f"{name}({CHEAP}{more})").scores(embeddings, rows)
        for more in ("", f", {ALL_LISTS}", ", index='ivf(lists=12, probes=1)'")
    )
    assert exact.index is None and "index_recall" not in exact.summary()
    assert indexed.summary() == {**exact.summary(), "index_recall": 1.0, "index_short_lists": 0.0}
    assert hasty.index.spec == "ivf(lists=12, probes=1)" and 0.1 < hasty.index.recall < 0.95
    # In a gallery of 20 images, no list has five.
    assert hasty.index.short_lists == (1.0 if name == "random_gallery" else 0.0)
    assert hasty.values["nmi"] == exact.values["nmi"]


def test_the_index_and_the_metrics_can_be_replaced():
    protocol = protocol_of("query_gallery", ("recall_at_1",), "hnsw(m=8)")
    assert repr(protocol.index) == "hnsw(m=8, ef_construction=100, ef_search=100)"
    assert repr(protocol.with_index("exact").index) == "exact()"
    assert repr(protocol.with_metrics(("map_at_r",)).index) == repr(protocol.index)
    assert protocol_of("query_gallery(index='ivf')", ("recall_at_1",)).index.is_approximate


@pytest.mark.parametrize("arguments", [("query_gallery", (), "ivf"), ("query_gallery(index='ivf')", ())])
def test_a_protocol_whose_metrics_need_all_ranks_is_refused_at_once(arguments):
    with pytest.raises(ValueError, match=r"The metric map needs the ranks of all positives.*or use index='exact'"):
        protocol_of(*arguments)


def test_no_reranking_with_an_index():
    with pytest.raises(ValueError, match="A reranking needs the whole gallery, not index='hnsw'"):
        registry.create("protocol", "self_retrieval(reranking='k_reciprocal', index='hnsw')")


def test_equal_protocols_look_alike():
    """`tfdml.compare` compares them as strings."""
    for arguments in ("index='ivf(lists=4)'", "reranking='query_expansion(k=4)'"):
        one, other = (registry.create("protocol", f"self_retrieval({arguments})") for _ in range(2))
        changed = registry.create("protocol", f"self_retrieval({arguments.replace('4', '5')})")
        texts = [f"{each.index} {each.reranking}" for each in (one, other, changed)]
        assert texts[0] == texts[1] != texts[2]


def test_the_command_says_what_was_searched(tmp_path):
    embeddings, labels = clustered(rows=200, classes=20)
    np.save(tmp_path / "x.npy", embeddings.astype(np.float32))
    np.save(tmp_path / "y.npy", labels)
    files = [f"--embeddings={tmp_path}/x.npy", f"--labels={tmp_path}/y.npy", "--metrics=recall_at_1,map_at_r"]
    found = {}
    for index in ("exact", "ivf(lists=3, probes=3)"):
        done = run("tfdml.evaluate", *files, f"--index={index}")
        assert done.returncode == 0, done.stderr
        found[index] = json.loads(done.stdout.splitlines()[-1])
    exact, indexed = found.values()
    assert "index" not in exact
    added = {"index": "ivf(lists=3, probes=3)", "index_recall": 1.0, "index_short_lists": 0.0}
    assert indexed == pytest.approx({**exact, **added})
    deep = [*files[:2], "--metrics=recall_at_1,map", "--index=hnsw"]
    assert_one_error(run("tfdml.evaluate", *deep), "The metric map needs", "hnsw(m=32")
