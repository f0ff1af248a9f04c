"""Types and ranges of arguments, those of everything registered, and names that nothing takes."""

import importlib
import inspect
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from tfdml import losses, registry
from tfdml.functional.manifold import random_walk
from tfdml.registry import arguments
from tfdml.registry.arguments import SIZE, Sides, sides_of

importlib.import_module("tfdml.layers")
for room in registry.ROOMS.values():
    registry.import_room(room)
THINGS = {(kind, name): thing for kind, named in registry.parts._registered.items() for name, thing in named.items()}
SAVED = {thing.__name__: thing for thing in keras.saving.get_custom_objects().values()}
THINGS |= {("layer", name): thing for name, thing in SAVED.items() if thing.__module__.startswith("tfdml.layers.")}
# Only sums of losses create it, from a regularizer of theirs.
del THINGS["layer", "ProxyCost"]

# Something that fits, for arguments without a default.
FITTING = {
    "address": "folder",
    "area": 0.5,
    "backbone": keras.Sequential(),
    "channels": 4,
    "classes": 4,
    "data_dir": "folder",
    "dataset": "folder",
    "dims": (2, 4),
    "embedding_size": 8,
    "epochs": 4,
    "factors": [1.0],
    "file": "pairs.csv",
    "k": 3,
    "learners": 2,
    "learning_rate": 0.1,
    "loss": "triplet",
    "name": "name",
    "parts": [None],
    "path": "table.csv",
    "per_class": 2,
    "pool_size": 3,
    "preset": "preset",
    "rate": 0.01,
    "reference": "teacher",
    "sampled": 3,
    "scale": 8.0,
    "size": 8,
    "sizes": (4, 8),
    "steps_per_epoch": 10,
    "strides": 2,
}
# What no argument takes whose default is of such a type.
IMPOSSIBLE = {
    bool: [None, 0, 1, 1.0, "True", "", (), [True], {}],
    int: [True, 1.5, 2.0, math.nan, math.inf, -math.inf, "8", "", (8,), [], {}, {8: 8}, object()],
    float: [True, False, math.nan, math.inf, -math.inf, 10**400, 1j, "0.5", "", (0.5,), [], {}, object()],
    str: [True, 1, 1.5, math.nan, "", ("avg",), ["avg"], {}, object()],
    tuple: [None, True, 1.5, math.nan, "", {}, {"a": 1}, (None,), (True, False), [math.nan, math.inf], object()],
}
# Without a default, or with None for it: some are numbers, some texts or objects.
IMPOSSIBLE_FOR_ALL = [True, math.nan, math.inf, 1j, {1: object()}, (object(),), b"bytes"]
# Arguments that take -1; for every other number it is impossible.
MAY_BE_NEGATIVE = {
    ("loss", "multi_similarity", "epsilon"),
    ("layer", "ClassMargins", "beta"),
    ("loss", "image_text", "bias"),
    ("sampler", "corpus_negatives", "margin"),
    ("sampler", "corpus_negatives", "teacher_margin"),
    ("loss", "binomial_deviance", "beta"),
    ("protocol", "query_gallery", "junk"),
    ("loss", "circle", "margin"),
    ("loss", "multi_similarity", "base"),
    ("miner", "multi_similarity", "epsilon"),
    ("miner", "pair_margin", "negative_margin"),
    ("miner", "pair_margin", "positive_margin"),
    ("loss", "ranked_list", "final_negative_temperature"),
    ("loss", "ranked_list", "negative_temperature"),
    ("loss", "ranked_list", "positive_temperature"),
    ("loss", "ranked_list_simpler", "final_negative_temperature"),
    ("loss", "ranked_list_simpler", "negative_temperature"),
    ("loss", "threshold_consistent_margin", "negative_margin"),
    ("loss", "threshold_consistent_margin", "positive_margin"),
}
# These take any object that Keras can make something of.
OF_KERAS = {"initializer", "regularizer"}
# Names that are looked up elsewhere.
FREE_TEXT = {"branch", "distance", "image", "index", "label", "loss", "mining", "text"}
# What fits although the default is of another type.
FITS_AS_WELL = {("transform", "resize_pad", "fill"): [1.5, 2.0], ("schedule", "step", "at"): [1.5]}


def parameters_of(thing):
    variadic = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    parameters = inspect.signature(thing).parameters
    return {name: parameter.default for name, parameter in parameters.items() if parameter.kind not in variadic}


def expected_of(thing):
    fields = (thing.__init__ if isinstance(thing, type) else thing).fields
    return {name: field.expected for name, field in fields.items() if field.expected}


def make(thing, argument, value):
    needed = [name for name, default in parameters_of(thing).items() if default is inspect.Parameter.empty]
    given = {**{name: FITTING[name] for name in needed}, argument: value}
    parameters = inspect.signature(thing).parameters
    nameless = [given.pop(name) for name in list(given) if parameters[name].kind is inspect.Parameter.POSITIONAL_ONLY]
    return thing(*nameless, **given)


def impossible(kind, name, argument, default):
    fits = FITS_AS_WELL.get((kind, name, argument), [])
    values = [value for value in IMPOSSIBLE.get(type(default), IMPOSSIBLE_FOR_ALL) if value not in fits]
    if isinstance(default, str) and argument not in FREE_TEXT:
        values = [*values, "no such choice"]
    may_be_negative = (kind, name, argument) in MAY_BE_NEGATIVE or argument in OF_KERAS
    return values if may_be_negative or isinstance(default, bool) else [*values, -1, -0.5]


@pytest.mark.parametrize("kind, name", THINGS)
def test_every_argument_is_declared_and_takes_its_default(kind, name):
    expected = expected_of(THINGS[kind, name])
    parameters = parameters_of(THINGS[kind, name])
    assert not parameters.keys() - expected.keys(), "annotate it"
    for argument, default in parameters.items():
        value = FITTING[argument] if default is inspect.Parameter.empty else default
        read = expected[argument].read(value)
        assert read is value or (tuple(read) if isinstance(value, list) else read) == (
            tuple(value) if isinstance(value, list) else value
        )


@pytest.mark.parametrize("kind, name", THINGS)
def test_wrong_types_and_impossible_numbers_are_told(kind, name):
    thing = THINGS[kind, name]
    for argument, default in parameters_of(thing).items():
        words = expected_of(thing)[argument].words
        for value in impossible(kind, name, argument, default):
            with pytest.raises(ValueError) as error:
                make(thing, argument, value)
            start, received = str(error.value).split(". Received: ")
            owner = name if kind == "layer" else f"The {kind} {name!r}"
            assert start == f"{owner} expects {argument} to be {words}", (argument, value)
            assert received.startswith(f"{argument}=") and received.endswith(".") and len(received) < 90 + len(argument)


@pytest.mark.parametrize(
    "kind, spec, message",
    [
        (
            "loss",
            "triplet(margin='a')",
            "'triplet' expects margin to be a number of 0 or more. Received: margin='a'.",
        ),
        ("loss", "triplet + 0.5 * triplet(margin=1e999)", "margin to be a number of 0 or more. Received: margin=inf."),
        ("optimizer", "adam(learning_rate=-1)", "expects learning_rate to be a number above 0 and at most 10, or a "),
        ("optimizer", "adam(learning_rate=1e9)", "a function of the step. Received: learning_rate=1000000000.0."),
        (
            "protocol",
            "query_gallery(metrics=5)",
            "text, or a tuple of one or more texts. Received: metrics=5.",
        ),
        ("schedule", "step(at=('a',))", "at to be a number above 0, or a tuple of numbers above 0. Received: at=('a'"),
    ],
)
def test_specs_are_told_what_was_expected_and_received(kind, spec, message):
    with pytest.raises(ValueError) as error:
        registry.create(kind, spec, size=8, learning_rate=0.1, steps_per_epoch=10, epochs=4)
    assert message in str(error.value)


def test_numbers_are_read_as_python_has_them():
    for margin in (1, np.float32(1), np.int64(1)):
        config = losses.Triplet(margin=margin, swap=np.bool_(True)).get_config()
        assert type(config["margin"]) is float and config["margin"] == 1 and config["swap"] is True
    assert losses.FastAP(bins=np.int32(7)).get_config()["bins"] == 7
    assert registry.create("transform", "random_resized_crop(area=[1, 1])", size=8)


def test_optimizers_take_what_keras_takes():
    for rate in (keras.optimizers.schedules.CosineDecay(0.1, 10), lambda step: 0.1, np.float32(0.1), 1):
        registry.create("optimizer", "adam", learning_rate=rate)


def test_what_is_wrapped_looks_as_before():
    parameters = inspect.signature(losses.Triplet).parameters
    assert list(parameters)[:2] == ["margin", "mining"] and parameters["margin"].default == 0.2
    assert "semi_hard" in inspect.getdoc(losses.Triplet) and losses.Triplet.__name__ == "Triplet"
    with pytest.raises(TypeError, match="marign"):
        losses.Triplet(marign=1)


def test_a_subclass_is_checked_as_its_base():
    class Own(losses.Triplet):
        def __init__(self, margin):
            super().__init__(margin=margin)

    assert Own(0.5).margin == 0.5
    with pytest.raises(ValueError, match="margin to be a number of 0 or more. Received: margin=-1"):
        Own(-1)


def test_functions_take_tensors_unchecked(make_batch):
    rows, proxies = make_batch(6)[1], np.eye(3, 5, dtype="float32")
    reached = random_walk(rows, proxies, restart=0.3)[0]
    compiled = tf.function(lambda restart: random_walk(rows, proxies, restart=restart)[0])
    np.testing.assert_allclose(compiled(tf.constant(0.3)), reached, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="restart to be a number above 0 and below 1. Received: restart=2"):
        random_walk(rows, proxies, restart=2)


@pytest.mark.parametrize(
    "expected, words, fitting, unfitting",
    [
        (arguments.number(), "a number", [0, -1.5], [math.nan, "0", None]),
        (arguments.number(at_least=0, at_most=1), "a number from 0 to 1", [0, 1, 0.5], [-0.1, 1.1]),
        (arguments.number(above=0, below=1), "a number above 0 and below 1", [0.5], [0, 1]),
        (arguments.number(below=2), "a number below 2", [1.9, -9], [2]),
        (arguments.integer(), "an integer", [-3, 0], [0.0, False]),
        (arguments.integer(1), "an integer of 1 or more", [1], [0]),
        (arguments.integer(1, at_most=4), "an integer from 1 to 4", [4], [5]),
        (arguments.one_of("all", 2), "one of 'all', 2", ["all", 2], ["some", 2.0, None]),
        (arguments.optional(arguments.text()), "None or text", [None, "a"], ["", 1]),
        (arguments.several(arguments.integer(), 0), "a tuple of integers", [(), (1, 2)], [1, "12", (1.0,)]),
        (arguments.several(arguments.text(), 2), "a tuple of 2 or more texts", [("a", "b")], [("a",), "ab"]),
        (arguments.interval(arguments.number()), "a pair (low, high) of numbers", [(1, 2), (2, 2)], [(2, 1), (1,), 1]),
        (arguments.mapping(arguments.number()), "a dictionary from text to numbers", [{}, {"a": 1}], [{1: 1}, [1]]),
        (arguments.path(), "a path", ["", "a/b"], [1, None]),
    ],
)
def test_declarations(expected, words, fitting, unfitting):
    assert expected.words == words
    for value in fitting:
        assert expected.read(value) == value
    for value in unfitting:
        with pytest.raises(arguments.REFUSED):
            expected.read(value)


@pytest.mark.parametrize(
    "given, size, sides, text",
    [
        (224, 224, (224, 224), "224"),
        ((224, 224), 224, (224, 224), "224"),
        ((256, 128), (256, 128), (256, 128), "256x128"),
        ([1, 4096], (1, 4096), (1, 4096), "1x4096"),
    ],
)
def test_one_number_or_two(given, size, sides, text):
    read = SIZE.read(given)
    assert read == size and sides_of(read) == sides and str(read) == f"{read}" == text
    assert SIZE.read(read) == read and SIZE.read(json.loads(json.dumps(read))) == read


def test_height_comes_first():
    assert (sides_of((256, 128)).height, Sides(256, 128).width) == (256, 128)


@pytest.mark.parametrize("given", [0, 4097, 8.0, True, "8", None, (8,), (8, 8, 8), (8, 0), (8, "8"), (8, True)])
def test_no_size(given):
    with pytest.raises((ValueError, TypeError)):
        SIZE.read(given)


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
