"""Compares the speed of backbones with torch: `python -m benchmarks.speed.backbones`, with the extras cpu and bench.

It measures images per second in inference and in training (forward pass, backward pass, SGD step) in float32, with the
same networks in torch. Both libraries run in turn in their own processes, with the same number of threads. The command
prints a Markdown table with images per second of both, and the ratio of tfdml to torch (the median over rounds). It
keeps the measurements in --results and does not repeat them.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from benchmarks.speed.backbones_worker import BACKBONES
from benchmarks.speed.worker import Worker

LIBRARIES = ("tfdml", "torch")
MODES = ("inference", "training")
# Minimum duration of a round in seconds.
ROUND = 2.0


def measure(workers, case, rounds):
    """Returns the median ratio of images per second, and images per second of both."""
    first = {library: worker.ask(**case, repeats=1) for library, worker in workers.items()}
    repeats = {library: max(1, round(ROUND / answer["seconds"])) for library, answer in first.items()}
    seconds = {library: [] for library in workers}
    for _ in range(rounds):
        for library, worker in workers.items():
            seconds[library].append(worker.ask(**case, repeats=repeats[library])["seconds"])
    ours, theirs = (seconds[library] for library in LIBRARIES)
    return {
        "ratio": statistics.median(other / own for own, other in zip(ours, theirs, strict=True)),
        "images_a_second": {library: case["batch"] / statistics.median(values) for library, values in seconds.items()},
    }


def table(results, names):
    lines = ["| backbone | " + " | ".join(MODES) + " |", "|---|---|---|"]
    for name in names:
        cells = []
        for mode in MODES:
            result = results[name, mode]
            ours, theirs = (result["images_a_second"][library] for library in LIBRARIES)
            cells.append(f"{result['ratio']:.2f} ({ours:.1f} : {theirs:.1f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbones", default=",".join(BACKBONES), help="Names, separated by commas.")
    parser.add_argument("--batch", type=int, default=16, help="Number of images per batch.")
    parser.add_argument("--size", type=int, default=224, help="Side length of the images in pixels.")
    parser.add_argument("--threads", type=int, default=2, help="Number of threads of each library.")
    parser.add_argument("--rounds", type=int, default=5, help="Number of rounds, each of which measures both.")
    parser.add_argument(
        "--results", default="runs/benchmarks/backbones.jsonl", help="File that keeps the measurements."
    )
    arguments = parser.parse_args()
    names, file = arguments.backbones.split(","), Path(arguments.results)
    file.parent.mkdir(parents=True, exist_ok=True)
    setting = {"batch": arguments.batch, "size": arguments.size, "threads": arguments.threads}
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    results = {
        (entry["backbone"], entry["mode"]): entry
        for entry in known
        if all(entry[key] == value for key, value in setting.items())
    }
    for name in names:
        if all((name, mode) in results for mode in MODES):
            continue
        # One network at a time, so that the memory and caches of the previous one do not matter.
        environment = {"THREADS": str(arguments.threads), "OMP_NUM_THREADS": str(arguments.threads)}
        workers = {library: Worker("backbones_worker", library, environment) for library in LIBRARIES}
        for mode in MODES:
            print(f"{name}, {mode}", file=sys.stderr, flush=True)
            case = {"backbone": name, "mode": mode, **setting}
            results[name, mode] = {**case, **measure(workers, case, arguments.rounds)}
            with open(file, "a") as lines:
                print(json.dumps(results[name, mode]), file=lines)
        for worker in workers.values():
            worker.end()
    print(table(results, names))


if __name__ == "__main__":
    main()
