"""No public class or function of a spec drops an argument that it does not know."""

import importlib
import inspect

import keras
import numpy as np
import pytest

import tfdml
from tests.registry.test_arguments import FITTING
from tfdml import registry

MODULES = ["tfdml", "tfdml.backbones", "tfdml.callbacks", "tfdml.data", "tfdml.evaluation", "tfdml.heads"]
MODULES += ["tfdml.layers", "tfdml.losses", "tfdml.losses.addons", "tfdml.methods", "tfdml.methods.memories"]
MODULES += ["tfdml.optimizers", "tfdml.serving", "pipelines.datasets", "pipelines.sampling"]
IMAGES = keras.Input((8, 8, 3))
MEMBER = tfdml.Single(tfdml.backbones.Small(width=2, stages=2), embedding_size=2)
# Something that fits, for arguments without a default; of some classes for all of theirs.
GIVEN = FITTING | {
    "backbone": MEMBER.backbone,
    "images": np.zeros((2, 8, 8, 3)),
    "labels": np.arange(2),
    "members": [MEMBER],
    "name": "RandomHue",
    "Backbone": {"inputs": IMAGES, "endpoints": {"a": IMAGES}, "mean": (0,) * 3, "std": (1,) * 3, "image_size": 8},
    "Borrowed": {"network": keras.Model(IMAGES, IMAGES), "package": "keras_hub", "preprocessing": {}},
    "Joined": {"features": MEMBER, "trained": MEMBER},
    "KerasApplication": {"application": "MobileNetV2"},
    "ResNet": {"depth": 18},
    "WeightedSum": {"terms": [(1.0, tfdml.losses.Triplet())]},
}
# Python's and Keras' words, and ours, all with the name; and Python's of a base class without arguments.
TOLD = r"nonsense|Sampler\(\) takes no arguments|object.__init__\(\) takes exactly one argument"


def public():
    """Name to public class, and to what specs make."""
    modules = [importlib.import_module(name) for name in MODULES]
    found = {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in names_of(module)}
    for kind in registry.ROOMS:
        found |= {f"{kind} {name}": thing for name, thing in registry.registered(kind).items()}
    return {name: thing for name, thing in found.items() if not inspect.isabstract(thing)}


def names_of(module):
    listed = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    own = ("tfdml.", "pipelines.")
    return [
        name for name in listed if inspect.isclass(each := getattr(module, name)) and each.__module__.startswith(own)
    ]


def needed_by(thing):
    parameters = inspect.signature(thing).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty and each.kind not in (2, 4)]
    given = GIVEN.get(thing.__name__) or {}
    return {name: given.get(name, GIVEN.get(name)) for name in needed}


@pytest.mark.parametrize("name", PUBLIC := public())
def test_an_unknown_argument_is_told(name):
    thing, given = PUBLIC[name], needed_by(PUBLIC[name])
    first = [given.pop(next(iter(given)))] if name == "transform layer" else []
    with pytest.raises((TypeError, ValueError), match=TOLD):
        thing(*first, **given, nonsense=1)


def test_there_are_public_classes_of_all_rooms():
    assert {name.rpartition(".")[0] for name in PUBLIC} >= set(MODULES) - {"tfdml.data"} and len(PUBLIC) > 150
