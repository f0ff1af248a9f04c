"""Memory and time of a step with proxies sharded over devices: `python -m benchmarks.speed.sharded_classes`, extra cpu.

`norm_softmax` on proxies of many classes and SGD with momentum, behind a network that costs nothing; on one device, and
on two virtual CPUs that each hold all proxies or a half of them; a process for each line. Prints a Markdown table: the
peak of memory of the whole process above what it held before it made the model, while that is made and in later steps,
and CPU time of a step, of all devices together, beside one device; the least of several.
"""

import argparse

from benchmarks.markdown import markdown
from benchmarks.speed.worker import TooMuch, Worker

CASES = {
    "one": ("cpu:1", False),
    "two, all proxies on each": ("cpu:2", False),
    "two, sharded": ("cpu:2", True),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default="10000,100000,1000000", help="numbers of classes, joined by commas")
    parser.add_argument("--batch", type=int, default=64, help="images in a global batch")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured")
    arguments = parser.parse_args()
    rows = []
    for classes in map(int, arguments.classes.split(",")):
        found = {name: measured(name, classes, arguments) for name in CASES}
        for name, one in found.items():
            rows.append([f"{classes:,}", name, *cells(one, found["one"])])
    print(markdown(["classes", "devices", "made: MiB", "step: MiB", "step: time"], rows))


def measured(name, classes, arguments):
    """Memory and time in a process of its own; None for what takes too much."""
    devices, sharded = CASES[name]
    worker = Worker("sharded_classes_worker", devices, {"TF_CPP_MIN_LOG_LEVEL": "2"})
    try:
        return worker.ask(classes=classes, sharded=sharded, batch=arguments.batch, rounds=arguments.rounds)
    except TooMuch:
        return None
    finally:
        worker.end()


def cells(one, single):
    if one is None:
        return ["too much", "", ""]
    time = "" if single is None else f"{one['seconds'] / single['seconds']:.2f}"
    return [f"{one['made']:,.0f}", f"{one['step']:,.0f}", time]


if __name__ == "__main__":
    main()
