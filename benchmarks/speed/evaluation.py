"""Measures time and memory of exact evaluation: `python -m benchmarks.speed.evaluation`, extras cpu and bench.

It computes Recall@1, 10, 100 and 1000, R-precision, MAP@R and mAP for as many embeddings and classes as in Stanford
Online Products. It compares them with pytorch-metric-learning's AccuracyCalculator (only Recall@1, R-precision and
MAP@R) and with the lower bound, the float32 product of all pairs alone. All run in turn, each in its own process.
`--libraries "tfdml, NMI" "faiss K-means"` measures clustering.
"""

import argparse
import statistics

from benchmarks.speed.evaluation_worker import CLUSTERING, LIBRARIES
from benchmarks.speed.worker import TooMuch, Worker


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[60_502])
    parser.add_argument("--dim", type=int, default=512)
    # This noise leads to a Recall@1 of about 0.7.
    parser.add_argument("--noise", type=float, default=2.3)
    parser.add_argument("--rounds", type=int, default=1)
    retrieval = [name for name in LIBRARIES if name not in CLUSTERING]
    parser.add_argument("--libraries", nargs="+", default=retrieval, choices=list(LIBRARIES))
    arguments = parser.parse_args()
    for rows in arguments.rows:
        print(f"{rows} x {arguments.dim}:")
        question = {"rows": rows, "dim": arguments.dim, "noise": arguments.noise}
        answers = {name: [] for name in arguments.libraries}
        for _ in range(arguments.rounds):
            for name in arguments.libraries:
                answers[name].append(answer_of(name, question))
        show(answers)


def answer_of(library, question):
    worker = Worker("evaluation_worker", library, {})
    try:
        return worker.ask(**question)
    except TooMuch as error:
        print(f"  {library}: {error}")
        return None
    finally:
        worker.end()


def show(answers):
    floor = answers.get("product", [None])
    for name, each in answers.items():
        done = [answer for answer in each if answer]
        if not done:
            continue
        seconds, cpu = (statistics.median(answer[key] for answer in done) for key in ("seconds", "cpu_seconds"))
        ratios = [
            answer["seconds"] / other["seconds"] for answer, other in zip(each, floor, strict=False) if answer and other
        ]
        ratio = f"{statistics.median(ratios):5.2f} x product" if ratios else ""
        memory = max(answer["bytes"] for answer in done) / 2**20
        values = ", ".join(f"{key} {value:.4f}" for key, value in done[0]["values"].items() if key != "queries")
        print(f"  {name:24} {seconds:7.1f} s (CPU {cpu:7.1f})  {ratio}  {memory:6.0f} MiB  {values}", flush=True)


if __name__ == "__main__":
    main()
