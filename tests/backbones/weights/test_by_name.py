"""Weights files of Keras, loaded by the names of layers."""

import re

import h5py
import keras
import numpy as np
import pytest

from tfdml.backbones import Small
from tfdml.backbones.weights import load_by_name
from tfdml.registry import create
from tfdml.run.directory.model_files import load_weights


def random_small(**arguments):
    backbone = Small(width=4, **arguments)
    for number, variable in enumerate(backbone.weights):
        variable.assign(np.random.default_rng(number).uniform(0.5, 1.5, variable.shape))
    return backbone


def values(model):
    return {variable.path: np.asarray(variable) for variable in model.weights}


def assert_equal(found, expected):
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_a_file_of_the_same_backbone(tmp_path):
    saved, backbone = random_small(stages=2), Small(width=4, stages=2)
    saved.save_weights(tmp_path / "a.weights.h5")
    report = load_by_name(backbone, tmp_path / "a.weights.h5")
    assert (report.loaded, report.missing, report.unexpected) == (20, [], [])
    assert_equal(values(backbone), values(saved))


def test_a_file_with_less_and_one_with_more(tmp_path):
    """What both have is loaded, the rest of the backbone stays, and the report names both rests."""
    short, long = random_small(stages=1), random_small(stages=2)
    for backbone in (short, long):
        backbone.save_weights(tmp_path / f"{len(backbone.endpoints)}.weights.h5")
    rest = {"stage2_conv1", "stage2_conv1_norm", "stage2_conv2", "stage2_conv2_norm"}

    taker = Small(width=4, stages=2)
    before = values(taker)
    report = load_by_name(taker, tmp_path / "1.weights.h5")
    assert (report.loaded, set(report.missing), report.unexpected) == (10, rest, [])
    assert_equal(values(taker), {**before, **values(short)})

    taker = Small(width=4, stages=1)
    report = load_by_name(taker, tmp_path / "2.weights.h5")
    assert (report.loaded, report.missing, set(report.unexpected)) == (10, [], rest)
    assert_equal(values(taker), {name: value for name, value in values(long).items() if name.startswith("stage1")})
    assert "10 parameters loaded; missing in the file: nothing; not in the backbone: stage2_conv" in str(report)


def test_order_does_not_matter(tmp_path):
    """The same names in another graph."""
    saved = random_small(stages=2)
    inputs = keras.Input((8, 8, 4))
    channels = {"stage1_conv2": 4, "stage2_conv1": 8}
    layers = {name: keras.layers.Conv2D(count, 3, use_bias=False, name=name) for name, count in channels.items()}
    model = keras.Model(inputs, [layers["stage2_conv1"](inputs), layers["stage1_conv2"](inputs)])
    saved.save_weights(tmp_path / "a.weights.h5")
    assert load_by_name(model, tmp_path / "a.weights.h5").loaded == 2
    for name in layers:
        np.testing.assert_array_equal(model.get_layer(name).kernel, saved.get_layer(name).kernel)


def test_names_that_keras_makes_up_count_for_nothing(tmp_path):
    """InceptionV3 calls its layers conv2d_1, conv2d_2 ..., and its second instance goes on counting."""

    def made():
        inputs = keras.Input((None, None, 3))
        return keras.Model(inputs, keras.layers.Conv2D(4, 3)(keras.layers.Conv2D(3, 3)(inputs)))

    first, second = made(), made()
    assert first.layers[1].name != second.layers[1].name
    first.save_weights(tmp_path / "a.weights.h5")
    report = load_by_name(second, tmp_path / "a.weights.h5")
    assert (report.loaded, report.missing, report.unexpected) == (4, [], [])
    for ours, theirs in zip(second.weights, first.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@keras.saving.register_keras_serializable(package="tests")
class Nested(keras.layers.Layer):
    """A layer of layers, as transformers are made of."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.query, self.key = keras.layers.Dense(2, name="query"), keras.layers.Dense(2, name="key")

    def build(self, input_shape):
        self.query.build(input_shape)
        self.key.build(input_shape)

    def call(self, inputs):
        return self.query(inputs) + 2 * self.key(inputs)


def test_layers_inside_layers_have_names_of_their_own(tmp_path):
    def made(*names):
        inputs = keras.Input((3,))
        features = inputs
        for name in names:
            features = keras.layers.Dense(3, name=f"{name}_out")(Nested(name=name)(features))
        return keras.Model(inputs, features)

    saved, taker = made("low", "high"), made("high")
    saved.save_weights(tmp_path / "a.weights.h5")
    report = load_by_name(taker, tmp_path / "a.weights.h5")
    assert {"low/query", "low/key"} <= set(report.unexpected)
    for part in ("query", "key"):
        ours, theirs = (getattr(model.get_layer("high"), part).kernel for model in (taker, saved))
        np.testing.assert_array_equal(ours, theirs)


def test_other_shapes_are_refused_and_nothing_changes(tmp_path):
    Small(width=8, stages=2).save_weights(tmp_path / "wide.weights.h5")
    backbone = random_small(stages=2)
    before = values(backbone)
    with pytest.raises(ValueError, match=r"stage1_conv1 .* Expected \(.*4\). Received: \(.*8\)"):
        load_by_name(backbone, tmp_path / "wide.weights.h5")
    assert_equal(values(backbone), before)


def test_a_file_of_something_else_is_refused(tmp_path):
    create("backbone", "resnet18").save_weights(tmp_path / "other.weights.h5")
    with pytest.raises(ValueError, match="none of the backbone's layers. Expected stage1_conv1.* Received: conv1"):
        load_by_name(Small(width=4, stages=2), tmp_path / "other.weights.h5")
    with h5py.File(tmp_path / "empty.weights.h5", "w"):
        pass
    with pytest.raises(ValueError, match="none of the backbone's layers. .* Received: nothing"):
        load_by_name(Small(width=4, stages=2), tmp_path / "empty.weights.h5")


def test_a_file_names_no_other_file(tmp_path):
    """As Keras' own loading has it: values would be whatever the other file holds."""
    model, path, secret = random_small(), tmp_path / "linked.weights.h5", tmp_path / "secret"
    model.save_weights(path)
    secret.write_bytes(bytes(4096))
    with h5py.File(path, "r+") as file:
        name = next(name for name in names_of(file) if name.endswith("vars/0"))
        shape, dtype = file[name].shape, file[name].dtype
        del file[name]
        file.create_dataset(name, shape, dtype, external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
    with pytest.raises(ValueError, match=f"its dataset {name} is in another file"):
        load_by_name(random_small(), path)


def names_of(file):
    names = []
    file.visit(names.append)
    return names


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["a.weights.h5", "a.keras"])
def test_weights_that_are_not_finite_are_told_by_their_file(tmp_path, name, wrong):
    saved = random_small(stages=1)
    damaged = saved.weights[-1]
    damaged.assign(np.full(damaged.shape, wrong))
    (saved.save_weights if name.endswith(".h5") else saved.save)(tmp_path / name)
    told = f"--initial_weights={tmp_path / name} has NaN or infinite values in {damaged.path}"
    with pytest.raises(ValueError, match=re.escape(told)):
        load_weights(Small(width=4, stages=1), str(tmp_path / name))
