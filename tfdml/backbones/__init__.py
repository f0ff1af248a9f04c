"""Backbones: networks that map images to features."""

import keras

from tfdml.backbones.backbone import Backbone, Identity
from tfdml.backbones.borrowed import Borrowed, KerasApplication, keras_cv, keras_hub
from tfdml.backbones.inception import BNInception, GoogLeNet
from tfdml.backbones.resnet import ResNet
from tfdml.backbones.small import Small
from tfdml.backbones.weights import load_adapter, save_adapter
from tfdml.layers.blocks import recompute_blocks
from tfdml.layers.lora import enable_lora

__all__ = [
    "BNInception",
    "Backbone",
    "Borrowed",
    "GoogLeNet",
    "Identity",
    "KerasApplication",
    "ResNet",
    "Small",
    "enable_lora",
    "keras_cv",
    "keras_hub",
    "load_adapter",
    "recompute_blocks",
    "save_adapter",
]

# Names that users may know from other packages, and the tfdml names that replace them.
INSTEAD = {name: f"KerasApplication({name!r})" for name in dir(keras.applications) if name[0].isupper()}
INSTEAD |= {"ResNet18": "ResNet(18)", "ResNet50": "ResNet(50), or its KerasApplication('ResNet50')"}
