"""One device, two replicas and two processes take the same steps; a lost worker ends the others."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.programs.three_steps import CASES

PROGRAMS = Path(__file__).parent / "programs"
REPOSITORY = PROGRAMS.parents[1]
PATIENCE = 240


def start(arguments, worker=None, ports=()):
    """A Python process; as one of several workers if ports are given."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    if ports:
        cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        environment["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": worker}})
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


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


def three_steps(devices, folder, cases):
    """The folder with what each case has come to on these devices."""
    ports = free_ports(2) if devices == "workers" else ()
    arguments = [PROGRAMS / "three_steps.py", devices, folder, *cases]
    processes = [start(arguments, worker, ports) for worker in range(len(ports) or 1)]
    for printed, process in [(finish(process), process) for process in processes]:
        assert process.returncode == 0, printed
    return folder


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    return three_steps("cpu:1", tmp_path_factory.mktemp("one"), CASES)


# Several workers train one model in a process: their collective operations are numbered once.
@pytest.mark.parametrize("devices, cases", [("cpu:2", [*CASES]), ("workers", ["pairs"]), ("workers", ["turns"])])
def test_same_weights_as_one_device(devices, cases, one_device, tmp_path):
    three_steps(devices, tmp_path, cases)
    for case in cases:
        check_same_weights(np.load(tmp_path / f"{case}.npz"), np.load(one_device / f"{case}.npz"))


def check_same_weights(several, one_device):
    assert int(several["replicas"]) == 2 and int(one_device["replicas"]) == 1
    assert len(several.files) == len(one_device.files)
    for name in set(one_device.files) - {"replicas"}:
        np.testing.assert_allclose(several[name], one_device[name], atol=1e-5, rtol=0, err_msg=name)


def test_uneven_batch_is_refused():
    printed = finish(start([PROGRAMS / "uneven_batch.py"]))
    assert "does not split evenly over 2 replicas" in printed


RUN = [
    "-m",
    "tfdml.train",
    "--dataset=toycars(classes=16, images_per_class=8, image_size=24)",
    "--image_size=24",
    "--backbone=small(width=8, stages=2)",
    "--embedding_size=16",
    "--sampler=pxk(classes=4, per_class=4)",
    "--steps_per_epoch=20",
    "--checkpoint_every=5",
    "--noprojector",
    "--warmup_epochs=0.6",
    "--clip_norm=1.0",
    "--ema=0.9",
]


def start_workers(run_dir, data_dir, epochs):
    ports = free_ports(2)
    return [start(run_arguments("workers", run_dir, data_dir, epochs), worker, ports) for worker in range(2)]


def run_arguments(devices, run_dir, data_dir, epochs):
    return [*RUN, f"--devices={devices}", f"--run_dir={run_dir}", f"--data_dir={data_dir}", f"--epochs={epochs}"]


def wait_for_checkpoint(run_dir, step, processes):
    deadline = time.monotonic() + PATIENCE
    while not any(int(path.name[5:]) >= step for path in run_dir.glob("checkpoints/step-*")):
        assert time.monotonic() < deadline and all(process.poll() is None for process in processes)
        time.sleep(0.05)


def final_weights(run_dir):
    newest = sorted((run_dir / "checkpoints").iterdir())[-1]
    with np.load(newest / "arrays.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def measured(run_dir):
    events = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in event.items() if name != "seconds"} for event in events]


def assert_same_end(run_dir, expected_dir):
    assert measured(run_dir) == measured(expected_dir)
    expected = final_weights(expected_dir)
    for name, weight in final_weights(run_dir).items():
        np.testing.assert_array_equal(weight, expected[name])


def test_two_replicas_go_on_exactly(tmp_path):
    """With batch normalisation, whose statistics each replica measures on its own share."""
    straight, killed, data = tmp_path / "straight", tmp_path / "killed", tmp_path / "data"
    process = start(run_arguments("cpu:2", straight, data, epochs=2))
    printed = finish(process)
    assert process.returncode == 0, printed

    process = start(run_arguments("cpu:2", killed, data, epochs=2))
    wait_for_checkpoint(killed, 25, [process])
    process.send_signal(signal.SIGKILL)
    process.wait()
    process = start(run_arguments("cpu:2", killed, data, epochs=2))
    printed = finish(process)
    assert process.returncode == 0, printed
    assert_same_end(killed, straight)


def test_lost_worker_ends_the_others_and_all_go_on_exactly(tmp_path):
    straight, killed, data = tmp_path / "straight", tmp_path / "killed", tmp_path / "data"
    for process in start_workers(straight, data, epochs=3):
        printed = finish(process)
        assert process.returncode == 0, printed

    processes = start_workers(killed, data, epochs=3)
    wait_for_checkpoint(killed, 25, processes)
    processes[1].send_signal(signal.SIGKILL)
    printed = finish(processes[0])
    assert processes[0].returncode == 1
    assert "Error: Another worker was lost" in printed and "Traceback" not in printed

    for process in start_workers(killed, data, epochs=3):
        printed = finish(process)
        assert process.returncode == 0, printed
    assert_same_end(killed, straight)
