"""Image backbones of keras-hub, one of each family with random weights: trained, saved, exported and embedded."""

import importlib.util

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.preprocessor import Preprocessor
from tests.oracles.test_borrowed_backbones import IMAGES, NETWORKS
from tfdml.layers.blocks import blocks_of
from tfdml.registry import create

VISION = {"patch_size": 8, "hidden_dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32}
TEXT = {"vocabulary_size": 64, "embedding_dim": 16, **{name: VISION[name] for name in list(VISION)[1:]}}
SIDES = {"image_shape": (32, 32, 3)}
DINO = NETWORKS["DINOV2Backbone"][0]
# Family to what its network takes; of two towers, what it takes beside them.
TOWERS = {"CLIP": {"projection_dim": 8}, "MetaCLIP2": {"projection_dim": 8}, "SigLIP": {}}
ALONE = {
    "ViT": NETWORKS["ViTBackbone"][0],
    "DeiT": DINO,
    "DINOV2": {**DINO, "num_register_tokens": 4},
    "DINOV3": DINO,
    "SwinTransformer": {"embed_dim": 8, "depths": (2, 2), "num_heads": (2, 2), "window_size": 4, **SIDES},
    "ResNet": NETWORKS["ResNetBackbone"][0],
    "DenseNet": {"stackwise_num_repeats": [2, 2], "growth_rate": 8, **SIDES},
    "VGG": {"stackwise_num_repeats": [1, 1], "stackwise_num_filters": [8, 16], **SIDES},
    "Xception": {"stackwise_conv_filters": [[8, 8], [16, 16]], "stackwise_pooling": [True, False], **SIDES},
    "MiT": {
        "layerwise_depths": [1, 1],
        "num_layers": 2,
        "layerwise_num_heads": [1, 2],
        "layerwise_sr_ratios": [2, 1],
        "max_drop_path_rate": 0.1,
        "layerwise_patch_sizes": [7, 3],
        "layerwise_strides": [4, 2],
        "hidden_dims": [8, 16],
        **SIDES,
    },
}
# tf2onnx leaves the numbers of their positions out, or writes an operation that ONNX does not have.
NOT_IN_ONNX = ("MetaCLIP2", "ViT", "DeiT", "DINOV2", "DINOV3", "SwinTransformer")
DECAYED = ("CLIP", "MetaCLIP2", "SigLIP", "ViT", "DeiT", "DINOV2", "DINOV3")


def network_of(family):
    from keras_hub import models

    if family in ALONE:
        return getattr(models, f"{family}Backbone")(**ALONE[family])
    vision = getattr(models, f"{family}VisionEncoder")(**VISION, **SIDES)
    text = getattr(models, f"{family}TextEncoder")(**TEXT)
    return getattr(models, f"{family}Backbone")(vision_encoder=vision, text_encoder=text, **TOWERS[family])


def preset_of(family, folder):
    from keras_hub.layers import ImageConverter

    network = network_of(family)
    network.save_to_preset(folder)
    ImageConverter(image_size=(32, 32), scale=1 / 50, offset=-2.0).save_to_preset(folder)
    return network


def called(network, images):
    return network({name: images for name in network.input} if isinstance(network.input, dict) else images)


@pytest.mark.parametrize("family", [*TOWERS, *ALONE])
def test_a_family(family, tmp_path):
    network = preset_of(family, tmp_path)
    tower = network.vision_encoder if family in TOWERS else network
    backbone = create("backbone", f"keras_hub(preset={str(tmp_path)!r})")
    tokens = called(tower, IMAGES)
    expected = tokens[:, 0] if family in ("CLIP", "MetaCLIP2") else tokens
    np.testing.assert_allclose(backbone(IMAGES), expected, atol=1e-5)
    if family in DECAYED:
        # Patches, two layers, and of SigLIP the pooling.
        assert len(blocks_of([backbone])) == (4 if family == "SigLIP" else 3)
    frozen = "statistics" if backbone.has_batch_norm else "none"
    model = tfdml.Single(backbone, embedding_size=8, freeze_batch_norm=frozen)
    optimizer = tfdml.optimizers.SGD(0.1, frozen_steps={"backbone": 1})
    waiting = [tfdml.callbacks.WaitingBackbone(1)]
    model.compile(optimizer, loss="contrastive")
    before = backbone.trainable_variables[0].numpy()
    model.fit(IMAGES[[0, 1, 2, 0, 1, 2]], np.array([0, 0, 1, 0, 0, 1]), batch_size=3, verbose=0, callbacks=waiting)
    assert np.any(backbone.trainable_variables[0] != before)
    model.preprocessing = tfdml.Preprocessing.of(model)
    embedded = model.predict(IMAGES, verbose=0)
    model.save(tmp_path / "model.keras")
    again = tfdml.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.model.predict(IMAGES, verbose=0), embedded, atol=1e-6)
    tfdml.serving.export(again.model, Preprocessor.of(again.preprocessing), tmp_path / "exported")
    pixels = IMAGES * 50 + 100
    served = tf.saved_model.load(str(tmp_path / "exported")).signatures["embed_images"](tf.constant(pixels))
    np.testing.assert_allclose(served["embedding"], embedded, atol=1e-5)
    if importlib.util.find_spec("tf2onnx"):
        import onnxruntime

        from tfdml.serving.exported.onnx_file import write_onnx

        if family in NOT_IN_ONNX:
            with pytest.raises(ValueError, match="The model cannot be written in ONNX, export it without"):
                write_onnx(tmp_path / "exported")
            return
        write_onnx(tmp_path / "exported")
        session = onnxruntime.InferenceSession(tmp_path / "exported" / "model.onnx")
        np.testing.assert_allclose(session.run(None, {"images": pixels})[0], embedded, atol=1e-5)


@pytest.mark.parametrize("family, prefix", [("ViT", 1), ("DeiT", 2), ("DINOV2", 5), ("CLIP", 1)])
def test_tokens_stand_for_an_image_as_is_asked(family, prefix, tmp_path):
    network = preset_of(family, tmp_path)
    tokens = np.asarray(called(network.vision_encoder if family in TOWERS else network, IMAGES))
    first, patches = tokens[:, 0], tokens[:, prefix:].mean(axis=1)
    assert tokens.shape[1] - prefix == 16
    kinds = {"class": first, "patches": patches, "both": np.concatenate([first, patches], axis=1)}
    for kind, expected in kinds.items():
        backbone = create("backbone", f"keras_hub(preset={str(tmp_path)!r}, features={kind!r})")
        np.testing.assert_allclose(backbone(IMAGES), expected, atol=1e-5)
    again = type(backbone).from_config(backbone.get_config())
    assert again.output.shape == backbone.output.shape


def test_lora_is_that_of_keras(tmp_path):
    preset_of("ViT", tmp_path)
    backbone = create("backbone", f"keras_hub(preset={str(tmp_path)!r}, features='class')")
    before = np.asarray(backbone(IMAGES))
    # Of two layers, each with four matrices of attention and two behind it.
    assert tfdml.backbones.enable_lora(backbone, 2) == 12
    np.testing.assert_allclose(backbone(IMAGES), before, atol=1e-6)
    assert {each.name for each in backbone.trainable_variables} == {"lora_kernel_a", "lora_kernel_b"}


def test_what_cannot_be_a_backbone_is_one_line(tmp_path):
    from keras_hub import models

    models.BertBackbone(64, 1, 2, 16, 32, max_sequence_length=8).save_to_preset(tmp_path / "bert")
    preset_of("DINOV2", tmp_path / "dino")
    preset_of("ResNet", tmp_path / "resnet")
    preset_of("SwinTransformer", tmp_path / "swin")
    for spec, words in {
        f"keras_hub(preset='{tmp_path}/bert')": "is a BertBackbone, which takes no images alone: its inputs have",
        f"keras_hub(preset='{tmp_path}/dino', image_size=36)": "images of 36 x 36 pixels do not divide into patches",
        f"keras_hub(preset='{tmp_path}/resnet', features='class')": "no tokens: leave out features",
        f"keras_hub(preset='{tmp_path}/swin', features='class')": "has no token of the whole image, which 'class'",
    }.items():
        with pytest.raises(ValueError, match=words):
            create("backbone", spec)
    assert keras.backend.backend() == "tensorflow"
