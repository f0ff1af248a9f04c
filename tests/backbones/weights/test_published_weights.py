"""Published weights become backbones: by name, each in its place, or not at all."""

import h5py
import numpy as np
import pytest

from tests.backbones.weights.published_files import caffe_shapes, caffe_tensors, caffemodel
from tfdml.backbones.published_weights import SOURCES, convert
from tfdml.registry import create
from tfdml.run.directory.model_files import load_weights


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    """Caffe's GoogLeNet with random weights, as its reader gives it."""
    file = tmp_path_factory.mktemp("published") / "bvlc_googlenet.caffemodel"
    file.write_bytes(caffemodel(caffe_tensors(), old=True))
    return SOURCES["caffe_googlenet"].read(file)


def test_the_published_list_has_as_many_numbers_as_is_said():
    counts = [np.prod(shape) + shape[0] for shape in caffe_shapes().values()]
    assert sum(counts) == 6_998_552


def test_every_parameter_arrives_in_its_place(tensors):
    lines = []
    backbone = convert("caffe_googlenet", tensors, show=lines.append)
    written = caffe_tensors()
    for layer, (kernel, bias) in written.items():
        if layer != "loss3/classifier":
            ours = backbone.get_layer(layer.replace("/", "_"))
            np.testing.assert_array_equal(ours.kernel, np.transpose(kernel, (2, 3, 1, 0)))
            np.testing.assert_array_equal(ours.bias, bias)
    assert "inception_5b_5x5/kernel (5, 5, 48, 128) <- inception_5b/5x5.weight" in lines
    assert "not used: loss3/classifier.bias (1000,)" in lines
    assert len(lines) == 2 * len(written) == len(backbone.weights) + 2


def test_missing_and_unexpected_parameters_are_named(tensors):
    changed = {**tensors, "extra.weight": np.zeros(3)}
    del changed["conv2/3x3.bias"]
    with pytest.raises(ValueError, match="Missing: conv2/3x3.bias. Unexpected: extra.weight"):
        convert("caffe_googlenet", changed, show=print)


def test_vectors_may_be_rows(tensors):
    rows = {name: values[None] if values.ndim == 1 else values for name, values in tensors.items()}
    found, expected = (convert("caffe_googlenet", each, lambda line: None) for each in (rows, tensors))
    for one, other in zip(found.variables, expected.variables, strict=True):
        np.testing.assert_array_equal(one, other)


def test_shapes_that_do_not_fit_are_named(tensors):
    """Even where there are as many numbers."""
    changed = {**tensors, "inception_3a/5x5_reduce.weight": np.zeros((192, 16, 1, 1))}
    words = r"inception_3a/5x5_reduce.weight.*inception_3a_5x5_reduce/kernel.*\(1, 1, 192, 16\).*\(192, 16, 1, 1\)"
    with pytest.raises(ValueError, match=words):
        convert("caffe_googlenet", changed, show=str)


# Of every kind of layer one, as the packages' own state dicts call it.
RENAMED = {
    "torchvision_googlenet": {
        "conv1_7x7_s2": "conv1.conv",
        "conv2_3x3_reduce_norm": "conv2.bn",
        "conv2_3x3": "conv3.conv",
        "inception_3a_1x1": "inception3a.branch1.conv",
        "inception_4e_3x3_reduce_norm": "inception4e.branch2.0.bn",
        "inception_5b_5x5": "inception5b.branch3.1.conv",
        "inception_5b_pool_proj_norm": "inception5b.branch4.1.bn",
    },
    "torchvision_resnet50": {
        "conv1": "conv1",
        "conv1_norm": "bn1",
        "stage1_block1_conv3": "layer1.0.conv3",
        "stage3_block6_conv2_norm": "layer3.5.bn2",
        "stage4_block1_shortcut": "layer4.0.downsample.0",
        "stage4_block1_shortcut_norm": "layer4.0.downsample.1",
    },
    "cadene_bninception": {
        "conv1_7x7_s2_norm": "conv1_7x7_s2_bn",
        "inception_4e_double_3x3_2": "inception_4e_double_3x3_2",
    },
    "caffe_googlenet": {"conv1_7x7_s2": "conv1/7x7_s2", "inception_4d_pool_proj": "inception_4d/pool_proj"},
}


@pytest.mark.parametrize("source", RENAMED)
def test_names_of_layers_in_published_files(source):
    assert {layer: SOURCES[source].rename(layer) for layer in RENAMED[source]} == RENAMED[source]


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.few_by_day(2)
def test_imagenet_says_which_file_to_fetch_and_how_to_convert_it(source):
    backbone = create("backbone", SOURCES[source].backbone)
    file = SOURCES[source].url.rsplit("/", 1)[1]
    with pytest.raises(ValueError, match=f"{SOURCES[source].url}.*--source={source} --input={file}"):
        load_weights(backbone, "imagenet")


def test_imagenet_for_a_backbone_that_has_none():
    with pytest.raises(ValueError, match="no download of ImageNet weights. keras_applications backbones have one"):
        load_weights(create("backbone", "small(width=4, stages=1)"), "imagenet")


def test_a_file_of_keras_applications_in_the_older_format(tmp_path):
    """As Keras publishes them, for machines without a network."""
    backbone = create("backbone", "keras_applications(name='MobileNet')")
    with h5py.File(tmp_path / "mobilenet_notop.h5", "w") as file:
        layers = [layer for layer in backbone.layers if layer.weights]
        file.attrs["layer_names"] = [layer.name.encode() for layer in layers]
        file.attrs["backend"], file.attrs["keras_version"] = b"tensorflow", b"2.1.0"
        for number, layer in enumerate(layers):
            group = file.create_group(layer.name)
            group.attrs["weight_names"] = [f"{layer.name}/{weight.name}".encode() for weight in layer.weights]
            for weight in layer.weights:
                group[f"{layer.name}/{weight.name}"] = np.full(weight.shape, number / 100, np.float32)
    assert "all parameters loaded" in load_weights(backbone, str(tmp_path / "mobilenet_notop.h5"))
    for number, layer in enumerate(layers):
        np.testing.assert_allclose(layer.weights[0], number / 100, rtol=1e-6)
