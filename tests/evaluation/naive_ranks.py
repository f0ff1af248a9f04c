"""Ranks word by word: a sorted list for each query."""

import numpy as np


def naive_ranks(embeddings, labels, *, queries=None, gallery=None, apart=(), distance="cosine", tie=1e-6):
    """Returns `{query row: ranks of its positives}`; negatives that are as similar rank first."""
    embeddings = np.asarray(embeddings, np.float64)
    if distance == "cosine":
        lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
        embeddings = embeddings / np.where(lengths > 0, lengths, 1)
    else:
        embeddings = embeddings / np.linalg.norm(embeddings, axis=1).max()
    everything = np.ones(len(labels), bool)
    found = {}
    for query in np.flatnonzero(everything if queries is None else queries):
        positives, negatives = [], []
        for row in np.flatnonzero(everything if gallery is None else gallery):
            if distance == "cosine":
                similarity = embeddings[query] @ embeddings[row]
            else:
                similarity = -np.sum((embeddings[query] - embeddings[row]) ** 2) / 2
            if labels[row] != labels[query]:
                negatives.append(similarity)
            elif row != query and not any(key[row] == key[query] for key in apart):
                positives.append(similarity)
        if positives:
            negatives = np.array(negatives)
            ahead = [np.sum(negatives >= each - tie) for each in sorted(positives, reverse=True)]
            found[int(query)] = [int(count) + place for place, count in enumerate(ahead, 1)]
    return found
