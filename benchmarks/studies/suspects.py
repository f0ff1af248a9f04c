"""Counts the wrong labels that `tfdml.suspects` finds: `python -m benchmarks.studies.suspects --embeddings=FOLDER`.

It reads all .npz files in a folder, each with `embeddings` and `labels`, and exchanges 5% of the labels with labels of
other classes, several times with different seeds. Precision is the share of suspects with an exchanged label, and
recall is the share of exchanged labels among the suspects. At rank E, where E is the number of exchanged labels, both
are computed for the E most doubtful images. Files with the same labels are also judged together. Labels that were wrong
before are unknown and count as correct. The command prints a Markdown table.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from tfdml.evaluation.suspicion import Judgement, Suspects
from tfdml.files.embeddings import EmbeddingFiles

HEADS = ["embeddings", "images", "classes", "exchanged", "suspects", "precision", "recall", "precision at rank E"]


def exchanged(labels, share, seed):
    """Returns labels with a random share exchanged for other classes, and a boolean mask of the exchanged ones."""
    random = np.random.default_rng(seed)
    classes, places = np.unique(labels, return_inverse=True)
    wrong = np.zeros(len(labels), bool)
    wrong[random.choice(len(labels), max(round(share * len(labels)), 1), replace=False)] = True
    others = (places + random.integers(1, len(classes), len(labels))) % len(classes)
    return np.where(wrong, classes[others], labels), wrong


def measured(models, labels, share, seeds, nearest):
    """Returns means over seeds: numbers of exchanged and found labels, precision, recall, and precision at rank E.

    Args:
        models: List of embeddings `[N, d]` of the same images.
        labels: Labels `[N]`.
        share: Share of labels to exchange.
        seeds: List of integers.
        nearest: Number of nearest neighbors for `Judgement.of`.
    """
    values = []
    for seed in seeds:
        given, wrong = exchanged(labels, share, seed)
        found = Suspects.of([Judgement.of(each, given, nearest=nearest) for each in models], len(given))
        right, count = wrong[found.rows], int(wrong.sum())
        precision = right.mean() if len(right) else np.nan
        values.append([count, len(right), precision, right.sum() / count, right[:count].sum() / count])
    return np.mean(values, axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embeddings", required=True, type=Path, help="Folder of .npz files, or one file.")
    parser.add_argument("--share", type=float, default=0.05, help="Share of labels to exchange.")
    parser.add_argument("--seeds", type=int, default=3, help="Number of repetitions with other labels.")
    parser.add_argument("--nearest", type=int, default=5, help="Number of nearest neighbors, as for tfdml.suspects.")
    given = parser.parse_args()
    paths = sorted(given.embeddings.glob("*.npz")) if given.embeddings.is_dir() else [given.embeddings]
    if not paths:
        sys.exit(f"--embeddings={given.embeddings} must be an .npz file or a folder with .npz files.")
    files = {path.stem: EmbeddingFiles.read(str(path)) for path in paths}
    groups = {name: [name] for name in files}
    for name, file in files.items():
        alike = [other for other, each in files.items() if np.array_equal(each.labels, file.labels)]
        if len(alike) > 1 and alike[0] == name:
            groups[" + ".join(alike)] = alike
    table = []
    for title, names in groups.items():
        labels, models = files[names[0]].labels, [np.asarray(files[name].embeddings) for name in names]
        count, found, *rates = measured(models, labels, given.share, range(given.seeds), given.nearest)
        sizes = [f"{len(labels):,}", f"{len(np.unique(labels)):,}", f"{count:,.0f}", f"{found:,.0f}"]
        table.append([title, *sizes, *(f"{rate:.3f}" for rate in rates)])
    print(markdown(HEADS, table))


if __name__ == "__main__":
    main()
