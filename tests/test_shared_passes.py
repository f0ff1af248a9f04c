"""Two workers share passes over images: the same bits as one process, and no worker waits for one that failed."""

import numpy as np
import pytest

from tests.commands import Forked
from tests.photo_runs import half, photo_flags
from tests.worker_processes import PROGRAMS, config_of, finish, free_ports, start
from tfdml.run.training.run_training import LOST_WORKER

pytestmark = pytest.mark.slow

PROGRAM = PROGRAMS / "shared_passes.py"


def two_workers(*arguments):
    """Two processes that have ended, and what each has printed."""
    ports = free_ports(2)
    processes = [start([PROGRAM, "workers", *arguments], worker, ports) for worker in range(2)]
    return [(process, finish(process)) for process in processes]


def test_the_same_bits_as_one_process(tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    process = start([PROGRAM, "cpu:1", alone])
    for each, printed in [(process, finish(process)), *two_workers(together)]:
        assert each.returncode == 0, printed
    expected = np.load(alone / "0.npz")
    assert len(set(expected["assignment"])) == 2 and expected["refreshed"].min() >= 0
    seen = []
    for worker in range(2):
        found = dict(np.load(together / f"{worker}.npz"))
        assert list(found) == expected.files
        seen.append(int(found.pop("seen by this worker")))
        different = [name for name in found if found[name].tobytes() != expected[name].tobytes()]
        assert not different, worker
    # Batches of eight: seven of them, the last filled up.
    assert seen == [24, 32]


@pytest.mark.nightly
def test_an_image_that_one_cannot_read_is_an_error_on_both(tmp_path):
    for _, printed in two_workers(tmp_path, "error"):
        last = printed[printed.rindex("InvalidArgumentError: ") :]
        assert "The file is not a JPEG, PNG or WebP image" in last and "IteratorGetNext" in last


@pytest.mark.nightly
def test_a_worker_lost_within_a_pass_is_an_error_on_the_other(tmp_path):
    (_, printed), (lost, _) = two_workers(tmp_path, "kill")
    assert lost.returncode == -9
    assert any(f"\n{error.__name__}: " in printed for error in LOST_WORKER), printed


@pytest.mark.nightly
def test_both_name_the_image_that_one_cannot_read(damaged_photos, tmp_path):
    folder, path = damaged_photos("test/gnu/3.jpg", half)
    ports = free_ports(2)
    flags = photo_flags(folder, tmp_path / "run", "--devices=workers", "--eval_batch_size=4")
    for worker in [Forked("tfdml.train", *flags, environment=config_of(worker, ports)) for worker in range(2)]:
        done = worker.wait()
        lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        assert len(lines) == 1 and f"Cannot read {path}" in lines[0], done.stderr
