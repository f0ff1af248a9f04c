"""Ranks, computed literally with a sorted list for each query."""

import numpy as np


def naive_ranks(embeddings, labels, *, queries=None, gallery=None, apart=(), distance="cosine", tie=1e-6):
    """Returns `{query row: ranks of its positives}`. Equally similar negatives rank first."""
    embeddings = np.asarray(embeddings, np.float64)
    if distance == "cosine":
        lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
        embeddings = embeddings / np.where(lengths > 0, lengths, 1)
    else:
        embeddings = embeddings - np.median(embeddings, axis=0)
    squares = np.sum(embeddings**2, axis=1)

    def similarity(query, row):
        if distance == "cosine":
            return embeddings[query] @ embeddings[row]
        return -np.sum((embeddings[query] - embeddings[row]) ** 2) / 2

    def lowest(query, row):
        scale = 1.0 if distance == "cosine" else (squares[query] + squares[row]) / 2
        return similarity(query, row) - tie * scale

    everything = np.ones(len(labels), bool)
    queries, gallery = (np.flatnonzero(everything if marks is None else marks) for marks in (queries, gallery))
    return ranks_by(similarity, labels, queries, gallery, apart=apart, lowest=lowest)


def ranks_by(similarity, labels, queries, gallery, *, apart=(), lowest=None):
    """The same, from one function of two rows for all images and one for positives, which subtracts a tie."""
    lowest = lowest or (lambda query, row: similarity(query, row) - 1e-6)
    found = {}
    for query in queries:
        positives, negatives = [], []
        for row in gallery:
            if labels[row] != labels[query]:
                negatives.append(similarity(query, row))
            elif row != query and not any(key[row] == key[query] for key in apart):
                positives.append(lowest(query, row))
        if positives:
            negatives = np.array(negatives)
            ahead = [np.sum(negatives >= each) for each in sorted(positives, reverse=True)]
            found[int(query)] = [int(count) + place for place, count in enumerate(ahead, 1)]
    return found
