"""Two runs on a GPU leave the same bits."""

import pytest

from tests.commands import Command
from tests.methods.test_every_method import OPTIONS
from tests.run_helpers import assert_same_run, train_flags

SPECS = [f"{name}({', '.join(f'{key}={value}' for key, value in own.items())})" for name, own in OPTIONS.items()]


@pytest.mark.parametrize("method", SPECS)
def test_same_bits_again(method, kind, tmp_path):
    more = [
        f"--method={method}",
        "--loss=proxy_nca",
        "--epochs=1",
        "--steps_per_epoch=2",
        f"--devices={kind.lower()}:1",
    ]
    runs = [tmp_path / name for name in ("one", "other")]
    for run_dir in runs:
        done = Command("tfdml.train", *train_flags(run_dir, *more)).wait()
        assert done.returncode == 0, done.stderr
    assert_same_run(*runs)
