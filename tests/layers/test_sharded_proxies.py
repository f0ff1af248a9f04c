"""Proxies that are divided among devices: on one device nothing changes; tests/test_sharded_run.py has several."""

import keras
import numpy as np
import pytest

from tfdml import losses
from tfdml.layers import Proxies, ShardedProxies

LABELS = np.array([1, 3, 1])
EMBEDDINGS = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


def test_one_device_has_all():
    loss, plain = losses.ArcFace(classes=5, sharded=True), losses.ArcFace(classes=5)
    layers = []
    for each in (loss, plain):
        keras.utils.set_random_seed(0)
        layers.append(each.make_layer())
    taken, expected = (layer(EMBEDDINGS, LABELS) for layer in layers)
    np.testing.assert_array_equal(taken, expected)
    assert float(loss(LABELS, taken)) == float(plain(LABELS, expected))


def test_config_and_weights(tmp_path):
    inputs = keras.Input((4,))
    loss = losses.SubCenterArcFace(classes=5, sharded=True)
    model = keras.Model(inputs, loss.make_layer()(inputs))
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(copy.layers[-1], ShardedProxies) and copy.layers[-1].scale == loss.scale
    np.testing.assert_array_equal(copy(EMBEDDINGS), model(EMBEDDINGS))
    assert copy(EMBEDDINGS).shape == (3, 5, 3)


def test_one_class_has_nothing_to_share():
    assert type(losses.NormSoftmax(classes=1, sharded=True).make_layer()) is Proxies


@pytest.mark.parametrize(
    "use, message",
    [
        (lambda: losses.CosFace(classes=9, sharded=True, sampled_classes=4), "are sharded or sampled"),
        (lambda: losses.CosFace(sharded=True).make_layer(), "CosFace needs the number of training classes"),
        (lambda: losses.CosFace(sharded=2), "sharded to be True or False"),
    ],
)
def test_what_cannot_be_is_told(use, message):
    with pytest.raises(ValueError, match=message):
        use()


def test_losses_that_are_no_softmax_do_not_know_it():
    with pytest.raises(TypeError, match="ProxyAnchor takes no argument 'sharded'"):
        losses.ProxyAnchor(sharded=True)
