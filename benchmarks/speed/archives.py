"""Measures how fast images are read from archives: `python -m benchmarks.speed.archives`.

It writes the same JPEG files of about 500 × 375 pixels as single files, as a packed dataset, as WebDataset tar files,
and as Parquet files with 100 images per group of rows. It reads and decodes them in the order of the files, as for
embedding and indexing, and in random order, as for training. tfdml keeps row groups of Parquet files in memory, here
for 10% of the images, as if there were ten times as many images as fit. The command prints a Markdown table of images
per second of CPU time, and writes the numbers to docs/records/archives.json. `--print` prints the recorded table.
"""

import argparse
import io
import json
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown

RECORD = Path(__file__).parents[2] / "docs/records/archives.json"
# Images in each archive, as 100 MB of JPEG files.
PER_FILE, PER_GROUP, PASSES, SIDE = 2000, 100, 2, 96
# Part of the images that fit into the memory for row groups.
KEPT = 0.1
ORDERS = ("in order", "at random")


def written(folder, contents):
    """Writes the images in each format; returns the split of each by name."""
    import pyarrow
    import pyarrow.parquet

    from pipelines import packing
    from pipelines.dataset import Dataset
    from pipelines.datasets import Split, load

    labels = np.arange(len(contents)) // 10
    paths = np.array([str(folder / "files" / f"{number:06d}.jpg") for number in range(len(contents))], object)
    (folder / "files").mkdir()
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    files = Split(paths, labels)
    packing.pack(Dataset("pictures", None, files), folder / "packed", images=PER_FILE)
    for first in range(0, len(contents), PER_FILE):
        part = range(first, min(first + PER_FILE, len(contents)))
        with tarfile.open(folder / f"{first:06d}.tar", "w") as tar:
            for number in part:
                add(tar, f"{number:06d}.jpg", contents[number])
                add(tar, f"{number:06d}.cls", str(labels[number]).encode())
        images = [{"bytes": contents[number], "path": f"{number}.jpg"} for number in part]
        table = pyarrow.table({"image": images, "label": labels[part.start : part.stop]})
        pyarrow.parquet.write_table(table, folder / f"{first:06d}.parquet", row_group_size=PER_GROUP)
    specs = {
        "packed shards": f"packed(path={str(folder / 'packed')!r})",
        "WebDataset tar files": f"webdataset(path='{folder}/*.tar', test_classes=1)",
        "Parquet, 100 images per row group": f"parquet(path='{folder}/*.parquet', test_classes=1)",
    }
    return {"files": files, **{name: load(spec, test_only=True).test for name, spec in specs.items()}}


def add(tar, name, content):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def images_per_second(splits):
    """Returns the images per second of CPU time of each split in each order: the best pass after the first one."""
    from pipelines.build import evaluation_batches
    from pipelines.preprocessor import Preprocessor

    prepare = Preprocessor("warp", image_size=SIDE, mean=(0, 0, 0), std=(1, 1, 1))
    count = len(splits["files"])
    orders = dict(zip(ORDERS, (np.arange(count), np.random.default_rng(0).permutation(count)), strict=True))
    found = {name: {order: [] for order in ORDERS} for name in splits}
    for _ in range(1 + PASSES):
        for name, split in splits.items():
            for order, rows in orders.items():
                start = time.process_time()
                for batch in evaluation_batches(split.where(rows), prepare, batch_size=64):
                    del batch
                found[name][order].append(count / (time.process_time() - start))
    return {name: {order: max(each[1:]) for order, each in rates.items()} for name, rates in found.items()}


def table(record):
    """Returns the Markdown table of a record."""
    rows = [
        [name, *(f"{round(each[order], -1):,.0f}" for order in ORDERS)]
        for name, each in record["images per CPU second"].items()
    ]
    return markdown(["Format", "Images per CPU second, in order", "Images per CPU second, at random"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=4000, help="Number of images.")
    parser.add_argument("--print", action="store_true", help="Print the table of the record, and measure nothing.")
    given = parser.parse_args()
    if not given.print:
        from benchmarks.speed.packed import pictures
        from pipelines import archives

        content = pictures()
        contents = [content(number) for number in range(given.images)]
        archives.KEPT = KEPT * sum(map(len, contents))
        with tempfile.TemporaryDirectory() as folder:
            rates = images_per_second(written(Path(folder), contents))
        record = {"images": given.images, "images per CPU second": rates}
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(table(json.loads(RECORD.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
