"""Searches among some rows of an index find what comparing with these rows finds."""

import faiss
import numpy as np
import pytest

from tfdml.serving.index.folder import index_of_kind
from tfdml.serving.index.stores import folder_store
from tfdml.serving.index.stores.folder_store import Selection

ROWS, DIM, K = 3000, 16, 5
KINDS = ["flat", "ivf(lists=20, probes=4)", "hnsw(ef_search=30)", "pq(lists=20, probes=4, subvectors=8)"]


@pytest.fixture(scope="module")
def vectors():
    found = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture(scope="module", params=KINDS, ids=["flat", "ivf", "hnsw", "pq"])
def index(request, vectors):
    made = index_of_kind(request.param).of_size(ROWS).create(DIM, faiss.METRIC_INNER_PRODUCT, lambda count: vectors)
    made.add(vectors)
    return made


@pytest.mark.parametrize("share", [0.8, 0.1, 0.01, 0.001])
def test_a_mask_is_honoured(index, vectors, share, monkeypatch):
    monkeypatch.setattr(folder_store, "ROWS", 50)
    mask = np.random.default_rng(1).random(ROWS) < share
    chosen, queries = Selection.of(mask), vectors[:100]
    products = np.where(mask, queries @ vectors.T, -np.inf)
    best = np.argsort(-products, axis=1)[:, : min(K, mask.sum())]
    similarities, rows = chosen.search(index, queries, K)
    assert rows.shape == best.shape and mask[rows[rows >= 0]].all()
    shared = np.mean([len(set(one) & set(other)) / len(one) for one, other in zip(rows, best, strict=True)])
    if chosen.is_exact(index):
        np.testing.assert_array_equal(np.sort(rows), np.sort(best))
        np.testing.assert_allclose(similarities, np.take_along_axis(products, rows, 1), atol=1e-5)
    # An approximate search finds about as many as without a mask.
    everything = np.argsort(-(queries @ vectors.T), axis=1)[:, :K]
    pairs = zip(Selection.of(np.ones(ROWS, bool)).search(index, queries, K)[1], everything, strict=True)
    plain = np.mean([len(set(one) & set(other)) / K for one, other in pairs])
    assert shared >= plain - 0.1
    assert chosen.is_few == (share <= 0.01)


def test_no_row_and_all_rows(index, vectors):
    similarities, rows = Selection.of(np.zeros(ROWS, bool)).search(index, vectors[:3], K)
    assert similarities.shape == rows.shape == (3, 0)
    assert Selection.of(np.ones(ROWS, bool)).mask is None
