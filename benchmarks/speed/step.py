"""A training step from JPEG files, beside torch's: `python -m benchmarks.speed.step`, with the extras cpu and bench.

Fine-tuning with semi-hard triplets on batches of 16 classes x 4 images, the statistics of batch norm frozen, Adam, as
`python -m tfdml.train` does it by default, and as torch, torchvision and pytorch-metric-learning do it. torch takes the
better of its two orders of dimensions, and of one and two processes that load images. Prints a Markdown table: seconds
of a step, of wall time and of all threads' CPU time, and how many times longer torch takes, the median over rounds, in
which both train in turn.

--profile prints in its place, for each of --cases, what the parts of a step take.
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

# Our backbone, and the one of torchvision.
NETWORKS = {"MobileNetV2": ("keras_applications(name='MobileNetV2')", "mobilenet_v2"), "ResNet-18": ("resnet18",) * 2}
CLASSES, IMAGES = 32, 16
FINE_TUNING = [
    "--sampler=pxk(classes=16, per_class=4)",
    "--loss=triplet(margin=0.2, mining='semi_hard', squared=False)",
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
    """Flags of a data set with a folder of JPEG files for each class, which are written once."""
    for number in range(CLASSES):
        write_pictures(folder / "photos" / f"{number:03}", IMAGES, first=number * IMAGES)
    return ["--dataset=folder(test_classes=0.3)", f"--data_dir={folder / 'photos'}"]


def answer(module, **question):
    """Returns the answer of a module of `benchmarks.speed`, in a process of its own."""
    code = f"from benchmarks.speed.{module} import main; main(**{question!r})"
    with tempfile.TemporaryDirectory() as folder:
        return json.loads(run_python("-c", code, TMPDIR=folder).printed.splitlines()[-1])


def compared(name, size, dataset, steps, rounds):
    """A row of the table: seconds of both and their ratio."""
    ours, theirs = NETWORKS[name]
    flags = [f"--backbone={ours}", f"--image_size={size}", *FINE_TUNING, *dataset]
    torch = {"name": theirs, "size": size, "folder": dataset[-1].partition("=")[2]}
    ways = [{"channels_last": last, "workers": workers} for last in (False, True) for workers in (1, 2)]
    best = min(ways, key=lambda way: answer("step_of_torch", **torch, **way, steps=3)["seconds"])
    print(f"{name}, {size} px: torch with {best}", file=sys.stderr, flush=True)
    found = [
        (answer("step_worker", flags=flags, steps=steps), answer("step_of_torch", **torch, **best, steps=steps))
        for _ in range(rounds)
    ]
    cells = [name, str(size)]
    for clock in ("seconds", "cpu_seconds"):
        own, other = ([each[side][clock] for each in found] for side in (0, 1))
        ratio = statistics.median(there / here for here, there in zip(own, other, strict=True))
        cells += [f"{statistics.median(own):.2f}", f"{statistics.median(other):.2f}", f"{ratio:.2f}"]
    return cells


def profiled(name, dataset, steps):
    """Rows of the table of a case: each part's CPU and wall time."""
    flags = CASES[name] if CASES[name][0].startswith(TOYCARS) else [*CASES[name], *dataset]
    parts = answer("step_worker", flags=flags, steps=steps, profile=True)["parts"]
    first = [name] + [""] * (len(parts) - 1)
    return [
        [case, part, f"{1000 * cpu:.0f}", f"{1000 * wall:.0f}"]
        for case, (part, cpu, wall) in zip(first, parts, strict=True)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="store_true", help="what the parts of a step take")
    parser.add_argument("--cases", default=",".join(CASES), help="what is profiled: names, joined by commas")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="what is compared: names, joined by commas")
    parser.add_argument("--sizes", default="96,128,224", help="sides of the images, pixels")
    parser.add_argument("--steps", type=int, default=12, help="steps that are measured, after four others")
    parser.add_argument("--rounds", type=int, default=3, help="how often both are measured in turn")
    parser.add_argument("--folder", default="runs/benchmarks/step", help="where photos are written, and kept")
    arguments = parser.parse_args()
    dataset = photos(Path(arguments.folder))
    if arguments.profile:
        rows = [row for name in CASES if name in arguments.cases for row in profiled(name, dataset, arguments.steps)]
        print(markdown(["case", "part", "CPU, ms", "wall, ms"], rows))
        return
    rows = [
        compared(name, int(size), dataset, arguments.steps, arguments.rounds)
        for name in arguments.networks.split(",")
        for size in arguments.sizes.split(",")
    ]
    heads = ["network", "pixels", "wall: tfdml", "torch", "ratio", "CPU: tfdml", "torch", "ratio"]
    print(markdown(heads, rows))


if __name__ == "__main__":
    main()
