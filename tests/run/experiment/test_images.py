"""Datasets of a run: each is built once, and which images stay in memory between evaluations."""

import logging
from types import SimpleNamespace

import pytest
import tensorflow as tf

from tfdml.console.settings import ImageSettings
from tfdml.run.experiment import images as images_module
from tfdml.run.experiment.images import Batches, ImageData

GIBIBYTE = 2**30


def images(verbose=0, **settings):
    return ImageData(ImageSettings(**settings), tf.distribute.get_strategy(), verbose=verbose)


@pytest.mark.parametrize("kind", ["none", "bytes", "pixels"])
def test_images_stay_in_memory_where_they_fit(kind, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="tfdml")
    monkeypatch.setattr(images_module, "free_memory", lambda: 8 * GIBIBYTE)
    kept = [size for size in (1, 2, 3) if images(cache=kind)._keeps(size * GIBIBYTE)]
    assert kept == ([1, 2] if kind == "none" else [])
    assert not images(cache=kind, cache_memory=0.5)._keeps(GIBIBYTE)
    assert caplog.messages == []


def test_what_stays_in_memory_is_told(caplog):
    caplog.set_level(logging.INFO, logger="tfdml")
    assert images(verbose=2)._keeps(5 * 2**20)
    assert caplog.messages == ["Evaluation images stay in memory (5 MiB). To turn this off: --cache_memory=0."]


class Images:
    """Stands for `ImageData`, and counts what it builds."""

    def __init__(self):
        self.built = []

    def check(self, model):
        self.built.append("check")

    def evaluation(self, split, model, again):
        self.built.append(split)
        return split

    def training(self, model, sampler, progress, length, weight_power, references):
        assert references == "references"
        self.built.append((length, weight_power))
        return object()


def test_each_dataset_is_built_once_and_before_training():
    images = Images()
    settings = SimpleNamespace(batches=SimpleNamespace(class_weights=0.5))
    experiment = SimpleNamespace(images=images, splits=SimpleNamespace(evaluation="held out"), settings=settings)
    batches = Batches(experiment, "model", "sampler", SimpleNamespace(steps_per_epoch=5), "references")
    assert images.built == ["check", "held out", (5, 0.5)]
    assert batches.training(5) is batches.training(5) and batches.evaluation == "held out"
    # The rest of an epoch, where a run goes on.
    batches.training(2)
    assert images.built == ["check", "held out", (5, 0.5), (2, 0.5)]
