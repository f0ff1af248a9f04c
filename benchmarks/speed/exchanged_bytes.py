"""Measures the bytes that workers exchange (docs/several_devices.md): `python -m benchmarks.speed.exchanged_bytes`.

Workers train on this machine in their own network (`unshare --net`, Linux), and its loopback device counts what they
send. The command prints a Markdown table of the bytes that all workers together send in a step and in the exchange of
the embeddings of a pass, measured and computed. It needs the extra cpu.
"""

import argparse
import concurrent.futures
import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path

from benchmarks.markdown import markdown
from benchmarks.speed.shared_passes import configs_of
from benchmarks.speed.worker import Worker

INSIDE = "TFDML_IN_OWN_NETWORK"
UP_AND_RUNNING, SET_FLAGS = 0x1 | 0x40, 0x8914
STEPS, MORE = 5, 15


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="1,2,4", help="Numbers of workers, separated by commas.")
    parser.add_argument("--batch", type=int, default=64, help="Number of images per global batch.")
    parser.add_argument("--classes", type=int, default=5000, help="Number of proxies of the loss.")
    parser.add_argument("--rows", type=int, default=20_000, help="Number of embeddings of a pass.")
    arguments = parser.parse_args()
    if INSIDE not in os.environ:
        inside = ["unshare", "--map-root-user", "--net", sys.executable, "-m", "benchmarks.speed.exchanged_bytes"]
        os.execvpe(inside[0], [*inside, *sys.argv[1:]], {**os.environ, INSIDE: "1"})
    start_loopback()
    about = {"batch": arguments.batch, "classes": arguments.classes, "rows": arguments.rows}
    rows = []
    for count in map(int, arguments.workers.split(",")):
        step, of_pass, sizes = measured(count, about)
        embeddings, weights, statistics = (sizes[name] for name in ("embeddings", "weights", "statistics"))
        expected = 2 * (count - 1) * 4 * (2 * embeddings + weights + statistics)
        gathered = (count - 1) * 4 * sizes["rows"]
        rows.append([str(count), *(f"{each / 2**20:.2f}" for each in (expected, step, gathered, of_pass))])
    print(markdown(["Workers", "Step, computed", "Step, measured, MiB", "Pass, computed", "Pass, measured, MiB"], rows))


def measured(count, about):
    """Returns the bytes of a step and of a pass, and the sizes from which they are computed."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    workers = [
        Worker("exchanged_bytes_worker", json.dumps(about), {**quiet, **({"TF_CONFIG": config} if count > 1 else {})})
        for config in configs_of(count)
    ]
    with concurrent.futures.ThreadPoolExecutor(count) as threads:

        def sent(**question):
            before = loopback()
            answers = list(threads.map(lambda worker: worker.ask(**question), workers))
            return loopback() - before, answers[0]

        # The first step and the first pass set up connections.
        _, sizes = sent(steps=STEPS)
        few, more = sent(steps=STEPS)[0], sent(steps=MORE)[0]
        sent(passes=1)
        of_pass = sent(passes=2)[0] - sent(passes=1)[0]
    for worker in workers:
        worker.end()
    return (more - few) / (MORE - STEPS), of_pass, sizes


def start_loopback():
    """Starts the loopback device of this network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh22x", b"lo", UP_AND_RUNNING))


def loopback():
    """Returns the number of bytes that the loopback device has sent."""
    line = next(line for line in Path("/proc/self/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.partition(":")[2].split()[8])


if __name__ == "__main__":
    main()
