"""Every registered loss trains by `--loss=NAME` alone, through the real command line."""

import pytest

from tests.run_helpers import events, train
from tfdml import registry

# One setting for all; an epoch is long enough for its mean loss to be far below that of the one before.
SETTING = [
    "--epochs=2",
    "--eval_every=2",
    "--steps_per_epoch=20",
    "--method=single",
    "--optimizer=adam(learning_rate=0.003)",
    "--train_transform=center_crop",
]


@pytest.mark.parametrize("name", registry.names("loss"))
def test_loss_falls_from_the_first_epoch_to_the_second(tmp_path, name):
    done = train(tmp_path / "run", *SETTING, f"--loss={name}")
    assert done.returncode == 0, done.stderr
    first, second = (event["loss"] for event in events(tmp_path / "run") if event["event"] == "train")
    assert second < 0.97 * first
