"""All pairs, one by one."""

import itertools

import numpy as np


def naive_pairs(embeddings, labels, queries=None, gallery=None, apart=(), distance="cosine"):
    """Returns the scores of pairs and whether each is of one class. Each pair of rows occurs once."""
    every = np.ones(len(labels), bool)
    queries, gallery = (every if marks is None else np.asarray(marks) for marks in (queries, gallery))
    scores, same, classes = [], [], []
    for i, j in itertools.combinations(range(len(labels)), 2):
        if not ((queries[i] and gallery[j]) or (queries[j] and gallery[i])):
            continue
        alike = labels[i] == labels[j]
        if alike and any(column[i] == column[j] for column in apart):
            continue
        x, y = (np.asarray(embeddings[row], np.float64) for row in (i, j))
        cosine = x @ y / np.sqrt(x @ x) / np.sqrt(y @ y)
        scores.append(cosine if distance == "cosine" else -np.sqrt(np.sum((x - y) ** 2)))
        same.append(alike)
        classes.append((labels[i], labels[j]))
    return np.array(scores), np.array(same), np.array(classes)


def example(seed=0, rows=110, classes=16, dim=6, spread=0.8):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows) * 7 + 2
    centers = random.normal(size=(7 * classes + 2, dim))
    return (centers[labels] + spread * random.normal(size=(rows, dim))).astype(np.float32), labels
