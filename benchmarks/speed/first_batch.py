"""Measures the time to the first batch of many files: `python -m benchmarks.speed.first_batch`, with the extra cpu.

The folder has the layout and the number of files of Stanford Online Products, and each file is a small JPEG. A process
that has imported everything measures these stages: reading the lists, checking that all files exist, building the
tables of the sampler, and running the pipeline up to its first batch. It compares them with the time of `os.stat` for
each file, in the same rounds. The command prints medians.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.speed.pictures import picture
from pipelines.build import training_batches
from pipelines.datasets.loading import load
from pipelines.preprocessor import Preprocessor
from pipelines.sampling import PxK

SIZES = {"train": (59_551, 11_318), "test": (60_502, 11_316)}
# Products are in folders by category, as in SOP.
KINDS = 12
# File systems allow only a few ten thousand names per file.
NAMES_OF_ONE = 10_000


def write_products(root):
    """Writes the folder once and returns it. Each image has many names, because the names determine the cost."""
    folder = root / "Stanford_Online_Products"
    if (folder / "Ebay_test.txt").exists():
        return
    for kind in range(KINDS):
        (folder / f"kind_{kind}_final").mkdir(parents=True, exist_ok=True)
    for part, (images, classes) in SIZES.items():
        lines = ["image_id class_id super_class_id path"]
        for number in range(images):
            product = number * classes // images
            name = f"kind_{product % KINDS}_final/{part}{number}.JPG"
            if number % NAMES_OF_ONE == 0:
                source = root / f"{part}{number}.jpg"
                source.write_bytes(picture(number))
            (folder / name).unlink(missing_ok=True)
            os.link(source, folder / name)
            label = product + 1 + (SIZES["train"][1] if part == "test" else 0)
            lines.append(f"{number + 1} {label} {product % KINDS + 1} {name}")
        (folder / f"Ebay_{part}.txt").write_text("\n".join(lines) + "\n")


def first_batch(root):
    """Returns the seconds of each stage."""
    times, began = {}, time.perf_counter()

    def stage(name):
        times[name] = time.perf_counter() - began - sum(times.values())

    train = load("sop", data_dir=str(root)).train
    stage("lists and files")
    sampler = PxK(classes=32, per_class=4)
    sampler.bind(train.labels)
    stage("sampler")
    prepare = Preprocessor("random_resized_crop|flip", image_size=224, mean=(0.0,) * 3, std=(255.0,) * 3)
    step = tf.Variable(0, dtype=tf.int64)
    steps = len(train) // sampler.batch_size
    next(iter(training_batches(train, sampler, prepare, seed=0, step=step, steps_per_epoch=steps)))
    stage("first batch")
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="runs/benchmarks/products", help="Folder that keeps the files.")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    root = Path(arguments.folder)
    write_products(root)
    rounds = []
    for _ in range(arguments.rounds):
        times = first_batch(root)
        times["together"] = sum(times.values())
        dataset = load("sop", data_dir=str(root))
        paths = [*dataset.train.images, *dataset.test.images]
        began = time.perf_counter()
        for path in paths:
            os.stat(path)
        times["os.stat of each"] = time.perf_counter() - began
        rounds.append(times)
    for name in rounds[0]:
        values = [times[name] for times in rounds]
        print(f"{name:16} first {values[0]:6.2f} s, median {statistics.median(values):6.2f} s")
    print(f"{np.sum([images for images, _ in SIZES.values()]):,} files")


if __name__ == "__main__":
    main()
