"""Time and memory of a training step of ensembles: `python -m benchmarks.speed.attention_ensemble`, with the extra cpu.

ABE-M of Attention-based Ensemble with GoogLeNet for M = 1, 2, 4, 8, beside 8-heads and beside the same eight learners
in eight forward passes of their own, each in a process of its own and in turn. Prints a Markdown table: time relative
to ABE-1's, the median of the ratio over rounds, seconds, and the peak of the process's memory.
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
    parser.add_argument("--batch", type=int, default=16, help="images in a batch")
    parser.add_argument("--size", type=int, default=112, help="side of the images, pixels")
    parser.add_argument("--rounds", type=int, default=5, help="how often all are measured in turn")
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
    print(markdown(["", "time relative to ABE-1", "seconds", "peak GiB", "traces"], rows))


if __name__ == "__main__":
    main()
