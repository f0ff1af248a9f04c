"""Measures steps that embed their batch in chunks: `python -m benchmarks.speed.pieces`, with the extra cpu.

It uses ResNet-50 with frozen batch norm, and one process for each number of chunks, in turn. The command prints a
Markdown table with the peak memory of a step and the time relative to a single chunk (the median of the ratio over
rounds). The memory is relative to what the process held before the first step: activations, gradients and the graph of
the first step.
"""

import argparse
import statistics

from benchmarks.markdown import markdown
from benchmarks.speed.worker import Worker


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", default="1,2,4,8", help="Numbers of chunks, separated by commas.")
    parser.add_argument("--batch", type=int, default=64, help="Number of images per batch.")
    parser.add_argument("--size", type=int, default=112, help="Side length of the images in pixels.")
    parser.add_argument("--rounds", type=int, default=3, help="Number of rounds, each of which measures everything.")
    arguments = parser.parse_args()
    numbers = [int(each) for each in arguments.pieces.split(",")]
    workers = {pieces: Worker("pieces_worker", str(pieces), {}) for pieces in numbers}
    answers = {pieces: [] for pieces in numbers}
    for _ in range(arguments.rounds):
        for pieces, worker in workers.items():
            answers[pieces].append(worker.ask(pieces=pieces, batch=arguments.batch, size=arguments.size))
    for worker in workers.values():
        worker.end()
    rows = []
    for pieces, found in answers.items():
        pairs = zip(found, answers[numbers[0]], strict=True)
        ratio = statistics.median(one["seconds"] / other["seconds"] for one, other in pairs)
        rows.append([str(pieces), f"{found[-1]['step']:,.0f}", f"{ratio:.2f}"])
    print(markdown(["Chunks", "MiB per step", "Time relative to the first"], rows))


if __name__ == "__main__":
    main()
