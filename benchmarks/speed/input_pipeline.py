"""Measures images per second that reach training: `python -m benchmarks.speed.input_pipeline`, extras cpu and bench.

It turns 2,000 JPEG files of about 500 × 375 pixels into batches of 128 images of 224 × 224 pixels: random resized crops
with flips, as in training, and the center of images with a shorter side of 256 pixels, as in evaluation. It compares
this, in turn in the same run, with torch's DataLoader with Pillow and two workers, and with libjpeg-turbo in two
processes, which only decodes. The command prints a Markdown table of medians over rounds.
"""

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks.speed.pictures import write_pictures
from benchmarks.speed.worker import Worker

# Names of the rows of the table, with their cases.
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
    parser.add_argument("--images", type=int, default=2000, help="Number of images.")
    parser.add_argument("--rounds", type=int, default=5, help="Number of rounds, each of which measures everything.")
    parser.add_argument("--folder", default="runs/benchmarks/pictures", help="Folder that keeps the images.")
    arguments = parser.parse_args()
    folder = Path(arguments.folder) / str(arguments.images)
    write_pictures(folder, arguments.images)
    sizes = [path.stat().st_size for path in folder.iterdir()]
    print(f"{len(sizes)} JPEGs of {statistics.mean(sizes) / 1000:.0f} kB.", file=sys.stderr)
    print(
        "| Pipeline | Images per second | Relative to the DataLoader | Relative to decoding alone |",
        "|---|---|---|---|",
        sep="\n",
    )
    for name, case in CASES.items():
        # Each case has its own workers, so that the caches of one case do not slow down the next.
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
