"""Measures the whole command: `python -m benchmarks.speed.evaluation_command`, with the extras cpu and bench.

It compares `python -m tfdml.evaluate` on files with a process that computes the same metrics with
pytorch-metric-learning's AccuracyCalculator: Recall@1, R-precision and MAP@R, with and without NMI. Each runs in turn,
from the start of Python to its end, and also for so few images that only the start counts.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from benchmarks.speed.evaluation_worker import THEIRS, embeddings_of
from benchmarks.speed.processes import run_python

PEER = """
import json, sys
import numpy as np, torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
embeddings, labels, metrics = sys.argv[1:]
calculator = AccuracyCalculator(include=metrics.split(","), k="max_bin_count", device=torch.device("cpu"))
unit = torch.nn.functional.normalize(torch.tensor(np.load(embeddings)))
found = calculator.get_accuracy(unit, torch.tensor(np.load(labels)))
print(json.dumps({name: float(value) for name, value in found.items()}))
"""
OTHERS = {**THEIRS, "NMI": "nmi"}
# Enough for every metric.
FEW = 300


def one_round(files, metrics):
    """Returns the `Measured` of tfdml and of the peer."""
    embeddings, labels = map(str, files)
    ours = ["-m", "tfdml.evaluate", f"--embeddings={embeddings}", f"--labels={labels}"]
    ours += [f"--metrics={','.join(OTHERS[metric] for metric in metrics)}"]
    return run_python(*ours), run_python("-c", PEER, embeddings, labels, ",".join(metrics))


def row(name, rounds, metrics):
    """Returns a row of the table: medians over rounds, and ratios of tfdml to the peer in the same round."""
    cells = [name]
    for clock in ("seconds", "cpu_seconds"):
        sides = [[getattr(each, clock) for each in side] for side in zip(*rounds, strict=True)]
        cells += [f"{statistics.median(side):.1f}" for side in sides]
        cells.append(f"{statistics.median(ours / theirs for ours, theirs in zip(*sides, strict=True)):.2f}")
    ours, theirs = (json.loads(side.printed.splitlines()[-1]) for side in rounds[0])
    print(name, {OTHERS[each]: (round(ours[OTHERS[each]], 4), round(theirs[each], 4)) for each in metrics}, flush=True)
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--dim", type=int, default=256)
    # This noise leads to a Recall@1 of about 0.9.
    parser.add_argument("--noise", type=float, default=1.6)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    without = list(THEIRS)
    cases = [(f"{FEW} images, with NMI", FEW, [*without, "NMI"]), ("without NMI", arguments.rows, without)]
    cases.append(("with NMI", arguments.rows, [*without, "NMI"]))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, count, metrics in cases:
            files = [Path(folder, f"{kind}{count}.npy") for kind in ("embeddings", "labels")]
            for file, array in zip(files, embeddings_of(count, arguments.dim, arguments.noise), strict=True):
                np.save(file, array)
            # The first round warms up the disk cache.
            rounds = [one_round(files, metrics) for _ in range(arguments.rounds + (count == FEW))]
            rows.append(row(name, rounds[-arguments.rounds :], metrics))
    head = ["seconds, tfdml", "pytorch-metric-learning", "ratio"]
    print(markdown([f"{arguments.rows:,} × {arguments.dim}", *head, "CPU, tfdml", *head[1:]], rows))


if __name__ == "__main__":
    main()
