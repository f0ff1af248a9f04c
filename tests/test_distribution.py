"""One device, two replicas and two processes take the same steps; a lost worker ends the others."""

import functools

import numpy as np
import pytest

from tests.commands import Forked
from tests.programs.three_steps import CASES, IN_FLOAT32
from tests.run_helpers import assert_same_run, assert_went_on, made_once, steps, train_flags
from tests.worker_processes import PROGRAMS, config_of, finish, free_ports, start

pytestmark = pytest.mark.slow


def begun(devices, folder, cases, settings=None):
    """Processes that write to the folder what each case comes to on these devices, with these environment variables."""
    ports = free_ports(2) if devices == "workers" else ()
    arguments = [PROGRAMS / "three_steps.py", devices, folder, *cases]
    return [start(arguments, worker, ports, settings) for worker in range(len(ports) or 1)]


# The others, of which some take many seconds, are for the nights.
FIRST, PAIRS = ["groups", "shards"], ["pairs"]
OTHERS = [name for name in CASES | IN_FLOAT32 if name not in FIRST]
# How other processors sum: without AVX-512 and in two threads; without oneDNN.
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "TF_NUM_INTRAOP_THREADS": "2"}
NO_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}


def succeed(processes):
    for printed, process in [(finish(process), process) for process in processes]:
        assert process.returncode == 0, printed


def three_steps(devices, folder, cases, settings=None):
    """The folder with what each case has come to."""
    succeed(begun(devices, folder, cases, settings))
    return folder


@functools.cache
def on_one_device(cases):
    def make(folder):
        folder.mkdir()
        three_steps("cpu:1", folder, cases)

    return made_once(f"one device {len(cases)} {cases[0]}", make)


# Several workers train one model in a process: their collective operations are numbered once.
@pytest.mark.parametrize(
    "devices, cases, settings",
    [
        ("cpu:2", FIRST, AVX2),
        pytest.param("cpu:2", OTHERS, AVX2, marks=pytest.mark.nightly),
        pytest.param("workers", PAIRS, NO_ONEDNN, marks=pytest.mark.nightly),
        pytest.param("workers", ["tails"], NO_ONEDNN, marks=pytest.mark.nightly),
    ],
    ids=["replicas", "other_cases", "workers", "workers_with_a_memory"],
)
def test_same_weights_as_one_device(devices, cases, settings, tmp_path):
    processes = begun(devices, tmp_path, cases, settings)
    # Meanwhile, since they also wait.
    one = on_one_device(tuple(cases))
    succeed(processes)
    for case in cases:
        check_same_weights(tmp_path, one, case)
    pieces = {f"{name}_in_pieces": name for name in ("texts", "texts_by_sigmoid") if name in cases}
    for name, whole in pieces.items():
        check_same_weights(tmp_path, one, name, other=whole)
    if "recomputed_blocks" in cases:
        check_same_weights(tmp_path, one, "recomputed_blocks", other="blocks")


def check_same_weights(several, one_device, case, replicas=2, other=None):
    """Two folders of `three_steps`, of several devices and of one, have the same for a case, or two."""
    several, one_device = np.load(several / f"{case}.npz"), np.load(one_device / f"{other or case}.npz")
    tolerance = 1e-5 if case in IN_FLOAT32 else 1e-12
    assert int(several["replicas"]) == replicas and int(one_device["replicas"]) == 1
    assert len(several.files) == len(one_device.files)
    for name in set(one_device.files) - {"replicas"}:
        np.testing.assert_allclose(several[name], one_device[name], atol=tolerance, rtol=tolerance, err_msg=name)


@pytest.mark.nightly
def test_uneven_batch_is_refused():
    printed = finish(start([PROGRAMS / "uneven_batch.py"]))
    assert "does not split evenly over 2 replicas" in printed


def made_in_parts(*names):
    """Returns the result of each way of making a model, by its name, and all that is printed."""
    printed = finish(start([PROGRAMS / "made_in_parts.py", *names]))
    return dict(line.split(maxsplit=1) for line in printed.splitlines() if "_" in line.split(maxsplit=1)[0]), printed


@pytest.mark.nightly
def test_models_that_are_called_or_compiled_outside_the_scope():
    learn = ("called_outside", "in_half_precision", "predicted_first", "built_and_compiled_outside")
    learn += ("called_in_replicas",)
    found, printed = made_in_parts(*learn, "model_outside", "backbone_outside", "optimizer_outside")
    assert [found[name] for name in learn] == ["True"] * 5, printed
    advice = "but the strategy has 2 devices. Create the backbone, the model and the optimizer inside"
    for made, variable in (
        ("backbone_outside", "inner/kernel"),
        ("optimizer_outside", "iteration"),
        ("model_outside", "inner/kernel"),
    ):
        assert variable in found[made] and advice in found[made], printed


RUN = ["--warmup_epochs=0.6", "--clip_norm=1.0", "--ema=0.9", "--method=single", "--checkpoint_every=5", "--epochs=2"]


def start_run(run_dir, devices):
    return Forked("tfdml.train", *train_flags(run_dir, *RUN, f"--devices={devices}"))


def start_workers(run_dir):
    ports = free_ports(2)
    flags = train_flags(run_dir, *RUN, "--devices=workers")
    return [Forked("tfdml.train", *flags, environment=config_of(worker, ports)) for worker in range(2)]


def has_gone_on_to(run_dir, step):
    return lambda: max(steps(run_dir), default=0) >= step


def completed(*commands):
    """Waits until all commands have ended well; returns the first."""
    ended = [command.wait() for command in commands]
    for done in ended:
        assert done.returncode == 0, done.stderr
    return ended[0]


@pytest.mark.nightly
def test_two_replicas_go_on_exactly(tmp_path):
    """With batch normalisation, whose statistics each replica measures on its own share."""
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    completed(start_run(straight, "cpu:2"))
    stopped = start_run(killed, "cpu:2").until(has_gone_on_to(killed, 25)).kill()
    assert stopped.returncode == -9
    assert_went_on(killed, completed(start_run(killed, "cpu:2")))
    assert_same_run(killed, straight)


@pytest.mark.nightly
def test_lost_worker_ends_the_others_and_all_go_on_exactly(tmp_path):
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    completed(*start_workers(straight))

    first, second = start_workers(killed)
    second.until(has_gone_on_to(killed, 25)).kill()
    done = first.wait()
    assert done.returncode == 1
    assert "Error: Another worker was lost" in done.stderr and "Traceback" not in done.stderr

    assert_went_on(killed, completed(*start_workers(killed)))
    assert_same_run(killed, straight)
