"""The command that draws a batch."""

import numpy as np
import pytest
from PIL import Image

from tests.commands import assert_one_error, run
from tests.run_helpers import train_flags

CHAIN = "--train_transform=random_resized_crop(area=(0.2, 1.0))|flip"


def show(out, *more):
    return run("tfdml.show", *train_flags("not made"), f"--out={out}", *more)


def sheet(out, *more):
    done = show(out, *more)
    assert done.returncode == 0, done.stderr
    return np.asarray(Image.open(out).convert("RGB")), done.stdout


@pytest.mark.nightly
def test_it_draws_the_batch_of_a_step(tmp_path):
    first, told = sheet(tmp_path / "first.png", CHAIN, "--step=25")
    assert "training batch 25: 16 images of 4 classes, 24 × 24" in told
    other, _ = sheet(tmp_path / "other.png", CHAIN, "--step=26")
    assert first.shape == other.shape and np.any(first != other)


def test_it_draws_a_batch_of_evaluation(tmp_path):
    _, told = sheet(tmp_path / "test.png", "--split=test", "--eval_batch_size=50", "--step=1", "--images=7")
    assert "evaluation batch 1: 14 images" in told


def test_stored_features_cannot_be_drawn(tmp_path):
    dataset = "embeddings(path='features.npz', test_classes=0.3)"
    done = run("tfdml.show", f"--dataset={dataset}", "--backbone=identity", f"--out={tmp_path}/batch.png")
    assert_one_error(done, "has stored features, which cannot be drawn")


def test_evaluation_has_only_so_many_batches(tmp_path):
    done = show(tmp_path / "batch.png", "--split=test", "--step=9")
    assert_one_error(done, "--step=9", "1 batches of 128 images")
    assert not (tmp_path / "batch.png").exists()


@pytest.mark.slow
def test_a_missing_folder_and_another_format_are_told_before_anything_is_read(tmp_path):
    assert_one_error(show(tmp_path / "absent" / "batch.png"), "does not exist", "absent")
    assert_one_error(show(tmp_path / "batch.xyz"), "--out must end in .png")
