"""Networks of torchvision and pretrainedmodels beside those converted from their state dicts: every endpoint agrees."""

import numpy as np
import pytest
import torch

from tests.commands import PATIENCE
from tfdml.backbones.published_weights import SOURCES, convert
from tfdml.registry import create
from tfdml.run.directory.model_files import load_weights

TOLERANCE = 1e-4


def torchvision_network(name):
    import torchvision

    arguments = {"transform_input": True, "init_weights": False} if name == "googlenet" else {}
    return getattr(torchvision.models, name)(weights=None, **arguments)


def cadene_network():
    import pretrainedmodels

    return pretrainedmodels.bninception(pretrained=None)


def googlenet_places():
    blocks = ["3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"]
    places = {f"inception_{block}": (f"inception{block}", "output") for block in blocks}
    return places | {f"pool{number}": (f"maxpool{number}", "output") for number in (1, 2, 3, 4)}


def bn_inception_places():
    """Blocks are no modules there: what one gives is what the next takes, and the last is `features`."""
    blocks = ["3a", "3b", "3c", "4a", "4b", "4c", "4d", "4e", "5a", "5b"]
    places = {
        f"inception_{block}": (f"inception_{following}_3x3_reduce", "input")
        for block, following in zip(blocks, blocks[1:], strict=False)
    }
    pools = {"pool1": ("pool1_3x3_s2", "output"), "pool2": ("pool2_3x3_s2", "output")}
    return {**places, **pools, "inception_5b": (None, "features")}


RESNET_PLACES = {f"stage{number}": (f"layer{number}", "output") for number in (1, 2, 3, 4)}
IMAGENET = {"mean": np.array([0.485, 0.456, 0.406]), "std": np.array([0.229, 0.224, 0.225])}
# Source: the reference network, and where its endpoints are.
CASES = {
    "torchvision_googlenet": (lambda: torchvision_network("googlenet"), googlenet_places()),
    "torchvision_resnet18": (lambda: torchvision_network("resnet18"), RESNET_PLACES),
    "torchvision_resnet50": (lambda: torchvision_network("resnet50"), RESNET_PLACES),
    "cadene_bninception": (cadene_network, bn_inception_places()),
}


def as_published(source, pixels):
    """Pixels `[B, H, W, 3]`, RGB from 0 to 255, as the reference network's own documentation prepares them."""
    if source == "cadene_bninception":
        return pixels[..., ::-1] - np.array([104, 117, 128])
    return (pixels / 255 - IMAGENET["mean"]) / IMAGENET["std"]


def as_declared(backbone, pixels):
    pixels = pixels[..., ::-1] if backbone.channels == "bgr" else pixels
    return ((pixels - np.array(backbone.mean)) / np.array(backbone.std)).astype(np.float32)


def reference_features(network, places, images):
    """Every endpoint of a torch network, channels last."""
    features = {}
    modules = dict(network.named_modules())

    def note(name, side):
        def hook(module, taken, given):
            features[name] = channels_last(taken[0] if side == "input" else given)

        return hook

    for name, (module, side) in places.items():
        if module:
            modules[module].register_forward_hook(note(name, side))
    with torch.no_grad():
        if hasattr(network, "features"):
            # The classifier behind them takes one size only.
            features["inception_5b"] = channels_last(network.features(images))
        else:
            network(images)
    return features


def channels_last(features):
    return features.permute(0, 2, 3, 1).numpy().copy()


@pytest.mark.parametrize("source", CASES)
def test_every_endpoint_agrees(source, random_network, tmp_path):
    make, places = CASES[source]
    network = random_network(make())
    torch.save(network.state_dict(), tmp_path / "published.pth")
    backbone = convert(source, SOURCES[source].read(tmp_path / "published.pth"), show=lambda line: None)
    assert set(places) == set(backbone.endpoints)
    # Even sides, and sides that poolings and strided convolutions reach over.
    for size in (64, 64), (69, 100):
        pixels = np.random.default_rng(0).integers(0, 256, (2, *size, 3)).astype(np.float64)
        images = torch.tensor(as_published(source, pixels), dtype=torch.float32).permute(0, 3, 1, 2)
        expected = reference_features(network, places, images)
        found = backbone.taps(list(places))(as_declared(backbone, pixels))
        for name, features in zip(places, found, strict=True):
            assert features.shape == expected[name].shape, name
            assert np.ptp(expected[name]) > 0.1, name
            difference = np.abs(np.asarray(features) - expected[name]).max()
            assert difference <= TOLERANCE * max(1, np.abs(expected[name]).max()), (name, difference)


@pytest.mark.parametrize("source", CASES)
def test_parameters_are_those_of_the_reference_without_its_classifiers(source):
    network = CASES[source][0]()
    classifiers = ("fc.", "last_linear.", "aux1.", "aux2.")
    counted = sum(
        parameter.numel() for name, parameter in network.named_parameters() if not name.startswith(classifiers)
    )
    backbone = create("backbone", SOURCES[source].backbone)
    assert sum(int(np.prod(variable.shape)) for variable in backbone.trainable_variables) == counted


def test_a_file_of_the_old_format_is_read(random_network, tmp_path):
    """Older files are pickles, as that of the published BN-Inception."""
    state = random_network(cadene_network()).state_dict()
    torch.save(state, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    read = SOURCES["cadene_bninception"].read(tmp_path / "old.pth")
    assert read.keys() == state.keys()
    np.testing.assert_array_equal(read["conv1_7x7_s2.weight"], state["conv1_7x7_s2.weight"].numpy())


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    class Runs:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"fc.weight": Runs()}, tmp_path / "evil.pth")
    with pytest.raises(ValueError, match="evil.pth cannot be read"):
        SOURCES["torchvision_resnet18"].read(tmp_path / "evil.pth")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"", b"no weights", b"PK\x03\x04 cut"], ids=["empty", "text", "cut"])
def test_what_is_no_state_dict_is_named(tmp_path, content):
    (tmp_path / "bad.pth").write_bytes(content)
    with pytest.raises(ValueError, match="bad.pth cannot be read"):
        SOURCES["torchvision_resnet18"].read(tmp_path / "bad.pth")


def test_the_command_writes_what_initial_weights_loads(random_network, tmp_path):
    """From the published file to the flag of training, through the real command line."""
    import subprocess
    import sys

    network = random_network(torchvision_network("resnet18"))
    torch.save(network.state_dict(), tmp_path / "resnet18.pth")
    arguments = [
        "--source=torchvision_resnet18",
        f"--input={tmp_path}/resnet18.pth",
        f"--output={tmp_path}/o.weights.h5",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tfdml.convert_weights", *arguments], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "stage1_block1_conv1/kernel (3, 3, 64, 64) <- layer1.0.conv1.weight" in lines
    assert "not used: fc.weight (1000, 512)" in lines
    backbone = create("backbone", "resnet18")
    report = load_weights(backbone, str(tmp_path / "o.weights.h5"))
    assert f"{len(backbone.weights)} parameters loaded; missing in the file: nothing" in report
    kernel = backbone.get_layer("stage4_block2_conv2").kernel
    np.testing.assert_array_equal(kernel, network.layer4[1].conv2.weight.detach().numpy().transpose(2, 3, 1, 0))
