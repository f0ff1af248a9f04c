"""Which images stay in memory between evaluations."""

import logging

import pytest
import tensorflow as tf

from tfdml.console.settings import ImageSettings
from tfdml.run.experiment import images as images_module
from tfdml.run.experiment.images import GIBIBYTE, ImageData


def images(verbose=0, **settings):
    return ImageData(ImageSettings(**settings), tf.distribute.get_strategy(), verbose=verbose)


@pytest.mark.parametrize("kind", ["none", "bytes", "pixels"])
def test_images_stay_in_memory_where_they_fit(kind, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(images_module, "free_memory", lambda: 8 * GIBIBYTE)
    kept = [size for size in (1, 2, 3) if images(cache=kind)._keeps(size * GIBIBYTE)]
    assert kept == ([1, 2] if kind == "none" else [])
    assert not images(cache=kind, cache_memory=0.5)._keeps(GIBIBYTE)
    assert caplog.messages == []


def test_what_stays_in_memory_is_told(caplog):
    caplog.set_level(logging.INFO)
    assert images(verbose=2)._keeps(5 * 2**20)
    assert caplog.messages == ["Images of evaluation stay in memory, 5 MiB; not with --cache_memory=0."]
