"""Methods that divide a network, on every family of keras.applications, without a word about where."""

import keras
import numpy as np
import pytest

from tests.night import others_at_night
from tfdml.registry import create

pytestmark = pytest.mark.slow

# A small network of each family, and layers that are its stages 3 to 5 where Keras gives them names of their own.
FAMILIES = {
    "name='ConvNeXtTiny'": None,
    "name='DenseNet121'": ("pool3_conv", "pool4_conv", "relu"),
    "name='EfficientNetB0'": ("block4a_expand_activation", "block6a_expand_activation", "top_activation"),
    "name='EfficientNetV2B0'": ("block4a_expand_activation", "block6a_expand_activation", "top_activation"),
    "name='InceptionResNetV2'": ("block35_10_ac", "block17_20_ac", "conv_7b_ac"),
    "name='InceptionV3'": ("mixed2", "mixed7", "mixed10"),
    "name='MobileNet', alpha=0.25": ("conv_pw_5_relu", "conv_pw_11_relu", "conv_pw_13_relu"),
    "name='MobileNetV2', alpha=0.35": ("block_6_expand_relu", "block_13_expand_relu", "out_relu"),
    "name='MobileNetV3Small', alpha=0.75": None,
    "name='NASNetMobile'": None,
    "name='ResNet50'": ("conv3_block4_out", "conv4_block6_out", "conv5_block3_out"),
    "name='ResNet50V2'": ("conv3_block3_out", "conv4_block5_out", "post_relu"),
    "name='VGG16'": ("block4_conv3", "block5_conv3", "block5_pool"),
    "name='Xception'": None,
}
# Of VGG16 poolings alone follow stage 4; of NASNet links between cells lead around all but the first stage.
BRANCHES = {"name='VGG16'": "stage3", "name='NASNetMobile'": "stage1"}
METHODS = {
    "multilevel": {"embedding_size": 24, "hidden": 16},
    "multi_head": {"embedding_size": 16, "learners": 2},
    "attention_ensemble": {"embedding_size": 16, "learners": 2},
}


def by_day(*names):
    """All families, those but these for the nights."""
    return others_at_night(FAMILIES, lambda family: any(f"'{name}'" in family for name in names))


# A graph with links between blocks, and one without. At night, also with several paths and with names of Keras' own.
SEVERAL = by_day("MobileNetV2", "VGG16")


def images_for(backbone):
    """A small one with several positions in the last features, or for a network of one size one of that size."""
    side = backbone.input.shape[1] or 128
    return np.random.default_rng(0).normal(size=(1, side, side, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def family(request):
    keras.utils.set_random_seed(0)
    backbone = create("backbone", f"keras_applications({request.param})")
    # Statistics of an image: with those that it begins with features of deep random networks are all 0.
    for layer in backbone.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    backbone(images_for(backbone), training=True)
    yield request.param, backbone
    keras.utils.clear_session()


@pytest.mark.parametrize("family", SEVERAL, indirect=True)
def test_stages_are_at_an_eighth_a_sixteenth_and_a_32nd(family):
    spec, backbone = family
    levels = backbone.method_default("levels")
    assert levels == ("stage3", "stage4", "stage5") and backbone.stage_endpoints["stage5"] is backbone.output
    side = backbone.image_size
    taps = backbone.taps(levels)
    sizes = [features[1:3] for features in taps.compute_output_shape((1, side, side, 3))]
    for size, halvings in zip(sizes, (3, 4, 5), strict=True):
        # Of InceptionV3 and its like windows at the border lose some.
        assert size[0] == size[1] and abs(size[0] - side / 2**halvings) <= 3
    layers = tuple(features._keras_history.operation.name for features in taps.outputs)
    assert FAMILIES[spec] in (layers, None)


@pytest.mark.parametrize("family", SEVERAL, indirect=True)
def test_divided_it_computes_the_same(family):
    spec, backbone = family
    images = images_for(backbone)
    branch = backbone.method_default("branch")
    assert branch == BRANCHES.get(spec, "stage4")
    trunk, tail = backbone.split_at(branch)
    features = np.asarray(backbone(images))
    np.testing.assert_array_equal(tail(trunk(images)), features)
    assert np.ptp(features) > 0.0 and trunk.weights and tail.weights


@pytest.mark.parametrize("method", others_at_night(METHODS, lambda name: name != "multi_head"))
@pytest.mark.parametrize("family", by_day("MobileNetV2"), indirect=True)
def test_methods_choose_for_themselves(family, method):
    _, backbone = family
    images = images_for(backbone)
    model = create("method", method, backbone=backbone, **METHODS[method])
    learners = model.learner_embeddings(images)
    assert learners.shape == (1, 3 if method == "multilevel" else 2, 8)
    np.testing.assert_allclose(np.linalg.norm(learners, axis=-1), 1.0, atol=1e-4)
    if method == "attention_ensemble":
        masks = model.attention_masks(images)
        branch = backbone.split_at(model.branch)[0](images)
        assert masks.shape == (1, 2, *branch.shape[1:]) and np.ptp(masks) > 0.0
