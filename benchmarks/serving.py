"""Requests a second of the service beside those of its model alone: `python -m benchmarks.serving --index=index`.

The model alone embeds and searches full batches of the same files in a loop, in a process that does nothing else.
Clients run in a process of their own, each with one connection; where cores are few, they take theirs from the service.
Prints a Markdown table.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.runs import markdown

FILES = 64
ALONE = """
import sys, time
import tfdml
from pathlib import Path
from tfdml.serving import Searcher
index, seconds, size, *files = sys.argv[1:]
searcher, contents = Searcher(index), [Path(file).read_bytes() for file in files]
batch, count = (contents * int(size))[: int(size)], 0
searcher.search(batch, 10)
start = time.perf_counter()
while time.perf_counter() < start + float(seconds):
    searcher.search(batch, 10)
    count += len(batch)
print(count / (time.perf_counter() - start))
"""


async def client(port, requests, end, times, errors):
    """Sends one request after another over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    while (start := time.perf_counter()) < end:
        writer.write(requests[number % len(requests)])
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        await reader.readexactly(int(re.search(r"content-length: (\d+)", head)[1]))
        times.append(time.perf_counter() - start)
        if " 200 " not in head.splitlines()[0]:
            errors.append(head.splitlines()[0])
        number += 1
    writer.close()


async def load(port, requests, count, seconds):
    """Returns seconds of all requests, and errors."""
    times, errors, end = [], [], time.perf_counter() + seconds
    await asyncio.gather(
        *(client(port, requests[each:] + requests[:each], end, times, errors) for each in range(count))
    )
    return np.array(times), errors


def request(content):
    head = "POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=end\r\n"
    part = b'--end\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n' + content + b"\r\n--end--\r\n"
    return f"{head}Content-Length: {len(part)}\r\n\r\n".encode() + part


def memory(process):
    """Megabytes that a process holds."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def images_of(index):
    """Paths of some images of an index."""
    import pyarrow.parquet

    manifest = json.loads((Path(index) / "manifest.json").read_text())
    table = pyarrow.parquet.read_table(Path(index) / f"images-{manifest['generation']}.parquet")
    return [str(Path(index) / path) for path in table["path"].to_pylist()[:FILES]]


def images_a_second_alone(arguments, files):
    settings = [arguments.index, str(arguments.seconds), str(arguments.batch_size)]
    command = [sys.executable, "-c", ALONE, *settings, *files]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def rows(arguments, service, files, alone):
    """Returns a row of the table for each number of clients."""
    port = int(re.search(r":(\d+)/", service.stdout.readline())[1])
    requests = [request(Path(file).read_bytes()) for file in files]
    asyncio.run(load(port, requests, 4, 2))
    found = []
    for count in arguments.clients:
        before, start = memory(service), time.perf_counter()
        times, errors = asyncio.run(load(port, requests, count, arguments.seconds))
        rate = len(times) / (time.perf_counter() - start)
        p50, p99 = (f"{1000 * each:.0f}" for each in np.quantile(times, [0.5, 0.99]))
        held = f"{before:.0f} to {memory(service):.0f}"
        found.append([str(count), f"{rate:.0f}", f"{rate / alone:.2f}", p50, p99, str(len(errors)), held])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--batch_size", type=int, default=32)
    arguments = parser.parse_args()
    files = images_of(arguments.index)
    alone = images_a_second_alone(arguments, files)
    # More clients than the service lets wait would be told to come again.
    settings = [f"--batch_size={arguments.batch_size}", f"--max_waiting={max(arguments.clients)}"]
    command = [sys.executable, "-m", "tfdml.serve", f"--index={arguments.index}", "--port=0", *settings]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        found = rows(arguments, service, files, alone)
    finally:
        service.terminate()
        service.wait()
    print(f"The model alone: {alone:.0f} images a second.\n")
    head = ["clients", "requests a second", "of the model alone", "p50, ms", "p99, ms", "errors", "memory, MB"]
    print(markdown(head, found))


if __name__ == "__main__":
    main()
