"""Memory and time of a step whose batch is embedded in pieces: `python -m benchmarks.speed.pieces`, with the extra cpu.

ResNet-50 with frozen batch norm, one process for each number of pieces, in turn. Prints a Markdown table: the peak of
memory in a step above what the process held before the first one, which are activations, gradients and the first
step's graph, and the time beside that of one piece, the median of the ratio over rounds.
"""

import argparse
import statistics

from benchmarks.markdown import markdown
from benchmarks.speed.worker import Worker


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", default="1,2,4,8", help="numbers of pieces, joined by commas")
    parser.add_argument("--batch", type=int, default=64, help="images in a batch")
    parser.add_argument("--size", type=int, default=112, help="side of the images, pixels")
    parser.add_argument("--rounds", type=int, default=3, help="how often all are measured in turn")
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
    print(markdown(["pieces", "MiB in a step", "time relative to the first"], rows))


if __name__ == "__main__":
    main()
