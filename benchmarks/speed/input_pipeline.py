"""Images a second that reach training: `python -m benchmarks.speed.input_pipeline`, with the extras cpu, bench.

2,000 JPEGs of about 500 x 375 become batches of 128 images of 224 x 224: random resized crops and flips, as training
has them, and the center of the shorter side at 256, as evaluation has it. Beside them, in turn in the same run: torch's
DataLoader with Pillow and two workers, and libjpeg-turbo alone, which only decodes, in two processes. Prints a Markdown
table of medians over rounds.
"""

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks.speed.pictures import write_pictures
from benchmarks.speed.worker import Worker

# What a row of the table is called, and its case.
CASES = {
    "training": {"mode": "training"},
    "training, `--shrink_decoding`": {"mode": "training", "shrink": True},
    "training, `--cache=pixels`": {"mode": "training", "cache": "pixels"},
    "evaluation": {"mode": "evaluation"},
    "evaluation, `--shrink_decoding`": {"mode": "evaluation", "shrink": True},
    "evaluation, `--cache=pixels`": {"mode": "evaluation", "cache": "pixels"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000, help="how many pictures")
    parser.add_argument("--rounds", type=int, default=5, help="how often all are measured in turn")
    parser.add_argument("--folder", default="runs/benchmarks/pictures", help="where pictures are written, and kept")
    arguments = parser.parse_args()
    folder = Path(arguments.folder) / str(arguments.images)
    write_pictures(folder, arguments.images)
    sizes = [path.stat().st_size for path in folder.iterdir()]
    print(f"{len(sizes)} JPEGs of {statistics.mean(sizes) / 1000:.0f} kB.", file=sys.stderr)
    print("| | images a second | beside the DataLoader | beside decoding alone |", "|---|---|---|---|", sep="\n")
    for name, case in CASES.items():
        # Of their own for each case, so that what one caches does not slow the next.
        workers = {library: Worker("input_pipeline_worker", library, {}) for library in ("tfdml", "torch", "floor")}
        found = {library: [] for library in workers}
        for _ in range(arguments.rounds):
            for library, worker in workers.items():
                asked = case if library == "tfdml" else {"mode": case["mode"]}
                found[library].append(worker.ask(folder=str(folder), **asked)["images_a_second"])
        for worker in workers.values():
            worker.end()
        ours, torch, floor = found.values()
        speed = statistics.median(ours)
        cells = [f"{speed:.0f}"]
        for others in (torch, floor):
            ratio = statistics.median(own / other for own, other in zip(ours, others, strict=True))
            cells.append(f"{ratio:.2f} ({statistics.median(others):.0f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
