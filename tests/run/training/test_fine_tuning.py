"""`auto` chooses by whether the backbone is pretrained."""

import keras
import pytest

from tfdml.backbones import Backbone
from tfdml.console.flags import parse
from tfdml.run.training.model import without_auto

AUTO = "--initial_embedding=auto"


def chosen(flags=AUTO, norm=True, pretrained=False, labels=(3, 4, 3)):
    """Optimizer, frozen batch norm and first embedding of flags, for a backbone with or without batch norm."""
    inputs = keras.Input((8, 8, 3))
    features = keras.layers.BatchNormalization()(inputs) if norm else keras.layers.ReLU()(inputs)
    backbone = Backbone(inputs, {"output": features}, mean=(0.0,) * 3, std=(1.0,) * 3, image_size=8)
    backbone.pretrained = pretrained
    settings, _ = parse(flags)
    found = without_auto(settings, backbone, labels)
    optimizer, frozen = found.optimization.optimizer, found.network.freeze_batch_norm
    begin = found.network.initial_embedding
    assert settings.replace(optimizer=optimizer, freeze_batch_norm=frozen, initial_embedding=begin) == found
    return optimizer, frozen, begin


FINE, COARSE = "adam(learning_rate=0.0001)", "adam(learning_rate=0.001)"


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({}, (COARSE, "none", "random")),
        ({"flags": "--initial_weights=imagenet\n--initial_embedding=auto"}, (FINE, "statistics", "auto")),
        ({"pretrained": True}, (FINE, "statistics", "auto")),
        ({"pretrained": True, "labels": (3, 4, 5)}, (FINE, "statistics", "pca_whitened")),
        ({"pretrained": True, "norm": False}, (FINE, "none", "auto")),
        # Labels that are drawn at random have no directions.
        ({"pretrained": True, "flags": f"{AUTO}\n--labels=clusters(k=2)"}, (FINE, "statistics", "pca_whitened")),
        (
            {"pretrained": True, "flags": f"{AUTO}\n--meta_classes=2\n--meta_classes_of=images"},
            (FINE, "statistics", "pca_whitened"),
        ),
        ({"pretrained": True, "flags": f"{AUTO}\n--meta_classes=2"}, (FINE, "statistics", "auto")),
    ],
)
def test_what_is_chosen(arguments, expected):
    assert chosen(**arguments) == expected


@pytest.mark.parametrize("frozen", ["none", "statistics", "all"])
def test_what_flags_say_stays(frozen):
    flags = f"--initial_weights=imagenet\n--optimizer=sgd\n--freeze_batch_norm={frozen}\n--initial_embedding=pca"
    assert chosen(flags) == ("sgd", frozen, "pca")
