"""Measures training steps of ensembles: `python -m benchmarks.speed.attention_ensemble`, with the extra cpu.

It compares ABE-M (Attention-based Ensemble) with GoogLeNet for M = 1, 2, 4 and 8, 8 heads, and the same eight learners
in eight separate forward passes. All variants run in turn, each in its own process. The command prints a Markdown table
with the time relative to ABE-1 (the median of the ratio over rounds), the seconds, and the peak memory of the process.
"""

import argparse
import statistics

from benchmarks.markdown import markdown
from benchmarks.speed.worker import Worker

CASES = {
    "ABE-1": {"method": "ABE", "learners": 1},
    "ABE-2": {"method": "ABE", "learners": 2},
    "ABE-4": {"method": "ABE", "learners": 4},
    "ABE-8": {"method": "ABE", "learners": 8},
    "ABE-8, eight passes": {"method": "separate", "learners": 8},
    "8-heads": {"method": "heads", "learners": 8},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16, help="Number of images per batch.")
    parser.add_argument("--size", type=int, default=112, help="Side length of the images in pixels.")
    parser.add_argument("--rounds", type=int, default=5, help="Number of rounds, each of which measures everything.")
    arguments = parser.parse_args()
    workers = {name: Worker("attention_ensemble_worker", name, {}) for name in CASES}
    answers = {name: [] for name in CASES}
    for _ in range(arguments.rounds):
        for name, case in CASES.items():
            answers[name].append(workers[name].ask(**case, batch=arguments.batch, size=arguments.size))
    for worker in workers.values():
        worker.end()
    rows = []
    for name, found in answers.items():
        ratio = statistics.median(
            one["seconds"] / other["seconds"] for one, other in zip(found, answers["ABE-1"], strict=True)
        )
        seconds = statistics.median(one["seconds"] for one in found)
        rows.append([name, f"{ratio:.2f}", f"{seconds:.2f}", f"{found[-1]['peak']:.2f}", str(found[-1]["traces"])])
    print(markdown(["Model", "Time relative to ABE-1", "Seconds", "Peak GiB", "Traces"], rows))


if __name__ == "__main__":
    main()
