"""Compares requests per second of the service with its model alone: `python -m benchmarks.speed.serving --index=index`.

The model alone embeds and searches full batches of the same files in a loop, in a process that does nothing else.
Clients run in their own process, each with one connection. If there are few cores, the clients compete with the service
for them. If the program `hey` is installed, it also sends requests, always with the same image. The command prints
Markdown tables.

--indexing also measures images per second of indexing, without the time to load the model, compared with embedding
alone. --minutes=10 also measures the memory of the service while --steady_clients send requests for that long, with
--pause seconds after each answer.
"""

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.markdown import markdown

FILES = 64
# Number of clients that warm up the service.
WARMING = 4
# Settings of a load over several minutes.
SAMPLES = 10
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
INDEXING = """
import sys, time
import tfdml
from pathlib import Path
from tfdml.serving import ExportedModel
from tfdml.serving.image_list import ImageList
from tfdml.serving.index.build import index_images
path, size, out, *files = sys.argv[1:]
size, count, few = int(size), len(files), len(files) // 10
def seconds(work, *arguments):
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start
def index(count):
    index_images(f"{out}/{count}", ImageList(files[:count], [None] * count), model=path, batch_size=size)
def embed(contents):
    for start in range(0, len(contents), size):
        model.embed_readable(contents[start : start + size])
model, contents = ExportedModel(path), [Path(file).read_bytes() for file in files]
embed(contents[:size])
alone = count / seconds(embed, contents)
start = seconds(index, few)
print((count - few) / (seconds(index, count) - start), alone)
"""


async def client(port, requests, end, times, errors, pause=0):
    """Sends one request after another over one connection, `pause` seconds after the last answer."""
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
        await asyncio.sleep(pause)
    writer.close()


async def load(port, requests, count, seconds):
    """Returns seconds of all requests, and errors."""
    times, errors, end = [], [], time.perf_counter() + seconds
    await asyncio.gather(
        *(client(port, requests[each:] + requests[:each], end, times, errors) for each in range(count))
    )
    return np.array(times), errors


async def steady(port, requests, arguments, service):
    """Returns minutes, requests and memory of the service at times of a long load, and its errors."""
    times, errors, found, start = [], [], [], time.perf_counter()
    end = start + 60 * arguments.minutes
    clients = [
        asyncio.create_task(client(port, requests[each:] + requests[:each], end, times, errors, arguments.pause))
        for each in range(arguments.steady_clients)
    ]
    for sample in range(SAMPLES + 1):
        await asyncio.sleep(max(start + 60 * arguments.minutes * sample / SAMPLES - time.perf_counter(), 0))
        minutes = (time.perf_counter() - start) / 60
        found.append([f"{minutes:.1f}", str(len(times)), f"{memory(service):.1f}"])
    await asyncio.gather(*clients)
    return found, errors


def asked_by_hey(port, file, count, seconds):
    """Returns requests per second, p50 and p99 in milliseconds, and answers other than 200, counted by `hey`."""
    body = request(Path(file).read_bytes()).partition(b"\r\n\r\n")[2]
    with tempfile.NamedTemporaryFile() as sent:
        sent.write(body)
        sent.flush()
        kind, address = "multipart/form-data; boundary=end", f"http://127.0.0.1:{port}/search"
        command = ["hey", f"-z={seconds:g}s", f"-c={count}", "-m=POST", f"-T={kind}", f"-D={sent.name}", address]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
    # There is no 99th percentile for few requests.
    found = [re.search(rf"{each}% in ([\d.]+)", output) for each in (50, 99)]
    quantiles = [1000 * float(each[1]) if each else float("nan") for each in found]
    others = [int(found) for status, found in re.findall(r"\[(\d+)\]\s+(\d+) ", output) if status != "200"]
    return rate, *quantiles, sum(others)


def request(content):
    head = "POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=end\r\n"
    part = b'--end\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n' + content + b"\r\n--end--\r\n"
    return f"{head}Content-Length: {len(part)}\r\n\r\n".encode() + part


def memory(process):
    """Returns the memory of a process in megabytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def images_of(index):
    """Returns the paths of the images of an index."""
    import pyarrow.parquet

    manifest = json.loads((Path(index) / "manifest.json").read_text())
    table = pyarrow.parquet.read_table(Path(index) / f"images-{manifest['generation']}.parquet")
    return [str(Path(index) / path) for path in table["path"].to_pylist()]


def images_a_second_alone(arguments, files):
    (rate,) = _numbers_of(ALONE, arguments.index, arguments.seconds, arguments.batch_size, *files)
    return rate


def print_indexing(arguments, files):
    with tempfile.TemporaryDirectory() as out:
        rate, alone = _numbers_of(INDEXING, f"{arguments.index}/model", arguments.batch_size, out, *files)
    print(
        f"Indexing: {rate:.0f} images per second, {rate / alone:.2f} times the rate of embedding alone.\n", flush=True
    )


def _numbers_of(program, *words):
    """Returns the numbers in the last line that a program prints."""
    command = [sys.executable, "-c", program, *map(str, words)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(each) for each in output.splitlines()[-1].split()]


def rows(arguments, service, port, files, alone):
    """Returns a row of the table for each number of clients."""
    requests = [request(Path(file).read_bytes()) for file in files]
    asyncio.run(load(port, requests, WARMING, 2))
    found = []
    for count in arguments.clients:
        before, start = memory(service), time.perf_counter()
        times, errors = asyncio.run(load(port, requests, count, arguments.seconds))
        rate = len(times) / (time.perf_counter() - start)
        p50, p99 = (f"{1000 * each:.0f}" for each in np.quantile(times, [0.5, 0.99]))
        held = f"{before:.0f} to {memory(service):.0f}"
        found.append([str(count), f"{rate:.0f}", f"{rate / alone:.2f}", p50, p99, str(len(errors)), held])
        if shutil.which("hey"):
            rate, p50, p99, others = asked_by_hey(port, files[0], count, arguments.seconds)
            found.append(
                [f"{count}, hey", f"{rate:.0f}", f"{rate / alone:.2f}", f"{p50:.0f}", f"{p99:.0f}", str(others), ""]
            )
    return found


def print_load(arguments, service, files, alone):
    port = int(re.search(r":(\d+)/", service.stdout.readline())[1])
    found = rows(arguments, service, port, files, alone)
    head = ["clients", "requests a second", "of the model alone", "p50, ms", "p99, ms", "errors", "memory, MB"]
    print(markdown(head, found), flush=True)
    if arguments.minutes:
        requests = [request(Path(file).read_bytes()) for file in files]
        found, errors = asyncio.run(steady(port, requests, arguments, service))
        print("\n" + markdown(["Minutes", "Requests", "Memory, MB"], found))
        print(f"\n{len(errors)} errors.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--indexing", action="store_true")
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--steady_clients", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.0)
    arguments = parser.parse_args()
    images = images_of(arguments.index)
    files = images[:FILES]
    alone = images_a_second_alone(arguments, files)
    print(f"The model alone: {alone:.0f} images per second.\n", flush=True)
    if arguments.indexing:
        print_indexing(arguments, images)
    # The service would reject more clients than its queue has room for.
    most = max(WARMING, *arguments.clients)
    settings = [f"--batch_size={arguments.batch_size}", f"--max_waiting={most}", f"--max_connections={2 * most}"]
    command = [sys.executable, "-m", "tfdml.serve", f"--index={arguments.index}", "--port=0", *settings]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        print_load(arguments, service, files, alone)
    finally:
        service.terminate()
        service.wait()


if __name__ == "__main__":
    main()
