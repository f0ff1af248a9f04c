"""Compares steps with all classes and with a sample of them: `python -m benchmarks.speed.sampled_classes`.

It uses `norm_softmax` with proxies of many classes after a network with negligible cost, and a process for each row.
The command prints a Markdown table for the loss with its gradients and for a whole step with SGD, in which the gradient
of the proxies becomes a matrix of their size. It has the peak memory relative to what the process held before it
created the proxies, and the CPU time relative to all classes, the minimum of several measurements.
"""

import argparse

from benchmarks.markdown import markdown
from benchmarks.speed.worker import TooMuch, Worker


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default="10000,100000,1000000", help="Numbers of classes, separated by commas.")
    parser.add_argument("--sampled", type=int, default=4096, help="Number of sampled classes.")
    parser.add_argument("--batch", type=int, default=64, help="Number of images per batch.")
    parser.add_argument("--rounds", type=int, default=3, help="Number of measurements, of which the minimum counts.")
    arguments = parser.parse_args()
    rows = []
    for classes in map(int, arguments.classes.split(",")):
        sizes = {"classes": classes, "batch": arguments.batch, "rounds": arguments.rounds}
        everything, sample = (measured(sampled=sampled, **sizes) for sampled in (None, arguments.sampled))
        for name, found in (("all", everything), (f"{arguments.sampled:,}", sample)):
            rows.append([f"{classes:,}", name, *cells(found, everything)])
    parts = ("loss", "step")
    print(markdown(["classes", "seen", *(f"{part}: {of}" for part in parts for of in ("MiB", "time"))], rows))


def measured(**question):
    """Returns memory and time of the loss and of a step, each in its own process, or `None` above the limits."""
    found = {}
    for part in ("loss", "step"):
        worker = Worker("sampled_classes_worker", part, {})
        try:
            found[part] = worker.ask(**question)
        except TooMuch:
            found[part] = None
        worker.end()
    return found


def cells(found, everything):
    for part, one in found.items():
        whole = everything[part]
        yield "too much" if one is None else f"{one['mib']:,.0f}"
        yield "" if None in (one, whole) else f"{one['seconds'] / whole['seconds']:.3f}"


if __name__ == "__main__":
    main()
