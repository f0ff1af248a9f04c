"""What all backbones promise: endpoints, numbers of parameters, cuts, and coming back from a file as they were."""

from pathlib import Path

import keras
import numpy as np
import pytest

import tfdml
from tfdml.registry import create

IMAGES = np.random.default_rng(0).normal(size=(2, 64, 64, 3)).astype(np.float32)
# Parameters as published with a classifier of 1000 classes, less the classifier: torchvision's documentation says
# 6,624,904, 11,689,512 and 25,557,032; of Caffe's GoogLeNet its definition gives 6,998,552; pretrainedmodels' class
# 11,295,240. Endpoints: channels, and side for images of 64 pixels.
INCEPTION = {"3a": (256, 8), "3b": (480, 8), "4a": (512, 4), "4b": (512, 4), "4c": (512, 4), "4d": (528, 4)}
INCEPTION |= {"4e": (832, 4), "5a": (832, 2), "5b": (1024, 2)}
BN_INCEPTION = {"3a": (256, 8), "3b": (320, 8), "3c": (576, 4), "4a": (576, 4), "4b": (576, 4), "4c": (608, 4)}
BN_INCEPTION |= {"4d": (608, 4), "4e": (1056, 2), "5a": (1024, 2), "5b": (1024, 2)}
GOOGLENET_POOLS = {"pool1": (64, 16), "pool2": (192, 8), "pool3": (480, 4), "pool4": (832, 2)}


def inception(blocks, pools):
    return pools | {f"inception_{block}": shape for block, shape in blocks.items()}


def stages(channels, side=16):
    return {f"stage{number + 1}": (count, side >> number) for number, count in enumerate(channels)}


BACKBONES = {
    "googlenet": (6_998_552 - 1_025_000, inception(INCEPTION, GOOGLENET_POOLS)),
    "googlenet(batch_norm=True)": (6_624_904 - 1_025_000, inception(INCEPTION, GOOGLENET_POOLS)),
    "bn_inception": (11_295_240 - 1_025_000, inception(BN_INCEPTION, {"pool1": (64, 16), "pool2": (192, 8)})),
    "resnet18": (11_689_512 - 513_000, stages([64, 128, 256, 512])),
    "resnet50": (25_557_032 - 2_049_000, stages([256, 512, 1024, 2048])),
    "small(width=4, stages=3)": (
        4 * 27 + 4 * 36 + 8 * (36 + 72) + 16 * (72 + 144) + 4 * (4 + 8 + 16),
        stages([4, 8, 16], 64),
    ),
}


@pytest.fixture(scope="module", params=BACKBONES)
def spec(request):
    return request.param


@pytest.fixture(scope="module")
def backbone(spec):
    keras.utils.set_random_seed(0)
    made = create("backbone", spec)
    for variable in made.non_trainable_variables:
        # Batch norm without statistics of its own would hide that they are not saved.
        centre = 0.0 if variable.name == "moving_mean" else 1.0
        variable.assign(np.random.default_rng(1).uniform(centre - 0.3, centre + 0.3, variable.shape))
    return made


@pytest.mark.few_by_day(2)
def test_number_of_parameters(spec, backbone):
    assert sum(int(np.prod(variable.shape)) for variable in backbone.trainable_variables) == BACKBONES[spec][0]


@pytest.mark.few_by_day(2)
def test_endpoints(spec, backbone):
    """All of them at once, with the channels and sides that the papers' tables have."""
    shapes = dict(zip(backbone.endpoints, backbone.taps(list(backbone.endpoints))(IMAGES), strict=True))
    found = {name: (features.shape[3], features.shape[1]) for name, features in shapes.items()}
    assert found == BACKBONES[spec][1]
    assert min(np.ptp(features) for features in shapes.values()) > 0.1
    last = list(backbone.endpoints)[-1]
    np.testing.assert_array_equal(shapes[last], backbone(IMAGES))


def test_endpoints_stand_from_shallow_to_deep(backbone):
    layers = [layer.name for layer in backbone.layers]
    places = [layers.index(tensor._keras_history.operation.name) for tensor in backbone.endpoints.values()]
    assert places == sorted(places)


@pytest.mark.slow
@pytest.mark.few_by_day(2)
def test_trunk_and_tail_together_are_the_whole(backbone):
    names = list(backbone.endpoints)
    for name in (names[0], names[len(names) // 2], names[-1]):
        trunk, tail = backbone.split_at(name)
        np.testing.assert_array_equal(tail(trunk(IMAGES)), backbone(IMAGES))
        variables = {id(variable) for variable in trunk.variables + tail.variables}
        assert variables == {id(variable) for variable in backbone.variables}
        assert len(trunk.variables) + len(tail.variables) == len(backbone.variables)


def test_an_unknown_endpoint_lists_those_there_are(backbone):
    with pytest.raises(ValueError, match="'pool9'.*" + ", ".join(backbone.endpoints)):
        backbone.split_at("pool9")
    with pytest.raises(ValueError, match="'pool9'"):
        backbone.taps([list(backbone.endpoints)[0], "pool9"])


@pytest.mark.nightly
@pytest.mark.slow
def test_it_comes_back_from_a_file_as_it_was(backbone, tmp_path):
    model = tfdml.Single(backbone, embedding_size=8)
    expected = model(IMAGES)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(IMAGES), expected)
    assert type(again.backbone) is type(backbone) and again.backbone.get_config() == backbone.get_config()
    assert list(again.backbone.endpoints) == list(backbone.endpoints)


def test_weights_that_it_names_are_there(backbone):
    assert all(Path(file).exists() for file in backbone.shipped_weights.values())
    assert backbone.downloads_imagenet is False
    with pytest.raises(NotImplementedError, match="cannot download ImageNet weights for .*KerasApplication"):
        backbone.load_imagenet()


def test_it_comes_back_in_the_precision_it_had(tmp_path):
    """Whatever the policy of the process that loads it is, which stays as it was."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        backbone = create("backbone", "small(width=4, stages=2)")
        expected = backbone(IMAGES)
        backbone.save(tmp_path / "backbone.keras")
    finally:
        keras.config.set_dtype_policy("float32")
    again = keras.models.load_model(tmp_path / "backbone.keras")
    assert again(IMAGES).dtype == expected.dtype == "bfloat16"
    np.testing.assert_array_equal(again(IMAGES), expected)
    assert again.get_config() == backbone.get_config()
    assert keras.config.dtype_policy().name == "float32"


def test_a_precision_that_its_layers_would_not_have_is_told():
    with pytest.raises(ValueError, match="Expected 'float32'. Received: dtype='mixed_bfloat16'. Call keras.c"):
        tfdml.backbones.Small(width=2, dtype="mixed_bfloat16")
    assert tfdml.backbones.Small(width=2, dtype="float32", trainable=False).trainable is False


def test_arguments_of_a_backbone_between_are_passed_on():
    class Between(tfdml.backbones.Backbone):
        def __init__(self, width, **kwargs):
            inputs = keras.Input((8, 8, 3))
            endpoints = {"output": keras.layers.Conv2D(width, 3)(inputs)}
            super().__init__(inputs, endpoints, mean=(0,) * 3, std=(1,) * 3, image_size=8, **kwargs)

    assert Between(width=3, name="own").name == "own"
    with pytest.raises(TypeError, match="Backbone has no argument 'widht'. Its arguments: inputs, endpoints, mean"):
        Between(width=3, widht=3)
    with pytest.raises(
        TypeError, match="Backbone has no argument 'autocast'. Its arguments: .*, name, trainable, dtype."
    ):
        Between(width=3, autocast=False)


@pytest.mark.slow
def test_endpoints_that_methods_take_unless_they_are_told():
    googlenet, bn_inception = tfdml.backbones.GoogLeNet(), tfdml.backbones.BNInception()
    assert [googlenet.method_default(what) for what in ("branch", "attention_depth")] == ["pool3", 5]
    assert bn_inception.method_default("levels") == ("inception_3c", "inception_4e", "inception_5b")
    small = tfdml.backbones.Small(width=4, stages=4)
    assert small.method_default("branch") == "stage2" and small.method_default("levels") == (
        "stage2",
        "stage3",
        "stage4",
    )
    for backbone in (googlenet, bn_inception, small):
        backbone.blocks_after(backbone.method_default("branch"), backbone.method_default("attention_depth"))
        backbone.taps(backbone.method_default("levels"))
    with pytest.raises(ValueError, match="small has one endpoint, 'stage1', and no stages before it. This method n"):
        tfdml.backbones.Small(width=4, stages=1).method_default("branch")


@pytest.mark.parametrize("method", ["Single", "Multilevel"])
def test_a_graph_of_ones_own_is_saved_with_the_model(method, tmp_path):
    inputs = keras.Input((None, None, 3))
    first = keras.layers.Conv2D(4, 3, strides=2, activation="relu", name="one")(inputs)
    second = keras.layers.BatchNormalization()(keras.layers.Conv2D(6, 3, strides=2, name="two")(first))
    about = {"mean": (120.0, 110.0, 100.0), "std": (50.0,) * 3, "channels": "bgr", "image_size": (24, 32)}
    backbone = tfdml.backbones.Backbone(inputs, {"first": first, "second": second}, **about)
    model = getattr(tfdml, method)(backbone, embedding_size=8)
    images = np.random.default_rng(0).uniform(-2, 2, (4, 24, 32, 3)).astype("float32")
    expected = model.predict(images, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(images, verbose=0), expected, atol=1e-6)
    assert list(loaded.backbone.endpoints) == ["first", "second"] and type(loaded.backbone) is type(backbone)
    assert {name: getattr(loaded.backbone, name) for name in about} == about
