"""Backbones of keras-hub and keras-cv, which stand-ins play here: the packages are extras."""

import contextlib
import json
import re
import sys
import types
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

import tfdml
from tfdml.backbones import Borrowed
from tfdml.registry import create
from tfdml.run.directory.model_files import check_config

IMAGES = np.random.default_rng(0).normal(size=(2, 16, 16, 3)).astype(np.float32)
PREPROCESSING = {"mean": [1, 2, 3], "std": [4, 5, 6], "image_size": 16}


@keras.saving.register_keras_serializable(package="tests")
class Pyramid(keras.Model):
    """A backbone as keras-hub makes them: a functional graph with levels, of images alone or in a dictionary."""

    __module__ = "keras_hub.models"

    def __init__(self, width=4, named=False, several=False, name="pyramid", **kwargs):
        images = keras.Input((None, None, 3), name="images")
        level = keras.layers.Conv2D(width, 3, strides=4, name="level")(images)
        features = keras.layers.Conv2D(2 * width, 3, name="features")(level)
        outputs = {"a": level, "b": features} if several else features
        super().__init__({"images": images} if named else images, outputs, name=name, **kwargs)
        self.pyramid_outputs = {"P2": level, "P3": features}
        self.config = {"width": width, "named": named, "several": several, "name": name}

    def get_config(self):
        return self.config


@pytest.fixture
def hub(monkeypatch):
    """A keras_hub that knows one preset, and how it was asked."""
    network = Pyramid(named=True)

    def from_preset(preset):
        if preset != "pyramid_imagenet":
            raise ValueError(f"Unknown preset {preset}")
        return network

    converter = types.SimpleNamespace(scale=[1 / 50, 1 / 51, 1 / 52], offset=[-2.0, -2.1, -2.2], image_size=(32, 32))
    converter.interpolation = "bicubic"
    converters = types.SimpleNamespace(from_preset=lambda preset: converter)
    models = types.SimpleNamespace(Backbone=types.SimpleNamespace(from_preset=from_preset))
    package = types.SimpleNamespace(models=models, layers=types.SimpleNamespace(ImageConverter=converters))
    monkeypatch.setitem(sys.modules, "keras_hub", package)
    return types.SimpleNamespace(network=network, converter=converter)


def test_keras_hub_gives_network_weights_and_preprocessing(hub):
    backbone = create("backbone", "keras_hub(preset='pyramid_imagenet')")
    np.testing.assert_array_equal(backbone(IMAGES), hub.network({"images": IMAGES}))
    assert list(backbone.endpoints) == ["P2", "output"]
    pixels = np.random.default_rng(0).integers(0, 256, (4, 3))
    expected = pixels * np.array(hub.converter.scale) + np.array(hub.converter.offset)
    np.testing.assert_allclose((pixels - np.array(backbone.mean)) / np.array(backbone.std), expected)
    assert (backbone.channels, backbone.image_size, backbone.interpolation) == ("rgb", 32, "bicubic")


def test_keras_hub_without_scale_or_size(hub):
    vars(hub.converter).update(scale=None, offset=None, image_size=None)
    backbone = create("backbone", "keras_hub(preset='pyramid_imagenet')")
    assert (backbone.mean, backbone.std, backbone.image_size) == ((0, 0, 0), (1, 1, 1), 224)


@pytest.mark.parametrize("asked, shape", [(16, (16, 16, 3)), ((32, 16), (32, 16, 3))])
def test_keras_hub_is_asked_for_a_size(hub, monkeypatch, tmp_path, asked, shape):
    """Networks of a fixed size have it, and so have their files."""

    def from_preset(preset, image_shape):
        inputs = keras.Input(image_shape)
        return keras.Model(inputs, keras.layers.Conv2D(4, 3)(inputs), name="fixed")

    monkeypatch.setattr(sys.modules["keras_hub"].models.Backbone, "from_preset", from_preset)
    backbone = create("backbone", f"keras_hub(preset='pyramid_imagenet', image_size={asked})")
    assert backbone.image_size == asked and backbone.input_shape == (None, *shape)
    backbone.save(tmp_path / "backbone.keras")
    assert keras.saving.load_model(tmp_path / "backbone.keras").image_size == asked


def test_a_folder_that_does_not_say_how_pixels_are_scaled(hub, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.modules["keras_hub"].models.Backbone, "from_preset", lambda preset: hub.network)
    with pytest.raises(ValueError, match="no image_converter.json. Write one: keras_hub.layers.ImageConverter"):
        create("backbone", f"keras_hub(preset='{tmp_path}')")
    (tmp_path / "image_converter.json").touch()
    assert create("backbone", f"keras_hub(preset='{tmp_path}')").image_size == 32


def test_it_comes_back_from_a_file_without_its_preset(hub, tmp_path):
    """The file holds the network's configuration and weights; nothing is downloaded again."""
    model = tfdml.Single(create("backbone", "keras_hub(preset='pyramid_imagenet')"), embedding_size=8)
    expected = model(IMAGES)
    model.save(tmp_path / "model.keras")
    sys.modules["keras_hub"].models = None
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(IMAGES), expected)
    assert again.backbone.get_config() == model.backbone.get_config()
    trunk, tail = again.backbone.split_at("P2")
    np.testing.assert_array_equal(tail(trunk(IMAGES)), again.backbone(IMAGES))


@pytest.mark.parametrize("named", [False, True])
def test_without_a_pyramid_methods_choose_among_stages(named):
    images = keras.Input((None, None, 3), name="images")
    first = keras.layers.Conv2D(4, 3, strides=2)(images)
    network = keras.Model({"images": images} if named else images, keras.layers.Conv2D(4, 3, strides=2)(first))
    backbone = Borrowed(network, "keras_hub", PREPROCESSING)
    assert list(backbone.endpoints) == ["output"] and backbone.stage_endpoints["stage1"] is first
    assert (backbone.method_default("branch"), backbone.method_default("levels")) == ("stage1", ("stage1", "stage2"))
    assert Borrowed(Pyramid(), "keras_hub", PREPROCESSING).method_default("branch") == "P2"


@pytest.mark.parametrize("package, extra", [("keras_hub", "hub"), ("keras_cv", "keras-cv")])
def test_a_missing_package_names_the_extra(package, extra, monkeypatch, hub, tmp_path):
    backbone = Borrowed(Pyramid(), "keras_hub", PREPROCESSING)
    backbone.save(tmp_path / "backbone.keras")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"pip install 'tfdml\[{extra}\]'"):
        create("backbone", f"{package}(preset='resnet_18_imagenet')")
    if package == "keras_hub":
        # As an extra beside tensorflow-cpu it would install a second TensorFlow.
        with pytest.raises(ImportError, match=r"use the extra 'cpu'.*pip install --no-deps 'keras-hub~=") as told:
            keras.models.load_model(tmp_path / "backbone.keras")
        pinned = re.search(r"keras-hub~=[\d.]+", str(told.value))[0]
        assert f'"{pinned}"' in (Path(__file__).resolve().parents[2] / "setup.py").read_text()


def test_an_unknown_preset_and_one_that_cannot_be_downloaded_are_named(hub, monkeypatch):
    with pytest.raises(OSError, match=r"keras_hub\(preset='none'\).*Unknown preset none.*path of a folder"):
        create("backbone", "keras_hub(preset='none')")

    def no_network(preset):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(sys.modules["keras_hub"].models.Backbone, "from_preset", no_network)
    with pytest.raises(OSError, match=r"keras_hub\(preset='pyramid_imagenet'\).*no route to host.*path of a folder"):
        create("backbone", "keras_hub(preset='pyramid_imagenet')")


def test_more_than_one_tensor_of_features_is_refused():
    with pytest.raises(ValueError, match="^Pyramid of keras_hub .* one tensor of features"):
        Borrowed(Pyramid(several=True), "keras_hub", PREPROCESSING)


@pytest.mark.parametrize("rescaling, std", [(True, 1.0), (False, 255.0)])
def test_keras_cv_names_levels_by_layers_and_finds_the_owner_of_a_preset(rescaling, std, monkeypatch):
    network = Pyramid()
    del network.pyramid_outputs
    network.pyramid_level_inputs = {"P2": "level"}
    network.config = {**network.config, "include_rescaling": rescaling}

    class Base:
        presets = presets_with_weights = {}

    class Owner(Base):
        presets = {"pyramid_imagenet": ..., "pyramid": ...}
        presets_with_weights = {"pyramid_imagenet": ...}

        @staticmethod
        def from_preset(preset):
            return network

    models = types.SimpleNamespace(Backbone=Base, Other=type("Other", (Base,), {}), Owner=Owner)
    monkeypatch.setitem(sys.modules, "keras_cv", types.SimpleNamespace(models=models))
    backbone = create("backbone", "keras_cv(preset='pyramid_imagenet')")
    assert list(backbone.endpoints) == ["P2", "output"]
    assert (backbone.mean, backbone.std, backbone.image_size) == ((0, 0, 0), (std,) * 3, 224)
    np.testing.assert_array_equal(backbone(IMAGES), network(IMAGES))
    assert backbone.pretrained and not create("backbone", "keras_cv(preset='pyramid')").pretrained


def edited(file, made, change):
    """A copy of a saved model with another configuration of its backbone."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    change(config["config"]["backbone"]["config"])
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in {**members, "config.json": json.dumps(config).encode()}.items():
            archive.writestr(name, content)
    return made


@pytest.fixture
def file(hub, tmp_path):
    model = tfdml.Single(create("backbone", "keras_hub(preset='pyramid_imagenet')"), embedding_size=8)
    model(IMAGES)
    model.save(tmp_path / "model.keras")
    return tmp_path / "model.keras"


def test_a_file_runs_no_module_that_it_names(file, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hidden.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    foreign = edited(file, tmp_path / "foreign.keras", lambda config: config.update(package="hidden"))
    with pytest.raises(ValueError, match="must be 'keras_hub' or 'keras_cv'. Received: package='hidden'"):
        keras.models.load_model(foreign)
    assert not (tmp_path / "ran").exists() and "hidden" not in sys.modules
    with pytest.raises(ValueError, match="to be one of 'keras_hub', 'keras_cv', 'keras'. Received: .*'hidden'"):
        Borrowed(Pyramid(), "hidden", PREPROCESSING)


@pytest.mark.parametrize("name, made", [("Pyramid", True), ("WordTokenizer", False)])
def test_classes_of_a_package_that_the_user_has_imported_are_made(name, made, monkeypatch):
    """But tokenizers, which read files that their configuration names."""
    models, tokenizer = types.ModuleType("keras_hub.models"), type("WordTokenizer", (keras.layers.Layer,), {})
    tokenizer.__module__ = "keras_hub.models"
    models.Pyramid, models.WordTokenizer = Pyramid, tokenizer
    monkeypatch.setitem(sys.modules, "keras_hub.models", models)
    named = {"module": "keras_hub.models", "class_name": name, "config": {}, "registered_name": None}
    refusal = pytest.raises(ValueError, match=f"it names 'keras_hub.models.{name}' as a class")
    for imported in (False, True):
        if imported:
            monkeypatch.setitem(sys.modules, "keras_hub", types.ModuleType("keras_hub"))
        with contextlib.nullcontext() if imported and made else refusal:
            check_config(named)


def test_a_file_of_another_network_is_refused(file, tmp_path):
    def change(config):
        config["network"] = keras.saving.serialize_keras_object(tfdml.backbones.Small(width=2, stages=2))

    with pytest.raises(ValueError, match="must contain a keras_hub network. Received: Small"):
        keras.models.load_model(edited(file, tmp_path / "other.keras", change))
