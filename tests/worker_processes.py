"""Starts programs of the tests as processes, one alone or several as workers."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.commands import PATIENCE

PROGRAMS = Path(__file__).parent / "programs"
REPOSITORY = PROGRAMS.parents[1]


def start(arguments, worker=None, ports=(), settings=None):
    """A Python process, with more environment variables if wanted; as one of several workers if ports are given."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **(settings or {})}
    if ports:
        environment |= config_of(worker, ports)
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def config_of(worker, ports):
    """The variable that tells a process which worker it is."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": worker}})}


def finish(process):
    output, _ = process.communicate(timeout=PATIENCE)
    return output


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
