"""Losses of every kind train by `--loss=NAME` alone, through the real command line."""

import pytest

from tests.run_helpers import events, train

# On pairs, with a schedule, with proxies, with several of them, on a manifold.
LOSSES = ["triplet", "ranked_list", "proxy_nca", "soft_triple", "contextual_manifold"]

# Every batch is the whole training split, without augmentation and dropout: what falls, falls because it is learned.
SETTING = [
    "--sampler=pxk(classes=8, per_class=8)",
    "--train_transform=center_crop",
    "--method=single",
    "--optimizer=adam(learning_rate=0.01)",
    "--epochs=2",
    "--steps_per_epoch=6",
    "--eval_every=2",
]


@pytest.mark.parametrize("name", LOSSES)
def test_loss_falls_from_the_first_epoch_to_the_second(tmp_path, name):
    done = train(tmp_path / "run", *SETTING, f"--loss={name}")
    assert done.returncode == 0, done.stderr
    first, second = (event["loss"] for event in events(tmp_path / "run") if event["event"] == "train")
    # The manifold losses stay near log(classes) for long, their similarities being small: they fall by the least.
    assert second < 0.9999 * first
