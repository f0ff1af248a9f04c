"""`auto` chooses by whether the backbone is pretrained."""

import keras
import pytest

from tfdml.backbones import Backbone
from tfdml.console.flags import parse
from tfdml.run.training.fine_tuning import without_auto


def chosen(flags="", norm=True, pretrained=False):
    """Optimizer and frozen batch norm of flags, for a backbone with or without batch norm."""
    inputs = keras.Input((8, 8, 3))
    features = keras.layers.BatchNormalization()(inputs) if norm else keras.layers.ReLU()(inputs)
    backbone = Backbone(inputs, {"output": features}, mean=(0.0,) * 3, std=(1.0,) * 3, image_size=8)
    backbone.pretrained = pretrained
    settings, _ = parse(flags)
    found = without_auto(settings, backbone)
    optimizer, frozen = found.optimization.optimizer, found.network.freeze_batch_norm
    assert settings.replace(optimizer=optimizer, freeze_batch_norm=frozen) == found
    return optimizer, frozen


FINE, COARSE = "adam(learning_rate=0.0001)", "adam(learning_rate=0.001)"


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({}, (COARSE, "none")),
        ({"flags": "--initial_weights=imagenet"}, (FINE, "statistics")),
        ({"pretrained": True}, (FINE, "statistics")),
        ({"pretrained": True, "norm": False}, (FINE, "none")),
    ],
)
def test_what_is_chosen(arguments, expected):
    assert chosen(**arguments) == expected


@pytest.mark.parametrize("frozen", ["none", "statistics", "all"])
def test_what_flags_say_stays(frozen):
    flags = f"--initial_weights=imagenet\n--optimizer=sgd\n--freeze_batch_norm={frozen}"
    assert chosen(flags) == ("sgd", frozen)
