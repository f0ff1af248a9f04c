"""How much memory a machine has left."""

import os
from pathlib import Path

ABOUT = Path("/proc/meminfo")


def free_memory():
    """Returns the bytes of memory that programs can still take; where nobody tells, a half of the machine's memory."""
    if ABOUT.is_file():
        for line in ABOUT.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
