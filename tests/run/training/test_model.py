"""The model of a run: what its backbone must declare, and what `auto` chooses by whether that is pretrained."""

import logging
import types

import keras
import numpy as np
import pytest

from tfdml import registry
from tfdml.backbones import Backbone, Small
from tfdml.console.flags import parse
from tfdml.layers.norms import batch_norms
from tfdml.methods import Single
from tfdml.run.training.initial_model import check_takes, initial_backbone, make_backbone
from tfdml.run.training.model import _embedding_model, _settings_for, without_auto


def test_a_network_that_declares_nothing_is_an_error(monkeypatch):
    monkeypatch.setitem(registry.registered("backbone"), "own", lambda: keras.Sequential())
    with pytest.raises(ValueError, match="--backbone=own must be a tfdml.backbones.Backbone, .*Sequential.*mean="):
        make_backbone("own")


@pytest.mark.parametrize("weights", ["", "first.weights.h5"])
def test_statistics_of_random_weights_follow_the_last_batches(weights, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="tfdml")
    spec = "keras_applications(name='MobileNetV2', alpha=0.35)"
    if weights:
        make_backbone(spec).save_weights(tmp_path / weights)
        weights = str(tmp_path / weights)
    settings, _ = parse(f"--backbone={spec}\n--initial_weights={weights}")
    backbone = initial_backbone(settings.network, tell=True)
    assert {layer.momentum for layer in batch_norms(backbone)} == {0.999 if weights else 0.9}
    assert ("moving statistics with momentum 0.9 instead of 0.999" in caplog.text) == (not weights)


def embedding_model(flags):
    """The model of flags for a network with pretrained batch norm."""
    settings, _ = parse(flags)
    backbone = Small(width=4, stages=1)
    backbone.pretrained = True
    images = types.SimpleNamespace(preprocessing=lambda model: None)
    experiment = types.SimpleNamespace(settings=settings, images=images)
    return _embedding_model(experiment, without_auto(settings, backbone).network, backbone)


def test_auto_freezes_batch_norm_unless_the_method_says_otherwise():
    assert embedding_model("").freeze_batch_norm == "statistics"
    assert embedding_model("--method=single(freeze_batch_norm='none')").freeze_batch_norm == "none"


def test_auto_asks_nothing_of_a_method_that_takes_no_such_argument(monkeypatch):
    def plain(backbone, embedding_size):
        return Single(backbone, embedding_size)

    monkeypatch.setitem(registry.registered("method"), "plain", plain)
    assert embedding_model("--method=plain").freeze_batch_norm == "none"
    with pytest.raises(ValueError, match="no argument 'freeze_batch_norm', which --freeze_batch_norm sets"):
        embedding_model("--method=plain\n--freeze_batch_norm=statistics")


def test_a_method_without_a_linear_layer_takes_no_size():
    assert embedding_model("--method=features").learners_shape == (1, 4)
    with pytest.raises(ValueError, match="no argument 'embedding_size', which --embedding_size sets"):
        embedding_model("--method=features\n--embedding_size=64")


@pytest.mark.parametrize(
    "spec, size, said",
    [
        ("googlenet", 8, "Its feature maps would be empty."),
        ("keras_applications(name='MobileNetV2')", 8, "Computed output size would be zero or negative."),
        # TensorFlow would crash.
        ("keras_applications(name='InceptionV3')", 8, "Computed output size would be zero or negative."),
    ],
)
def test_images_that_are_too_small_for_a_backbone(spec, size, said):
    backbone = registry.create("backbone", spec)
    own = rf"such as --image_size={backbone.image_size}, its default\. Reason: {said}$"
    with pytest.raises(ValueError, match=f"does not accept images of {size} x {size} pixels. Use another size, {own}"):
        check_takes(backbone, size, spec)
    check_takes(Small(width=4, stages=2), 8, "small")
    with pytest.raises(ValueError, match=f"does not accept images of 64 x {size} pixels. Use another size, {own}"):
        check_takes(backbone, (64, size), spec)
    check_takes(Small(width=4, stages=2), (16, 8), "small")


@pytest.mark.parametrize("side", [(16, 16), (32, 16)])
def test_a_network_of_one_size_refuses_others(side):
    """As transformers are, whose position embeddings have a size."""
    inputs = keras.Input((*side, 3))
    patches = keras.layers.Reshape((-1, 4))(keras.layers.Conv2D(4, 8, strides=8)(inputs))
    features = keras.layers.Dense(4)(keras.layers.Flatten()(patches))
    backbone = Backbone(inputs, {"features": features}, mean=(0,) * 3, std=(1,) * 3, image_size=list(side))
    own = "16" if side == (16, 16) else "32x16"
    for size in ((32, 8), 24):
        with pytest.raises(
            ValueError, match=rf"does not accept images of \d+ x \d+ pixels. .* such as --image_size={own}, its default"
        ):
            check_takes(backbone, size, "vit")
    check_takes(backbone, side, "vit")


@pytest.mark.parametrize("pretrained", [True, False])
def test_flags_that_need_pretrained_weights_are_told_where_there_are_none(pretrained, caplog):
    caplog.set_level("INFO")
    settings = parse("--blend\n--baselines=pca\n--optimizer=adam\n--initial_embedding=random")[0]
    backbone, train = Small(width=4, stages=1), types.SimpleNamespace(labels=np.zeros(4, int))
    backbone.pretrained = pretrained
    experiment = types.SimpleNamespace(settings=settings, splits=types.SimpleNamespace(train=train))
    _settings_for(backbone, experiment, tell=True)
    told = [message for message in caplog.messages if "has no effect" in message]
    assert told == [
        f"--{name} has no effect, because this backbone starts from random weights."
        for name in ("baselines", "blend")
        if not pretrained
    ]


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
