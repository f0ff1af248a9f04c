"""Proxies sharded over two devices are saved as a whole, which two devices or one go on with.

tests/test_distribution.py has their steps beside those of one device.
"""

import json

import numpy as np
import pytest

from tests.worker_processes import PROGRAMS, finish, start

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    for devices in ("cpu:2", "cpu:1"):
        process = start([PROGRAMS / "sharded_proxies.py", devices, folder])
        printed = finish(process)
        assert process.returncode == 0, printed
        assert f"{devices[-1]} devices hold the proxies." in printed
    return folder


def differences(folder, one, other, exactly=True):
    one, other = np.load(folder / f"{one}.npz"), np.load(folder / f"{other}.npz")
    tolerance = {"rtol": 0.0, "atol": 0.0} if exactly else {"rtol": 1e-5, "atol": 1e-6}
    # In a file the layers of a model have names of their own.
    for name, found, expected in zip(one.files, one.values(), other.values(), strict=True):
        np.testing.assert_allclose(found, expected, **tolerance, err_msg=name)


def test_what_belongs_to_proxies_is_sharded(folder):
    paths = json.loads((folder / "sharded.json").read_text())
    assert len(paths) == 3 and all("proxies" in path for path in paths)
    saved = np.load(folder / "saved.npz")
    assert [saved[name].shape for name in saved.files if "proxies" in name] == [(7, 6)] * 3


def test_two_devices_go_on_with_the_same_bits(folder):
    differences(folder, "went_on_cpu:2", "straight")


def test_one_device_goes_on_with_the_checkpoint_of_two(folder):
    differences(folder, "went_on_cpu:1", "straight", exactly=False)


@pytest.mark.parametrize("devices", ["cpu:2", "cpu:1"])
def test_a_file_has_all_proxies(folder, devices):
    differences(folder, f"loaded_{devices}", "saved")


@pytest.mark.parametrize(
    "use, message",
    [
        ("lamb", "updates each number from its own gradients. Expected Adagrad"),
        ("turns", "DivideAndConquer does not support sharded=True"),
        ("plain", "In plain Keras, remove sharded=True"),
        ("regularizer", "ShardedProxies cannot have a regularizer on several devices"),
    ],
)
def test_what_cannot_be_is_told(folder, use, message):
    assert message in json.loads((folder / "refused.json").read_text())[use]


def test_fit_makes_the_variables(folder):
    assert json.loads((folder / "refused.json").read_text())["nothing"] is None
