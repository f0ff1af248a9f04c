"""Runs Python in processes and measures them."""

import os
import resource
import subprocess
import sys
import time
from typing import NamedTuple


class Measured(NamedTuple):
    """A process that has ended.

    Args:
        began: Start time, in seconds since 1970.
        seconds: Duration.
        cpu_seconds: CPU time of all its threads and of the processes that it waited for.
        printed: Its standard output.
    """

    began: float
    seconds: float
    cpu_seconds: float
    printed: str


def run_python(*arguments, **environment):
    """Runs Python with arguments and environment variables in a new process, and returns its `Measured`."""
    # Installed packages are compiled to bytecode, and so is this one after its first import.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env={**kept, **environment})
    ended, after = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"The measured process failed:\n{done.stderr}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Measured(began, ended - began, cpu, done.stdout)
