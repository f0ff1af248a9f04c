"""Compares passes over all images with one process and with workers: `python -m benchmarks.speed.shared_passes`.

It measures the stages of clustering again, of an evaluation and of a search for hard negatives. They run in one process
on one core, in one process with as many cores as there are workers, and in workers with one core each, one after the
other in each round. Embedding is measured with photos, the rest with random rows. The command prints the medians over
rounds and their ratio to one core. Workers on the same machine show the cost of sharing; they cannot be faster than one
process with all of its cores.
"""

import argparse
import concurrent.futures
import json
import os
import socket
import statistics

from benchmarks.markdown import markdown
from benchmarks.speed.shared_passes_worker import EXCHANGE
from benchmarks.speed.worker import Worker

ONE, ALL, WORKERS = "one process, one core", "one process, all cores", "workers, a core each"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def configs_of(count):
    """Returns the `TF_CONFIG` of each worker on this machine."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(count)]}
    return [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}) for index in range(count)]


def start(sizes, count):
    """Starts the processes of each variant."""
    cores = sorted(os.sched_getaffinity(0))[:count]

    def process(devices, cores, environment=()):
        about = json.dumps({**sizes, "devices": devices, "cores": cores})
        return Worker("shared_passes_worker", about, {"TF_CPP_MIN_LOG_LEVEL": "2", **dict(environment)})

    together = [
        process("workers", [core], {"TF_CONFIG": config}) for core, config in zip(cores, configs_of(count), strict=True)
    ]
    return {ONE: [process("cpu:1", cores[:1])], ALL: [process("cpu:1", cores)], WORKERS: together}


def measured(processes):
    """Returns the seconds of each stage until the last process has finished it."""
    with concurrent.futures.ThreadPoolExecutor(len(processes)) as threads:
        answers = list(threads.map(lambda each: each.ask(), processes))
    return {stage: max(answer[stage] for answer in answers) for stage in answers[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    sizes = vars(parser.parse_args())
    rounds, ways = sizes.pop("rounds"), start(sizes, sizes.pop("workers"))
    # The first round does not count, because it traces functions and reads files.
    times = [{way: measured(processes) for way, processes in ways.items()} for _ in range(rounds + 1)][1:]
    for processes in ways.values():
        for each in processes:
            each.end()
    table = []
    for stage in times[0][ONE]:
        cells = [stage]
        for way in ways:
            ratio = statistics.median(each[way][stage] / each[ONE][stage] for each in times)
            # A single process exchanges nothing.
            shown = "-" if stage == EXCHANGE else f"{ratio:.2f}"
            cells += [f"{statistics.median(each[way][stage] for each in times):.2f} s", shown]
        table.append(cells)
    print(markdown(["Stage", *(name for way in ways for name in (way, "relative to one core"))], table))


if __name__ == "__main__":
    main()
