"""Measures packed datasets, compared with files and with ten million rows: `python -m benchmarks.speed.packed`.

It reads images of about 14 kB without decoding them, and reads and decodes JPEG files of about 500 × 375 pixels, from
shards and from files in the page cache, through the same pipeline. It measures CPU time and wall time per image; wall
time is only meaningful on an idle machine. It also measures tables with 10,000,000 rows in 1,000,000 classes that share
a few images. For these, a separate process opens the tables, binds a P×K sampler and draws the first batch.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np

SIDE = 48
ROWS_OF_SHARD = 1_000_000
# Number of passes over the images, and of batches of indices.
PASSES, BATCHES = 5, 512
# Number of different JPEG files.
PICTURES = 64


def files_and_shards(folder, count, content):
    """Writes files, packs them and returns both splits."""
    from pipelines import packing
    from pipelines.dataset import Dataset
    from pipelines.datasets import Split, load

    paths = np.array([str(folder / "files" / f"{number:06d}.bin") for number in range(count)], object)
    (folder / "files").mkdir()
    for number, path in enumerate(paths):
        Path(path).write_bytes(content(number))
    split = Split(paths, np.arange(count) // 10)
    packing.pack(Dataset("random", None, split), folder / "packed", images=8192)
    return split, load("packed", data_dir=str(folder / "packed"), test_only=True).test


def random_bytes(number):
    random = np.random.default_rng(number)
    return random.bytes(int(random.integers(8_000, 20_000)))


def pictures():
    """Returns a function from a number to one of a few JPEG files, which are drawn once."""
    from benchmarks.speed.pictures import picture

    drawn = [picture(seed) for seed in range(PICTURES)]
    return lambda number: drawn[number % PICTURES]


def length(contents, seed):
    import tensorflow as tf

    del seed
    return tf.strings.length(contents)


def seconds_of_reading(split, order, prepare):
    """Returns CPU seconds and seconds per image."""
    from pipelines.build import evaluation_batches

    start = np.array([time.process_time(), time.perf_counter()])
    for batch in evaluation_batches(split.where(order), prepare, batch_size=100):
        del batch
    return (np.array([time.process_time(), time.perf_counter()]) - start) / len(order)


def print_reading(what, count, content, prepare):
    with tempfile.TemporaryDirectory() as folder:
        splits = dict(zip(("files", "shards"), files_and_shards(Path(folder), count, content), strict=True))
        order = np.random.default_rng(1).permutation(count)
        found = {name: [] for name in splits}
        for _ in range(PASSES):
            for name, split in splits.items():
                found[name].append(seconds_of_reading(split, order, prepare))
    # The first pass does not count, because it reads the files for the first time.
    files, shards = (np.median(found[name][1:], axis=0) for name in ("files", "shards"))
    for clock, of_files, of_shards in zip(("CPU time", "time"), files, shards, strict=True):
        print(
            f"{what}, {clock}: {1e6 * of_files:.0f} µs from files, {of_shards / of_files:.2f} times that from shards."
        )


def write_tables(folder, rows, classes):
    """Writes a packed dataset with many rows by hand, from the shard of a small packed dataset."""
    import pyarrow as pa
    import pyarrow.parquet

    from benchmarks.speed.pictures import picture
    from pipelines import packing
    from pipelines.dataset import Dataset
    from pipelines.datasets import Split
    from tfdml.files.checked import fingerprint, write_manifest

    few = Split(np.array([picture(seed) for seed in range(64)], object), np.arange(64) // 2)
    packing.pack(Dataset("synthetic", None, few), folder, images=64)
    manifest = json.loads((folder / packing.MANIFEST).read_text())
    small = pyarrow.parquet.read_table(folder / "test-00000.parquet")
    shards = {}
    labels = np.random.default_rng(0).permutation(np.arange(rows) % classes)
    for number, first in enumerate(range(0, rows, ROWS_OF_SHARD)):
        name = f"train-{number:05d}"
        os.link(folder / "test-00000.tar", folder / f"{name}.tar")
        part = np.arange(first, min(first + ROWS_OF_SHARD, rows))
        table = small.take(pa.array(part % 64)).set_column(
            small.column_names.index("labels"), "labels", pa.array(100 + labels[part])
        )
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
        size = (folder / f"{name}.tar").stat().st_size
        shards[name] = {"bytes": size, "table": fingerprint(folder / f"{name}.parquet")}
    content = {name: manifest[name] for name in ("dataset", "protocol", "classes")}
    parts = {"train": {"images": rows, "shards": shards}, "test": manifest["parts"]["test"]}
    write_manifest(folder / packing.MANIFEST, packing.FORMAT, packing.VERSION, {**content, "parts": parts})


def measure_tables(folder):
    """Opens the tables, draws a batch, and prints the time and the memory."""
    import tensorflow as tf

    from benchmarks.speed.peak_memory import MIB, held, peak, reset_peak
    from pipelines.build import STEPS_AT_ONCE, training_batches
    from pipelines.datasets import load
    from pipelines.preprocessor import Preprocessor
    from pipelines.sampling import PxK

    # Memory that TensorFlow and Arrow need anyway.
    tf.constant(0)
    before, start = reset_peak(), time.perf_counter()
    split = load("packed", data_dir=folder).train
    opened = time.perf_counter() - start
    sampler = PxK(classes=32, per_class=4)
    sampler.bind(split.labels)
    bound = time.perf_counter() - start
    prepare = Preprocessor("warp", image_size=SIDE, mean=(0, 0, 0), std=(1, 1, 1))
    step = tf.Variable(0, dtype=tf.int64)
    next(iter(training_batches(split, sampler, prepare, seed=0, step=step, steps_per_epoch=100)))
    first = time.perf_counter() - start
    holds = (held() - before) / MIB
    tables = sampler.tables()
    rows = tf.function(lambda steps: sampler.rows(tf.constant(0, tf.int64), steps, tables))
    rows(tf.range(STEPS_AT_ONCE, dtype=tf.int64))
    start = time.perf_counter()
    for begin in range(0, BATCHES, STEPS_AT_ONCE):
        rows(tf.range(begin, begin + STEPS_AT_ONCE, dtype=tf.int64))
    batch = (time.perf_counter() - start) / BATCHES
    print(f"{len(split):,} rows in {split.num_classes:,} classes: opened in {opened:.1f} s, sampler at {bound:.1f} s,")
    print(f"first batch at {first:.1f} s; {1000 * batch:.2f} ms for the indices of a batch of 128;")
    print(f"{holds:,.0f} MiB held, {(peak() - before) / MIB:,.0f} MiB at most.", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000, help="Number of images to read.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--classes", type=int, default=1_000_000)
    arguments = parser.parse_args()
    from pipelines.preprocessor import Preprocessor

    print_reading("read", arguments.images, random_bytes, length)
    decode = Preprocessor("warp", image_size=224, mean=(0, 0, 0), std=(1, 1, 1))
    print_reading("decoded", arguments.images // 20, pictures(), decode)
    with tempfile.TemporaryDirectory() as folder:
        spawned = multiprocessing.get_context("spawn")
        about = (Path(folder), arguments.rows, arguments.classes)
        for work, given in ((write_tables, about), (measure_tables, (folder,))):
            process = spawned.Process(target=work, args=given)
            process.start()
            process.join()


if __name__ == "__main__":
    main()
