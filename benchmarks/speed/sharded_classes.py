"""Measures a step with proxies sharded over devices: `python -m benchmarks.speed.sharded_classes`, with the extra cpu.

It uses `norm_softmax` with proxies of many classes and SGD with momentum after a network with negligible cost: on one
device, and on two virtual CPUs that each hold all proxies or half of them. Each row has its own process. The command
prints a Markdown table with the peak memory of the whole process, relative to what it held before it created the model,
while the model is created and in later steps. It also has the CPU time of a step, for all devices together, compared
with one device; this is the minimum of several measurements.
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
    parser.add_argument("--classes", default="10000,100000,1000000", help="Numbers of classes, separated by commas.")
    parser.add_argument("--batch", type=int, default=64, help="Number of images per global batch.")
    parser.add_argument("--rounds", type=int, default=3, help="Number of measurements, of which the minimum counts.")
    arguments = parser.parse_args()
    rows = []
    for classes in map(int, arguments.classes.split(",")):
        found = {name: measured(name, classes, arguments) for name in CASES}
        for name, one in found.items():
            rows.append([f"{classes:,}", name, *cells(one, found["one"])])
    print(markdown(["Classes", "Devices", "Creation, MiB", "Step, MiB", "Step, time"], rows))


def measured(name, classes, arguments):
    """Returns memory and time, measured in its own process, or `None` above the limits."""
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
