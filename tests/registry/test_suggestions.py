"""Names that do not exist, or are a module's, are answered with the one that was meant."""

import importlib

import keras
import pytest

import tfdml
from tfdml.registry import arguments as names


@pytest.mark.parametrize(
    "written, meant",
    [
        ("Triplet", "tfdml.losses.Triplet"),
        ("TripletLoss", "tfdml.losses.Triplet"),
        ("losses.TripletLoss", "tfdml.losses.Triplet"),
        ("losses.proxy_anchor_loss", "tfdml.losses.ProxyAnchor"),
        ("losses.NTXentLoss", "tfdml.losses.NTXent"),
        ("backbones.ResNet50", "tfdml.backbones.ResNet(50), or its KerasApplication('ResNet50')"),
        ("backbones.resnet18", "tfdml.backbones.ResNet(18)"),
        ("backbones.MobileNetV2", "tfdml.backbones.KerasApplication('MobileNetV2')"),
        ("MobileNetV2", "tfdml.backbones.KerasApplication('MobileNetV2')"),
        ("method", "tfdml.methods"),
        ("xyz", None),
    ],
)
def test_a_name_that_is_not_there(written, meant):
    path, _, name = f"tfdml.{written}".rpartition(".")
    hint = rf" Did you mean {meant}\?$" if meant else r"\.$"
    hint = hint.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(AttributeError, match=f"^module '{path}' has no attribute '{name}'.*{hint}"):
        getattr(importlib.import_module(path), name)


@pytest.mark.parametrize(
    "module, meant",
    [("losses.triplet", "losses.Triplet"), ("losses.n_pair", "losses.NPair"), ("losses.margin", "losses.Margin")],
)
def test_a_module_that_is_called(module, meant):
    with pytest.raises(TypeError, match=rf"^tfdml.{module} is a module, not a class. Did you mean tfdml.{meant}\?$"):
        importlib.import_module(f"tfdml.{module}")(margin=0.2)


def test_what_stands_in_place_of_the_names_of_keras_can_be_made():
    assert {"ResNet50", "EfficientNetV2B0"} <= {name for name in vars(keras.applications) if name[0].isupper()}
    assert tfdml.backbones.INSTEAD.keys() >= {name for name in vars(keras.applications) if name[0].isupper()}
    assert tfdml.backbones.ResNet(18).name == "resnet18"
    assert tfdml.backbones.KerasApplication("MobileNetV2").name == "mobilenetv2"


def test_a_suggestion_is_the_same_but_for_spelling_before_it_is_similar():
    assert names.nearest("ResNet50", ["resnet18", "resnet50"]) == " Did you mean 'resnet50'?"
    assert names.nearest("proxyanchor", ["proxy_nca", "proxy_anchor"]) == " Did you mean 'proxy_anchor'?"
    assert names.nearest("MobileNetV2", ["googlenet"]) == "" == names.meant("_repr_html_", tfdml.losses)
