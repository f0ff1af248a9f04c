"""Runs on a folder of photos, and what may be wrong with an image file."""

from tests.run_helpers import MODEL_FLAGS


def photo_flags(folder, run_dir, *more):
    short = ["--epochs=1", "--steps_per_epoch=2", "--sampler=pxk(classes=2, per_class=2)"]
    return ["--dataset=folder", f"--data_dir={folder}", *MODEL_FLAGS, *short, f"--run_dir={run_dir}", *more]


def half(content):
    return content[: len(content) // 2]


def text(content):
    return b"no image"


def nothing(content):
    return b""
