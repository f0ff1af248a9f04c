"""Backbones of keras-hub and keras-cv themselves, from folders that hold a preset with random weights."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest

import tfdml
from tfdml.registry import create

TRANSFORMER = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "image_shape": (32, 32, 3), "patch_size": 8}
RESIDUAL = {
    "input_conv_filters": [64],
    "input_conv_kernel_sizes": [3],
    "stackwise_num_filters": [64, 64],
    "stackwise_num_blocks": [1, 1],
    "stackwise_num_strides": [1, 2],
    "block_type": "basic_block",
    "image_shape": (32, 32, 3),
}
NETWORKS = {
    "ResNetBackbone": (RESIDUAL, ["P2", "output"]),
    "ViTBackbone": ({**TRANSFORMER, "mlp_dim": 32}, ["output"]),
    "DINOV2Backbone": ({**TRANSFORMER, "intermediate_dim": 32}, ["stem", "stage1", "stage2", "output"]),
    "DINOV3Backbone": ({**TRANSFORMER, "intermediate_dim": 32}, ["stem", "stage1", "stage2", "output"]),
}
IMAGES = np.random.default_rng(0).uniform(-1, 1, (3, 32, 32, 3)).astype(np.float32)


def test_recipes_name_presets_that_keras_hub_has():
    import keras_hub

    texts = [path.read_text() for path in (Path(__file__).parents[2] / "configs").glob("*.flags")]
    named = {preset for text in texts for preset in re.findall(r"keras_hub\(preset='(\w+)'", text)}
    # Others are folders, which a command in the comments writes.
    named -= {folder for text in texts for folder in re.findall(r"tfdml.convert_weights .*--output=(\w+)", text)}
    assert named and named <= keras_hub.models.Backbone.presets.keys()


@pytest.mark.parametrize("kind", NETWORKS)
def test_keras_hub(kind, tmp_path):
    import keras_hub

    arguments, endpoints = NETWORKS[kind]
    network = getattr(keras_hub.models, kind)(**arguments)
    network.save_to_preset(tmp_path)
    with pytest.raises(ValueError, match="no image_converter.json"):
        create("backbone", f"keras_hub(preset='{tmp_path}')")
    keras_hub.layers.ImageConverter(image_size=(32, 32), scale=1 / 50, offset=-2.0).save_to_preset(tmp_path)

    backbone = create("backbone", f"keras_hub(preset='{tmp_path}')")
    images = {name: IMAGES for name in network.input} if isinstance(network.input, dict) else IMAGES
    np.testing.assert_allclose(backbone(IMAGES), network(images), atol=1e-6)
    assert list(backbone.endpoints) == endpoints
    np.testing.assert_allclose(
        [backbone.mean, backbone.std, [32] * 3], [[100] * 3, [50] * 3, [backbone.image_size] * 3]
    )
    if "DINO" in kind:
        larger = create("backbone", f"keras_hub(preset='{tmp_path}', image_size=48)")
        assert larger.image_size == 48 and larger(np.ones((1, 48, 48, 3))).shape[1] > backbone.output.shape[1]
    trains_and_comes_back(backbone, "avg" if kind == "ResNetBackbone" else "first", tmp_path)


@pytest.mark.parametrize("rescaling", [True, False])
def test_keras_cv(rescaling, tmp_path):
    import keras_cv
    from keras_cv.src.utils.preset_utils import save_to_preset

    stacks = {"stackwise_filters": [64, 64], "stackwise_blocks": [1, 1], "stackwise_strides": [1, 2]}
    network = keras_cv.models.ResNetBackbone(**stacks, include_rescaling=rescaling, input_shape=(32, 32, 3))
    save_to_preset(network, str(tmp_path))

    backbone = create("backbone", f"keras_cv(preset='{tmp_path}')")
    np.testing.assert_allclose(backbone(IMAGES), network(IMAGES), atol=1e-6)
    assert list(backbone.endpoints) == ["P2", "output"] and backbone.image_size == 32
    # Pixels from 0 to 255 are right for a network that scales them itself.
    assert backbone.std == ((1.0,) * 3 if rescaling else (255.0,) * 3)
    trains_and_comes_back(backbone, "avg", tmp_path)


def trains_and_comes_back(backbone, pooling, folder):
    model = tfdml.Single(backbone, embedding_size=8, head=tfdml.heads.Linear(pooling))
    model.compile("sgd", loss=tfdml.losses.Contrastive())
    before = model.predict(IMAGES, verbose=0)
    model.fit(IMAGES, np.array([0, 0, 1]), batch_size=3, verbose=0)
    after = model.predict(IMAGES, verbose=0)
    assert np.abs(after - before).max() > 1e-5
    model.save(folder / "model.keras")
    again = keras.models.load_model(folder / "model.keras")
    np.testing.assert_array_equal(again.predict(IMAGES, verbose=0), after)
