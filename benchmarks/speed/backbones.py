"""Speed of backbones beside the same networks in torch: `python -m benchmarks.speed.backbones`, extras cpu, bench.

Images a second in inference and in training (forward, backward, SGD step), float32, both libraries in turn in
processes of their own with as many threads. Prints a Markdown table: how many times more images a second tfdml's
network takes, the median over rounds of the ratio, and images a second of both. What has been measured is kept in
--results and not measured again.
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
# A round lasts at least so long, seconds.
ROUND = 2.0


def measure(workers, case, rounds):
    """Median ratio of images a second, and images a second of both."""
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
    parser.add_argument("--backbones", default=",".join(BACKBONES), help="names, joined by commas")
    parser.add_argument("--batch", type=int, default=16, help="images in a batch")
    parser.add_argument("--size", type=int, default=224, help="side of the images, pixels")
    parser.add_argument("--threads", type=int, default=2, help="threads of each library")
    parser.add_argument("--rounds", type=int, default=5, help="how often both are measured in turn")
    parser.add_argument("--results", default="runs/benchmarks/backbones.jsonl", help="file that keeps the measurements")
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
        # One at a time: neither the memory nor the caches of the one before are there.
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
