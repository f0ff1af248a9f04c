"""Batch sizes of evaluation, and which images stay in memory."""

import pytest
import tensorflow as tf

from tfdml.console.settings import ImageSettings
from tfdml.run.experiment import image_data
from tfdml.run.experiment.image_data import GIBIBYTE, ImageData


def images(verbose=0, **settings):
    return ImageData(ImageSettings(**settings), tf.distribute.get_strategy(), verbose=verbose)


@pytest.mark.parametrize("side, size", [(8, 128), (48, 128), (64, 128), (96, 32), (128, 32), (224, 8), (4096, 8)])
def test_large_images_are_embedded_in_small_batches_on_cpus(side, size, monkeypatch):
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
    assert images().eval_batch_size(side) == size
    assert images(eval_batch_size=50).eval_batch_size(side) == 50


def test_gpus_embed_large_batches(monkeypatch):
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["a GPU"])
    assert images().eval_batch_size(224) == 128 and images(eval_batch_size=50).eval_batch_size(224) == 50


@pytest.mark.parametrize("kind", ["auto", "none", "bytes", "pixels"])
def test_images_stay_in_memory_where_they_fit(kind, monkeypatch, capsys):
    monkeypatch.setattr(image_data, "free_memory", lambda: 8 * GIBIBYTE)
    kept = [size for size in (1, 2, 3) if images(cache=kind)._keeps(size * GIBIBYTE)]
    assert kept == ([1, 2] if kind == "auto" else [])
    assert not images(cache=kind, cache_memory=0.5)._keeps(GIBIBYTE)
    assert capsys.readouterr().out == ""


def test_what_stays_in_memory_is_told(capsys):
    assert images(verbose=2)._keeps(5 * 2**20)
    assert capsys.readouterr().out == "Images of evaluation stay in memory, 5 MiB; not with --cache=none.\n"
