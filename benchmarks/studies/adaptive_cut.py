"""Compares rules that cut lists of neighbors: `python -m benchmarks.studies.adaptive_cut --embeddings=FOLDER`.

It reads all .npz files in a folder, each with `embeddings` and `labels`. Every image of half of the classes is a query
for its nearest neighbors in this half. The lists are cut by a similarity threshold, at a fixed length, and at the
largest drop in similarity (`tfdml.search --adaptive`). The threshold and the length have the highest F1 on the other
half of the classes; the largest drop needs no fitting. It prints a Markdown table with the mean precision, recall and
F1 over the queries, in which an empty list counts as 0. The best cut of each list uses the labels and is an upper bound
for any rule.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from tfdml.files.embeddings import EmbeddingFiles
from tfdml.serving.index.searcher import kept

HEADS = ["embeddings", "cut", "neighbors", "precision", "recall", "F1"]
THRESHOLDS = np.linspace(0, 1, 201)


def lists_of(embeddings, labels, most):
    """Returns the similarities of the nearest neighbors, which of them are right, and the number of right images."""
    vectors = np.asarray(embeddings, np.float32)
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    similarities, right, count = [], [], min(most + 1, len(labels) - 1)
    for start in range(0, len(labels), 512):
        products = vectors[start : start + 512] @ vectors.T
        rows = np.arange(len(products))
        products[rows, start + rows] = -np.inf
        nearest = np.argpartition(-products, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(products, nearest, axis=1), axis=1, kind="stable")
        nearest = np.take_along_axis(nearest, order, axis=1)
        similarities.append(np.take_along_axis(products, nearest, axis=1))
        right.append(labels[nearest] == labels[start : start + 512, None])
    sizes = np.unique(labels, return_counts=True)[1][np.unique(labels, return_inverse=True)[1]]
    return np.concatenate(similarities), np.concatenate(right), sizes - 1


def scores_of(lengths, right, totals):
    """Returns the mean length, precision, recall and F1 of lists, over the queries with a right image."""
    found = np.append(np.zeros([len(right), 1], int), np.cumsum(right, axis=1), axis=1)[np.arange(len(right)), lengths]
    precision, recall = found / np.maximum(lengths, 1), found / np.maximum(totals, 1)
    f1 = 2 * found / np.maximum(lengths + totals, 1)
    return np.mean([lengths, precision, recall, f1], axis=1, where=totals > 0)


def cuts(fit, test):
    """Returns a dictionary from the name of each rule to the lengths `[Q]` of its lists."""
    (similarities, right, totals), (measured, hits, sizes) = fit, test
    most = similarities.shape[1] - 1
    f1 = [scores_of((similarities[:, :most] >= each).sum(axis=1), right, totals)[3] for each in THRESHOLDS]
    threshold = THRESHOLDS[int(np.argmax(f1))]
    f1 = [scores_of(np.full(len(right), each), right, totals)[3] for each in range(1, most + 1)]
    length = 1 + int(np.argmax(f1))
    found = np.append(np.zeros([len(hits), 1], int), np.cumsum(hits, axis=1), axis=1)
    best = np.argmax(2 * found / np.maximum(np.arange(found.shape[1]) + sizes[:, None], 1), axis=1)
    reach = measured.shape[1] - 1
    return {
        f"threshold {threshold:.3f}": (measured[:, :reach] >= threshold).sum(axis=1),
        f"the {length} nearest": np.full(len(measured), min(length, reach)),
        "largest fall": np.array([min(kept(each), reach) for each in measured]),
        "best of each list": np.minimum(best, reach),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embeddings", required=True, type=Path, help="Folder of .npz files, or one file.")
    parser.add_argument("--k", type=int, default=50, help="Length of the longest list.")
    parser.add_argument("--seed", type=int, default=0, help="Seed that decides which classes fit the threshold.")
    given = parser.parse_args()
    paths = sorted(given.embeddings.glob("*.npz")) if given.embeddings.is_dir() else [given.embeddings]
    if not paths:
        sys.exit(f"--embeddings={given.embeddings} must be an .npz file or a folder with .npz files.")
    table = []
    for path in paths:
        file = EmbeddingFiles.read(str(path))
        classes = np.random.default_rng(given.seed).permutation(np.unique(file.labels))
        halves = [np.isin(file.labels, half) for half in (classes[: len(classes) // 2], classes[len(classes) // 2 :])]
        fit, test = (lists_of(file.embeddings[half], file.labels[half], given.k) for half in halves)
        for name, lengths in cuts(fit, test).items():
            table.append([path.stem, name, *(f"{value:.3f}" for value in scores_of(lengths, *test[1:]))])
    print(markdown(HEADS, table))


if __name__ == "__main__":
    main()
