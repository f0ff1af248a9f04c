"""Measures memory and time of an index with millions of embeddings: `python -m benchmarks.speed.large_index`.

It writes L2-normalized rows of 128 dimensions around 10,000 centers, as `python -m tfdml.embed` would, builds an index
of them, opens it, and searches for 1,000 rows with added noise. Each stage runs in its own process. Times are CPU times
of all threads, and memory is the peak. The command prints a Markdown table. `--rows 1000000 3000000 10000000` shows how
each stage scales.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown

DIM, CENTERS, BLOCK, QUERIES = 128, 10_000, 100_000, 1000
# Length of the noise that is added to a center, and to a row to make a query.
SPREAD, NOISE = 0.8, 0.3
NEIGHBORS = 10


def rows_of(first, count):
    """Returns rows `[count, DIM]`, which are the same for each call."""
    centers = np.random.default_rng(0).normal(size=(CENTERS, DIM)).astype(np.float32)
    random = np.random.default_rng([1, first])
    found = centers[random.integers(0, CENTERS, count)] + SPREAD * random.normal(size=(count, DIM)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def write(folder, rows):
    import tfdml
    from pipelines.preprocessor import Preprocessor
    from tfdml.files.shards import EmbeddingShards
    from tfdml.serving.exported_model import model_hash

    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=DIM)
    model(np.zeros([1, 32, 32, 3], np.float32))
    tfdml.serving.export(model, Preprocessor("warp", image_size=32, mean=(0,) * 3, std=(1,) * 3), folder / "model")
    shards = EmbeddingShards.create(folder / "embedded", model=model_hash(folder / "model"), dimension=DIM)
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        paths = [f"/photos/{row:08d}.jpg" for row in range(first, first + count)]
        shards.append(paths, [None] * count, rows_of(first, count))


def index(folder, kind):
    from tfdml.serving.index.build import index_embeddings

    index_embeddings(folder / "index", folder / "embedded", model=folder / "model", kind=kind)


def search(folder):
    """Returns the CPU seconds per query, and the share of queries that find their row among the nearest."""
    from tfdml.serving import Searcher

    searcher = Searcher(folder / "index")
    queries = rows_of(0, min(len(searcher), BLOCK))[:QUERIES]
    noise = np.random.default_rng(2).normal(size=queries.shape) * NOISE / np.sqrt(DIM)
    searcher.store.nearest(queries[:1], NEIGHBORS)
    start = time.process_time()
    _, found = searcher.store.nearest(queries + noise, NEIGHBORS)
    seconds = (time.process_time() - start) / len(queries)
    return seconds, float(np.mean(np.any(found == np.arange(len(queries))[:, None], axis=1)))


def measured(answers, work, *arguments):
    from benchmarks.speed.peak_memory import MIB, peak

    sys.stdout = sys.stderr
    start = time.process_time()
    result = work(*arguments)
    answers.put((time.process_time() - start, peak() / MIB, result))


def in_a_process(work, *arguments):
    """Runs a function in its own process, and returns CPU seconds, MiB and its result."""
    spawned = multiprocessing.get_context("spawn")
    answers = spawned.Queue()
    process = spawned.Process(target=measured, args=(answers, work, *arguments))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} ended with status {process.exitcode}.")
    return answers.get()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--kind", default="pq", help="Spec of the index, as in --kind of tfdml.index.")
    arguments = parser.parse_args()
    table = []
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            in_a_process(write, folder, rows)
            indexed, indexing, _ = in_a_process(index, folder, arguments.kind)
            kind = json.loads((folder / "index" / "manifest.json").read_text())["kind"]
            opened, searching, (query, recall) = in_a_process(search, folder)
            size = sum(path.stat().st_size for path in (folder / "index").glob("index-*")) / 2**20
        times = [f"{indexed:.0f} s", f"{indexing:,.0f}", f"{opened - QUERIES * query:.0f} s", f"{searching:,.0f}"]
        table.append([f"{rows:,}", kind, *times, f"{1000 * query:.2f} ms", f"{100 * recall:.1f} %", f"{size:,.0f}"])
        print(table[-1], file=sys.stderr, flush=True)
    heads = ["rows", "index", "indexing", "MiB", "opening", "MiB", "a query", "row found", "file, MiB"]
    print(markdown(heads, table))


if __name__ == "__main__":
    main()
