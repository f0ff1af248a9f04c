"""Compares losses with pytorch-metric-learning: `python -m benchmarks.speed.losses`, with the extras cpu and bench.

It measures the forward and the backward pass on batches with 4 rows per class, both libraries in turn in their own
processes, with all cores. With more than 2,048 rows there are more rows per class, because there are 512 classes. The
command prints two Markdown tables: the ratio of pytorch-metric-learning's time to tfdml's (the median over rounds), and
the peak memory of a step in MiB, tfdml's first. It keeps the measurements in --results and does not repeat them.

--backend is the Keras backend of tfdml. The other library always runs on PyTorch. `torch` and `jax` do not need
TensorFlow: `torch` only needs the extra bench, and `jax` also needs the package jax. JAX compiles its step, PyTorch
does not, and TensorFlow compiles it with XLA if --jit_compile is set.

--device=gpu runs both on the first GPU, which the backend and PyTorch must support, and measures GPU memory. The time
of a step then includes waiting for the GPU to finish.

On a machine with other work, --one_thread compares the processor time of one thread each, which does not include
waiting for a processor.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from benchmarks.speed.losses_worker import OURS, THEIRS
from benchmarks.speed.worker import MOST_MEMORY, TooMuch, Worker

LIBRARIES = ("tfdml", "pytorch_metric_learning")
# Minimum duration of a round, and maximum duration of a step, in seconds.
ROUND = 0.3
SLOW = 3
PATIENCE = 60

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}

# Frameworks silently use another device if theirs is missing, and reserve all GPU memory, which is shared here.
DEVICES = {
    "cpu": {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"},
    "gpu": {
        "JAX_PLATFORMS": "cuda",
        # PyTorch computes float32 products in this precision by default.
        "JAX_DEFAULT_MATMUL_PRECISION": "float32",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    },
}

# With these settings, glibc returns freed memory to the system at once, so that each step has its own peak. This is
# slow.
FREES_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def measure(workers, memory_workers, case, rounds, clock):
    """Returns the median ratio of the seconds, the seconds of both, and the peak memory of both in MiB."""
    first = {library: worker.ask(**case, repeats=1, patience=PATIENCE) for library, worker in workers.items()}
    repeats = {library: max(1, round(ROUND / answer["seconds"])) for library, answer in first.items()}
    # Measurements that take seconds vary little.
    rounds = rounds if first[LIBRARIES[1]]["seconds"] < SLOW else 1
    seconds = {library: [] for library in workers}
    for _ in range(rounds):
        for library, worker in workers.items():
            seconds[library].append(worker.ask(**case, repeats=repeats[library])[clock])
    ours, theirs = (seconds[library] for library in LIBRARIES)
    ratio = statistics.median(other / own for own, other in zip(ours, theirs, strict=True))
    return {
        "ratio": ratio,
        "milliseconds": {library: 1000 * statistics.median(values) for library, values in seconds.items()},
        "peak_mib": {library: worker.ask(**case, repeats=1)["peak_mib"] for library, worker in memory_workers.items()},
    }


def start_workers(environment, device):
    """Starts two processes for each library, one to measure time and one to measure memory."""
    environments = (environment, {**environment, **FREES_AT_ONCE})
    # GPU drivers reserve far more addresses than they use.
    most_memory = MOST_MEMORY if device == "cpu" else None
    return [
        {library: Worker("losses_worker", library, each, most_memory) for library in LIBRARIES} for each in environments
    ]


def end_workers(both):
    for worker in [worker for workers in both for worker in workers.values()]:
        worker.end()


def tables(results, sizes, dims):
    """Returns two tables: the ratio of the times, and the peak memory of both."""
    columns = [(size, dim) for size in sizes for dim in dims]
    heads = [f"{size} × {dim}" for size, dim in columns]
    parts = []
    for cell in (_ratio, _memory):
        lines = [f"| loss | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
        for name in OURS:
            cells = [cell(results[name, *column]) if (name, *column) in results else "" for column in columns]
            if any(cells):
                lines.append(f"| {name} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _ratio(result):
    return f"it takes {result['too_much']}" if "too_much" in result else f"{result['ratio']:.1f}"


def _memory(result):
    if "too_much" in result:
        return ""
    # Less than one MiB cannot be distinguished from the memory that a process holds anyway.
    ours, theirs = (result["peak_mib"][library] for library in LIBRARIES)
    return f"{ours:.0f} : {theirs:.0f}"


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", default=",".join(THEIRS), help="Names, separated by commas.")
    parser.add_argument("--sizes", default="128,512,2048", help="Batch sizes, separated by commas.")
    parser.add_argument("--dims", default="128,512", help="Embedding sizes, separated by commas.")
    parser.add_argument("--rounds", type=int, default=5, help="Number of rounds, each of which measures both.")
    parser.add_argument(
        "--backend", default="tensorflow", choices=("tensorflow", "torch", "jax"), help="Keras backend of tfdml."
    )
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"), help="Device of both libraries.")
    parser.add_argument("--one_thread", action="store_true", help="Compare the processor time of one thread.")
    parser.add_argument("--jit_compile", action="store_true", help="Compile the TensorFlow step with XLA.")
    parser.add_argument("--results", default="runs/benchmarks/losses.jsonl", help="File that keeps the measurements.")
    arguments = parser.parse_args()
    if arguments.jit_compile and arguments.backend != "tensorflow":
        parser.error("--jit_compile needs --backend=tensorflow: JAX always compiles, PyTorch never does here.")
    if arguments.one_thread and arguments.device == "gpu":
        parser.error("--one_thread needs --device=cpu: a GPU's work takes no time of a processor.")
    return arguments


def main():
    arguments = read_arguments()
    sizes, dims = ([int(number) for number in text.split(",")] for text in (arguments.sizes, arguments.dims))
    file = Path(arguments.results)
    file.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    threads, clock = (ONE_THREAD, "cpu_seconds") if arguments.one_thread else ({}, "seconds")
    environment = {"KERAS_BACKEND": arguments.backend, **DEVICES[arguments.device], **threads}
    way = {name: getattr(arguments, name) for name in ("backend", "device", "jit_compile")}
    same_way = [entry for entry in known if {**way, "clock": clock}.items() <= entry.items()]
    results = {(entry["loss"], entry["size"], entry["dim"]): entry for entry in same_way}
    for size in sizes:
        for dim in dims:
            missing = [name for name in arguments.losses.split(",") if (name, size, dim) not in results]
            if not missing:
                continue
            both = start_workers(environment, arguments.device)
            for name in missing:
                print(f"{name}, {size} × {dim}", file=sys.stderr, flush=True)
                case = {"loss": name, "size": size, "dim": dim, **way}
                try:
                    found = measure(*both, case, arguments.rounds, clock)
                except TooMuch as reason:
                    both[0]["tfdml"].ask(
                        **case, repeats=1, patience=PATIENCE
                    )  # This raises an error if tfdml exceeds the limits.
                    found = {"too_much": str(reason)}
                    end_workers(both)
                    both = start_workers(environment, arguments.device)
                results[name, size, dim] = {**case, "clock": clock, **found}
                with open(file, "a") as lines:
                    print(json.dumps(results[name, size, dim]), file=lines)
            end_workers(both)
    print(tables(results, sizes, dims))


if __name__ == "__main__":
    main()
