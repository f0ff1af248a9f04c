"""Measures the memory of a process on Linux."""

import re
from pathlib import Path

MIB = 2**20


def reset_peak():
    """Resets the peak to the current memory of the process, and returns it in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak():
    """Returns the peak memory of the process in bytes."""
    return _status("VmHWM")


def held():
    """Returns the current memory of the process in bytes."""
    return _status("VmRSS")


def _status(name):
    return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text()).group(1)) * 1024
