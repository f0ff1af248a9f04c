"""Writes inputs.json, what the goldens are computed on. Needs NumPy only.

    python tests/goldens/make_inputs.py

Batches: `pk` is 4 classes of 4 rows at unit length; `uneven` has classes of 5, 3, 2, 1 and 1 rows in mixed order, of
lengths from 0.5 to 2; `pairs` is 6 classes of 2 rows, of lengths from 1 to 3. Rows of a class lie around a centre of
their own, so that some pairs and triplets are right and others are not. `proxies` are of 7 classes, as labels are from
0 to 6, `centers` are two for each of these, and `betas` one number for each.
"""

import json
from pathlib import Path

import numpy as np

CLASSES, CENTERS = 7, 2


def batch(random, labels, dim, lengths, spread):
    labels = np.asarray(labels)
    rows = random.normal(size=(CLASSES, dim))[labels] + spread * random.normal(size=(len(labels), dim))
    rows *= (random.uniform(*lengths, size=len(labels)) / np.linalg.norm(rows, axis=1))[:, None]
    return {
        "labels": labels.tolist(),
        # Full precision where lengths shall be 1.
        "embeddings": rows.tolist() if lengths == (1, 1) else rows.round(4).tolist(),
        "proxies": random.normal(size=(CLASSES, dim)).round(4).tolist(),
        "centers": random.normal(size=(CLASSES, CENTERS, dim)).round(4).tolist(),
        "betas": random.uniform(0.9, 1.4, CLASSES).round(4).tolist(),
    }


def main():
    random = np.random.default_rng(20)
    inputs = {
        "pk": batch(random, np.repeat([3, 0, 6, 2], 4), 6, (1, 1), 0.8),
        "uneven": batch(random, [1, 4, 1, 0, 1, 4, 5, 1, 2, 4, 1, 5], 5, (0.5, 2), 0.7),
        "pairs": batch(random, [5, 5, 1, 1, 0, 0, 4, 4, 6, 6, 2, 2], 8, (1, 3), 0.6),
        "distances": {
            "same": random.integers(0, 2, 10).tolist(),
            "distances": random.uniform(0, 1.6, 10).round(4).tolist(),
        },
    }
    Path(__file__).with_name("inputs.json").write_text(json.dumps(inputs) + "\n")


if __name__ == "__main__":
    main()
