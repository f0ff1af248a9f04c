"""The networks of keras.applications as backbones."""

import inspect
import urllib.error

import keras
import numpy as np
import pytest

import tfdml
from tfdml.backbones import KerasApplication, borrowed
from tfdml.registry import create
from tfdml.run.directory.model_files import load_weights

IMAGES = np.random.default_rng(0).normal(size=(2, 64, 64, 3)).astype(np.float32)
NAMES = sorted(name for name, value in vars(keras.applications).items() if inspect.isfunction(value))


@pytest.mark.parametrize("name", NAMES)
def test_preprocessing_is_that_of_keras(name):
    declared = borrowed._preprocessing_of_application(name)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 3)).astype(np.float64)
    expected = inspect.getmodule(getattr(keras.applications, name)).preprocess_input(pixels.copy())
    ours = pixels[..., ::-1] if declared["channels"] == "bgr" else pixels
    np.testing.assert_allclose((ours - declared["mean"]) / declared["std"], expected, atol=1e-9)


def test_preprocessing_of_some_in_numbers():
    assert borrowed._preprocessing_of_application("VGG16") == {
        "mean": pytest.approx([103.939, 116.779, 123.68]),
        "std": [1, 1, 1],
        "channels": "bgr",
    }
    inside = {"mean": [0, 0, 0], "std": [1, 1, 1], "channels": "rgb"}
    assert borrowed._preprocessing_of_application("EfficientNetV2B0") == inside


def test_image_sizes_are_of_networks_that_there_are():
    assert borrowed.IMAGE_SIZES.keys() <= set(NAMES)


@pytest.mark.nightly
def test_features_endpoints_and_cut(tmp_path):
    backbone = create(
        "backbone", "keras_applications(name='MobileNetV2', endpoints=('block_6_expand', 'block_13_expand'))"
    )
    assert list(backbone.endpoints) == ["block_6_expand", "block_13_expand", "output"]
    assert [tuple(features.shape[1:]) for features in backbone.taps(list(backbone.endpoints))(IMAGES)] == [
        (8, 8, 192),
        (4, 4, 576),
        (2, 2, 1280),
    ]
    trunk, tail = backbone.split_at("block_13_expand")
    np.testing.assert_array_equal(tail(trunk(IMAGES)), backbone(IMAGES))
    model = tfdml.Single(backbone, embedding_size=8)
    expected = model(IMAGES)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(IMAGES), expected)
    assert list(again.backbone.endpoints) == list(backbone.endpoints)


@pytest.mark.nightly
def test_arguments_of_the_network_and_its_cut(tmp_path):
    """A file of the longer network loads into the shorter one, and the features are those inside the longer one."""
    narrow = "name='MobileNetV2', alpha=0.35"
    longer = create("backbone", f"keras_applications({narrow}, endpoints=('block_6_expand_relu',))")
    longer.save_weights(tmp_path / "longer.weights.h5")
    shorter = create("backbone", f"keras_applications({narrow}, output='block_6_expand_relu')")
    assert "missing in the file: nothing" in load_weights(shorter, tmp_path / "longer.weights.h5")
    (inside, _) = longer.taps(longer.endpoints)(IMAGES)
    assert inside.shape == (2, 8, 8, 96)
    np.testing.assert_array_equal(shorter(IMAGES), inside)
    shorter.save(tmp_path / "shorter.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "shorter.keras")(IMAGES), inside)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "spec, parameters",
    [("name='MobileNetV3Small', minimalistic=True", 441_000), ("name='MobileNet', depth_multiplier=2", 6_432_928)],
)
def test_other_arguments_of_networks_change_their_size(spec, parameters):
    """Of 939,120 and 3,228,864 parameters without them."""
    assert create("backbone", f"keras_applications({spec})").count_params() == parameters


def test_python_takes_what_the_spec_takes():
    arguments = "alpha=0.35, endpoints=('block_6_expand',), output='block_13_expand', minimalistic=False"
    spec = create("backbone", f"keras_applications(name='MobileNetV2', {arguments})")
    made = KerasApplication(
        "MobileNetV2", alpha=0.35, endpoints=("block_6_expand",), output="block_13_expand", minimalistic=False
    )
    assert made.get_config() == spec.get_config() and made.count_params() == spec.count_params() < 410_208
    assert set(inspect.signature(KerasApplication).parameters) - {"application", "kwargs"} == set(
        inspect.signature(borrowed.keras_applications).parameters
    ) - {"name"}
    assert KerasApplication("MobileNetV2", alpha=0.35, name="own").name == "own"


def test_arguments_of_python_are_not_dropped():
    assert KerasApplication("MobileNetV2", alpha=0.35).count_params() == 410_208
    with pytest.raises(TypeError, match="KerasApplication has no argument 'weights'. Its arguments: application, en"):
        KerasApplication("MobileNetV2", weights="imagenet")


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="ResNet50 .* has no argument 'alpha'.* it has: none"):
        create("backbone", "keras_applications(name='ResNet50', alpha=0.5)")
    with pytest.raises(ValueError, match="no layer 'block_13_expand'.*block_1_expand"):
        create(
            "backbone",
            "keras_applications(name='MobileNetV2', endpoints=('block_13_expand',), output='block_6_expand_relu')",
        )


def test_a_cut_that_another_path_leads_around():
    """Inside a residual block."""
    backbone = create("backbone", "keras_applications(name='MobileNetV2', endpoints=('block_2_expand',))")
    with pytest.raises(ValueError, match="mobilenetv2 cannot be split at 'block_2_expand', because another path"):
        backbone.split_at("block_2_expand")


@pytest.mark.parametrize("arguments, parameters", [("", 260), (", output='block_13_expand_relu'", 200)])
@pytest.mark.few_by_day(1)
def test_its_own_download(arguments, parameters, monkeypatch):
    """Keras is asked for ImageNet's weights, and all of them arrive."""
    made = keras.applications.MobileNetV2
    backbone = create("backbone", f"keras_applications(name='MobileNetV2', alpha=0.35{arguments})")
    assert len(backbone.weights) == parameters
    asked = []

    def mobile_net(include_top, weights, alpha):
        asked.append((include_top, weights, alpha))
        network = made(include_top=include_top, weights=None, alpha=alpha)
        for number, variable in enumerate(network.weights):
            variable.assign(np.full(variable.shape, 0.5 + number / 1000))
        return network

    monkeypatch.setattr(keras.applications, "MobileNetV2", mobile_net)
    backbone.load_imagenet()
    assert asked == [(False, "imagenet", 0.35)]
    for number, variable in enumerate(backbone.weights):
        np.testing.assert_allclose(variable, 0.5 + number / 1000, rtol=1e-6)


def test_without_a_network_the_file_to_fetch_is_named(monkeypatch):
    backbone = create("backbone", "keras_applications(name='MobileNetV2')")

    def no_network(include_top, weights):
        raise Exception("URL fetch failure on https://there/mobilenet_v2.h5: None -- no network")

    monkeypatch.setattr(keras.applications, "MobileNetV2", no_network)
    with pytest.raises(OSError, match="MobileNetV2.*https://there/mobilenet_v2.h5.*load it with load_weights"):
        backbone.load_imagenet()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, file",
    [
        ("MobileNetV2", "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"),
        # Its address ends in another name: NASNet-mobile-no-top.h5.
        pytest.param("NASNetMobile", "nasnet_mobile_no_top.h5", marks=pytest.mark.nightly),
    ],
)
def test_without_a_network_keras_tells_which_file_it_looks_for_and_where(name, file, monkeypatch, tmp_path, recwarn):
    files, asked = inspect.getmodule(keras.utils.get_file), []

    def no_network(url, place, hook):
        asked.append((url, place))
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(files, "urlretrieve", no_network)
    monkeypatch.setattr(files.config, "keras_home", lambda: str(tmp_path))
    with pytest.raises(OSError) as caught:
        create("backbone", f"keras_applications(name={name!r})").load_imagenet()
    ((url, place),) = asked
    assert place == str(tmp_path / "models" / file)
    assert url in str(caught.value) and f"{place}, where Keras looks for it" in str(caught.value)
    assert "with --initial_weights=path in a command" in str(caught.value)
    assert not [each for each in recwarn if "non-square" in str(each.message)]


@pytest.mark.slow
def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match="no network 'ResNet18'. Expected one of .*ResNet50"):
        create("backbone", "keras_applications(name='ResNet18')")
    with pytest.raises(ValueError, match="no layer 'block_6_expandd'.*block_6_expand"):
        create("backbone", "keras_applications(name='MobileNetV2', endpoints=('block_6_expandd',))")
