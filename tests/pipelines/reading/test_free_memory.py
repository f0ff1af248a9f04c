"""How much memory is left."""

import os

from pipelines.reading import cache as module
from pipelines.reading.cache import free_memory


def test_it_is_read_in_bytes(tmp_path, monkeypatch):
    about = tmp_path / "meminfo"
    monkeypatch.setattr(module, "ABOUT", about)
    about.write_text("MemTotal:       4000 kB\nMemFree:         100 kB\nMemAvailable:   3000 kB\n")
    assert free_memory() == 3000 * 1024


def test_elsewhere_it_is_half_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ABOUT", tmp_path / "no")
    assert free_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
