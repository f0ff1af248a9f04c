"""Measures filters of hard negatives: `python -m benchmarks.studies.corpus_negatives cars=cars.npz,teacher.npz`.

The .npz files are from `benchmarks.studies.frozen_features`: features of a model, and of a teacher. Each class is
divided at random into two classes, so that the other half of an image's class are its false negatives. The command
prints, for each filter of the sampler `corpus_negatives`, the share of false negatives among its negatives, their mean
similarity to the image, and the share of images without any, over 5 divisions. It writes
docs/records/corpus_negatives.json; without files, it prints the recorded table.
"""

from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from benchmarks.studies.feature_files import record_of
from pipelines.sampling.corpus import repeated, without_false
from tfdml.neighbors.nearest import NO_NEIGHBOR, nearest_negatives, unit_length

RECORD = Path(__file__).parents[2] / "docs/records/corpus_negatives.json"
NEIGHBORS, RANKS, TIMES = 10, 100, 5
# Name of a filter to its first rank, its margin, and the margin of its teacher.
FILTERS = {
    "`hard_neighbors`: none": (0, None, None),
    "`ranks=(10, 100)`": (10, None, None),
    "`ranks=(30, 100)`": (30, None, None),
    "`ranks=(0, 100), margin=0.0`": (0, 0.0, None),
    "`ranks=(0, 100), margin=0.05`": (0, 0.05, None),
    "`ranks=(0, 100), margin=0.1`": (0, 0.1, None),
    "`ranks=(0, 100), teacher=...`": (0, None, 0.0),
    "`ranks=(0, 100), margin=0.05, teacher=...`": (0, 0.05, 0.0),
}


def measured(embeddings, taught, labels, times=TIMES, seed=0):
    """Returns means over divisions by filter: shares of false negatives, similarities, and shares of images without."""
    random, vectors = np.random.default_rng(seed), unit_length(np.asarray(embeddings, np.float32))
    found = {name: [] for name in FILTERS}
    for _ in range(times):
        order = random.permutation(len(labels))
        halves = np.empty(len(labels), np.int64)
        for label in np.unique(labels):
            rows = order[labels[order] == label]
            halves[rows] = 2 * label + (np.arange(len(rows)) % 2)
        nearest = nearest_negatives(vectors, halves, RANKS)
        for name, (first, margin, teacher_margin) in FILTERS.items():
            models = [(vectors, margin)] if margin is not None else []
            models += [(taught, teacher_margin)] if teacher_margin is not None else []
            kept = repeated(without_false(nearest[:, first:], halves, models), NEIGHBORS)
            there = kept[:, 0] != NO_NEIGHBOR
            false = labels[kept[there]] == labels[there][:, None]
            similar = np.einsum("nd,nkd->nk", vectors[there], vectors[kept[there]])
            found[name].append([false.mean(), similar.mean(), 1 - there.mean()])
    return {name: np.mean(values, axis=0).tolist() for name, values in found.items()}


def table(record):
    """Returns the Markdown table of a record."""
    heads = [f"{name}: {what}" for name in record for what in ("false negatives", "similarity", "images without")]
    names = next(iter(record.values()))
    rows = [[name, *(text for found in record.values() for text in _cells(*found[name]))] for name in names]
    return markdown(["Filter", *heads], rows)


def _cells(false, similarity, without):
    return f"{false:.1%}", f"{similarity:.3f}", f"{without:.1%}"


def measured_of_files(name, paths):
    """Returns the entry of the record for the files of a model's and a teacher's features, separated by a comma."""
    own, taught = map(np.load, paths.split(","))
    return {name: measured(own["embeddings"], taught["embeddings"], own["labels"])}


def main():
    print(table(record_of(__doc__, RECORD, measured_of_files, files="MODEL,TEACHER")))


if __name__ == "__main__":
    main()
