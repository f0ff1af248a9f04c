"""Compares a training step with torch: `python -m benchmarks.speed.step`, with the extras cpu and bench.

It fine-tunes with semi-hard triplets on batches of 16 classes × 4 images, frozen batch norm statistics and Adam, as
`python -m tfdml.train` does by default, and as torch, torchvision and pytorch-metric-learning do it. For torch, the
better of its two memory formats and of one and two processes that load images counts. The command prints a Markdown
table with the wall time and the CPU time of all threads per step, and the ratio of torch to tfdml (the median over
rounds). All of them train in turn in each round. The columns of Keras' backends are the wall time of `model.fit` on the
same photos, with `tfdml.data.pxk`.

--profile prints the time of the parts of a step instead, for each of --cases.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.markdown import markdown
from benchmarks.speed.pictures import write_pictures
from benchmarks.speed.processes import run_python

# Our backbone and the backbone of torchvision.
NETWORKS = {"MobileNetV2": ("keras_applications(name='MobileNetV2')", "mobilenet_v2"), "ResNet-18": ("resnet18",) * 2}
CLASSES, IMAGES = 32, 16
FINE_TUNING = [
    "--sampler=pxk(classes=16, per_class=4)",
    "--loss=triplet(margin=0.2, mining='semi_hard', distance='euclidean')",
    "--optimizer=adam(learning_rate=0.0001)",
    "--freeze_batch_norm=statistics",
]
TOYCARS = "--flagfile=configs/"
CASES = {
    "MobileNetV2": ["--backbone=keras_applications(name='MobileNetV2')", "--image_size=128", *FINE_TUNING],
    "ResNet-18": ["--backbone=resnet18", "--image_size=128", *FINE_TUNING],
    "quickstart": [f"{TOYCARS}quickstart.flags"],
    "ABE-8": [f"{TOYCARS}toycars_abe.flags"],
    "Divide and Conquer, K = 4": [f"{TOYCARS}toycars_dnc.flags"],
}


def photos(folder):
    """Returns the flags of a dataset with a folder of JPEG files per class, which are written once."""
    for number in range(CLASSES):
        write_pictures(folder / "photos" / f"{number:03}", IMAGES, first=number * IMAGES)
    return ["--dataset=folder(test_classes=0.3)", f"--data_dir={folder / 'photos'}"]


# Keras backends, and their heads in the table.
BACKENDS = {"tensorflow": "fit: TensorFlow", "jax": "JAX", "torch": "PyTorch"}


def answer(module, backend="tensorflow", **question):
    """Runs a module of `benchmarks.speed` in its own process with a Keras backend and returns its answer."""
    code = f"from benchmarks.speed.{module} import main; main(**{question!r})"
    with tempfile.TemporaryDirectory() as folder:
        printed = run_python("-c", code, TMPDIR=folder, KERAS_BACKEND=backend).printed
        return json.loads(printed.splitlines()[-1])


def compared(name, size, dataset, steps, rounds):
    """Returns a row of the table: the seconds of both and their ratio."""
    ours, theirs = NETWORKS[name]
    flags = [f"--backbone={ours}", f"--image_size={size}", *FINE_TUNING, *dataset]
    torch = {"name": theirs, "size": size, "folder": dataset[-1].partition("=")[2]}
    ways = [{"channels_last": last, "workers": workers} for last in (False, True) for workers in (1, 2)]
    best = min(ways, key=lambda way: answer("step_of_torch", **torch, **way, steps=3)["seconds"])
    print(f"{name}, {size} px: torch with {best}", file=sys.stderr, flush=True)
    of_keras = {"backbone": ours, "size": size, "folder": torch["folder"], "steps": steps}
    found = [
        (
            answer("step_worker", flags=flags, steps=steps),
            answer("step_of_torch", **torch, **best, steps=steps),
            *(answer("step_of_keras", backend, **of_keras) for backend in BACKENDS),
        )
        for _ in range(rounds)
    ]
    cells = [name, str(size)]
    for clock in ("seconds", "cpu_seconds"):
        own, other = ([each[side][clock] for each in found] for side in (0, 1))
        ratio = statistics.median(there / here for here, there in zip(own, other, strict=True))
        cells += [f"{statistics.median(own):.2f}", f"{statistics.median(other):.2f}", f"{ratio:.2f}"]
    for place in range(2, 2 + len(BACKENDS)):
        cells.append(f"{statistics.median(each[place]['seconds'] for each in found):.2f}")
    return cells


def profiled(name, dataset, steps):
    """Returns the rows of a case: CPU time and wall time of each part."""
    flags = CASES[name] if CASES[name][0].startswith(TOYCARS) else [*CASES[name], *dataset]
    parts = answer("step_worker", flags=flags, steps=steps, profile=True)["parts"]
    first = [name] + [""] * (len(parts) - 1)
    return [
        [case, part, f"{1000 * cpu:.0f}", f"{1000 * wall:.0f}"]
        for case, (part, cpu, wall) in zip(first, parts, strict=True)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="store_true", help="Print the time of the parts of a step.")
    parser.add_argument("--cases", default=",".join(CASES), help="Cases to profile: names, separated by commas.")
    parser.add_argument(
        "--networks", default=",".join(NETWORKS), help="Networks to compare: names, separated by commas."
    )
    parser.add_argument(
        "--sizes", default="96,128,224", help="Side lengths of the images in pixels, separated by commas."
    )
    parser.add_argument("--steps", type=int, default=12, help="Number of measured steps, after four others.")
    parser.add_argument("--rounds", type=int, default=3, help="Number of rounds, each of which measures both.")
    parser.add_argument("--folder", default="runs/benchmarks/step", help="Folder that keeps the photos.")
    arguments = parser.parse_args()
    dataset = photos(Path(arguments.folder))
    if arguments.profile:
        rows = [row for name in CASES if name in arguments.cases for row in profiled(name, dataset, arguments.steps)]
        print(markdown(["Case", "Part", "CPU, ms", "Wall, ms"], rows))
        return
    rows = [
        compared(name, int(size), dataset, arguments.steps, arguments.rounds)
        for name in arguments.networks.split(",")
        for size in arguments.sizes.split(",")
    ]
    heads = ["network", "pixels", "wall: tfdml", "torch", "ratio", "CPU: tfdml", "torch", "ratio", *BACKENDS.values()]
    print(markdown(heads, rows))


if __name__ == "__main__":
    main()
