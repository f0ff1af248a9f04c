"""Memory and time of a step with all classes and with a sample: `python -m benchmarks.speed.sampled_classes`.

`norm_softmax` on proxies of many classes, behind a network that costs nothing; a process for each line. Prints a
Markdown table: the peak of memory above what the process held before it made the proxies, and CPU time beside that
with all classes, the least of several; of the loss with its gradients, and of a whole step with SGD, in which the
gradient of the proxies becomes a matrix as large as they are.
"""

import argparse

from benchmarks.markdown import markdown
from benchmarks.speed.worker import TooMuch, Worker


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default="10000,100000,1000000", help="numbers of classes, joined by commas")
    parser.add_argument("--sampled", type=int, default=4096, help="classes of a sample")
    parser.add_argument("--batch", type=int, default=64, help="images in a batch")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
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
    """Memory and time of the loss and of a step, in processes of their own; None for what takes too much."""
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
