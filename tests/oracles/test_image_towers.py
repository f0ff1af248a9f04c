"""Image backbones of keras-hub, one of each family with random weights: trained, saved, exported and embedded."""

import importlib.util
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdml
from pipelines.preprocessor import Preprocessor
from tests.oracles.test_borrowed_backbones import IMAGES, NETWORKS
from tests.serving_fixtures import embedded_alone
from tfdml.backbones.backbone import ARGUMENTS
from tfdml.layers.blocks import blocks_of
from tfdml.registry import create
from tfdml.serving.exports import write_lite, write_onnx

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
    "EfficientNet": {
        "stackwise_kernel_sizes": [3, 3],
        "stackwise_num_repeats": [1, 1],
        "stackwise_input_filters": [8, 8],
        "stackwise_output_filters": [8, 16],
        "stackwise_expansion_ratios": [1, 4],
        "stackwise_squeeze_and_excite_ratios": [0.25, 0.25],
        "stackwise_strides": [1, 2],
        "stackwise_block_types": ["v1", "unfused"],
        "stackwise_force_input_filters": [0, 0],
        "stackwise_nores_option": [False, False],
        "width_coefficient": 1.0,
        "depth_coefficient": 1.0,
    },
    "MobileNet": {
        "stackwise_expansion": [[16, 24], [24, 24]],
        "stackwise_num_blocks": [2, 2],
        "stackwise_num_filters": [[8, 8], [16, 16]],
        "stackwise_kernel_size": [[3, 3], [5, 5]],
        "stackwise_num_strides": [[2, 1], [2, 1]],
        "stackwise_se_ratio": [[None, None], [0.25, 0.25]],
        "stackwise_activation": [["relu", "relu"], ["hard_swish", "hard_swish"]],
        "stackwise_padding": [[1, 1], [2, 2]],
        "output_num_filters": 16,
        "depthwise_filters": 8,
        "depthwise_stride": 2,
        "depthwise_residual": False,
        "last_layer_filter": 16,
        "image_shape": (None, None, 3),
    },
    "MobileNetV5": {
        "stackwise_block_types": [["er"], ["uir", "mqa"]],
        "stackwise_num_blocks": [1, 2],
        "stackwise_num_filters": [[8], [16, 16]],
        "stackwise_strides": [[2], [2, 1]],
        "stackwise_act_layers": [["relu"], ["relu", "relu"]],
        "stackwise_exp_ratios": [[4.0], [4.0, 1.0]],
        "stackwise_se_ratios": [[0.0], [0.0, 0.0]],
        "stackwise_dw_kernel_sizes": [[0], [5, 3]],
        "stackwise_dw_start_kernel_sizes": [[0], [0, 0]],
        "stackwise_dw_end_kernel_sizes": [[0], [0, 0]],
        "stackwise_exp_kernel_sizes": [[3], [0, 0]],
        "stackwise_pw_kernel_sizes": [[1], [0, 0]],
        "stackwise_num_heads": [[0], [0, 2]],
        "stackwise_key_dims": [[0], [0, 8]],
        "stackwise_value_dims": [[0], [0, 8]],
        "stackwise_kv_strides": [[0], [0, 1]],
        "stackwise_use_cpe": [[False], [False, False]],
        "stem_size": 8,
        "use_msfa": False,
        **SIDES,
    },
    "CSPNet": {
        "stem_filters": 8,
        "stem_kernel_size": 3,
        "stem_strides": 1,
        "stackwise_strides": 2,
        "stackwise_depth": [1, 1],
        "stackwise_num_filters": [8, 16],
        "down_growth": True,
        "bottle_ratio": (0.5, 1.0),
        "block_ratio": (1.0, 0.5),
        "expand_ratio": (2.0, 1.0),
        "block_type": "dark_block",
        "stage_type": "csp",
        "stem_padding": "same",
    },
    "HGNetV2": {
        "embedding_size": 16,
        "stem_channels": [3, 8, 16],
        "hidden_act": "relu",
        "use_learnable_affine_block": False,
        "depths": [1, 1],
        "hidden_sizes": [16, 32],
        "stackwise_stage_filters": [[16, 8, 16, 1, 1, 3], [16, 8, 32, 1, 1, 3]],
        "apply_downsample": [False, True],
        "use_lightweight_conv_block": [False, True],
        **SIDES,
    },
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
# Keras compiles their grouped convolutions as functions, which tf2onnx does not convert.
NOT_IN_ONNX = ("MobileNetV5", "HGNetV2", "MobileNet")
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
    given = network({name: images for name in network.input} if isinstance(network.input, dict) else images)
    return given["stage2"] if isinstance(given, dict) else given


@pytest.mark.parametrize("family", [*TOWERS, *ALONE])
def test_a_family(family, tmp_path):
    # Some random weights of so small a MobileNet give no features but zeros, which have no gradient.
    keras.utils.set_random_seed(1)
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
    # With this margin, all pairs of different classes have a gradient.
    model.compile(optimizer, loss="contrastive(margin=2.0)")
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
    if family == "SwinTransformer":
        with pytest.raises(ValueError, match="cannot be exported to LiteRT, which does not have Roll"):
            write_lite(tmp_path / "exported", "float32")
    elif importlib.util.find_spec("ai_edge_litert"):
        write_lite(tmp_path / "exported", "float32")
        np.testing.assert_allclose(embedded_alone(tmp_path / "exported" / "model.tflite", pixels), embedded, atol=1e-5)
    if importlib.util.find_spec("tf2onnx"):
        if family in NOT_IN_ONNX:
            with pytest.raises(ValueError, match="The model cannot be exported to ONNX"):
                write_onnx(tmp_path / "exported")
            return
        write_onnx(tmp_path / "exported")
        np.testing.assert_allclose(embedded_alone(tmp_path / "exported" / "model.onnx", pixels), embedded, atol=1e-5)


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


# MiT draws more: it has dropout.
@pytest.mark.parametrize("family", ["DINOV2", "DINOV3", "SwinTransformer"])
def test_drop_path_leaves_branches_out_in_training_alone(family, tmp_path):
    network = preset_of(family, tmp_path)
    backbone = create("backbone", f"keras_hub(preset={str(tmp_path)!r}, drop_path=0.5)")
    again = type(backbone).from_config(backbone.get_config())
    again.set_weights(backbone.get_weights())
    same = np.repeat(IMAGES[:1], 64, axis=0)
    for each in (backbone, again):
        np.testing.assert_allclose(each(IMAGES), called(network, IMAGES), atol=1e-5)
        rows, kinds = np.asarray(each(same, training=True)).reshape(64, -1), []
        for row in rows:
            kinds += [] if any(np.allclose(row, kind, atol=1e-4) for kind in kinds) else [row]
        assert 2 <= len(kinds) <= 32


@pytest.mark.parametrize("family", sorted(name.removesuffix("Backbone") for name in ARGUMENTS))
def test_rates_of_drop_path_are_those_in_the_docs(family, tmp_path):
    preset_of(family, tmp_path)
    backbone = create("backbone", f"keras_hub(preset={str(tmp_path)!r}, drop_path=0.1)")
    layers = [each for each in backbone._flatten_layers() if "DropPath" in type(each).__name__]
    rates = [float(each.rate if hasattr(each, "rate") else each.drop_prob) for each in layers]
    # The last of several blocks has the rate; in MobileNetV5 they are counted from 0, so that none has it.
    assert max(rates) == pytest.approx(0.1) if family != "MobileNetV5" else 0.05 < max(rates) < 0.1
    # A first block with the rate 0 has no such layer in DINOV3.
    assert (min(rates) < 0.09 or len(rates) == 1) == (family != "DINOV2")


@pytest.mark.parametrize("side", [40, 20])
def test_images_are_resized_as_the_preset_says(side, tmp_path):
    from keras_hub.layers import ImageConverter

    network_of("ResNet").save_to_preset(tmp_path)
    converter = ImageConverter(image_size=(32, 32), scale=1 / 50, offset=-2.0, interpolation="bicubic", antialias=True)
    converter.save_to_preset(tmp_path)
    backbone = create("backbone", f"keras_hub(preset={str(tmp_path)!r})")
    model = tfdml.Single(type(backbone).from_config(backbone.get_config()), embedding_size=4)
    prepared = tfdml.Preprocessing.of(model)
    assert prepared.interpolation == "bicubic"
    image = np.random.default_rng(0).integers(0, 256, (side, side, 3)).astype(np.float32)
    expected = np.clip(np.asarray(converter(image)), -2.0, 255 / 50 - 2.0)
    found = Preprocessor.of(prepared).from_pixels(tf.constant(image), tf.zeros([2], tf.int64))
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_lora_is_that_of_keras(tmp_path):
    preset_of("ViT", tmp_path)
    backbone = create("backbone", f"keras_hub(preset={str(tmp_path)!r}, features='class')")
    before = np.asarray(backbone(IMAGES))
    # Of two layers, each with four matrices of attention and two behind it.
    assert tfdml.backbones.enable_lora(backbone, 2) == 12
    np.testing.assert_allclose(backbone(IMAGES), before, atol=1e-6)
    assert {each.name for each in backbone.trainable_variables} == {"lora_kernel_a", "lora_kernel_b"}


def test_gradients_compute_the_blocks_of_vit_again(tmp_path):
    preset_of("ViT", tmp_path)
    backbone = create("backbone", f"keras_hub(preset={str(tmp_path)!r})")
    expected = gradients_of(backbone)
    # The patches, and two layers.
    assert tfdml.backbones.recompute_blocks(backbone) == 3
    for found, wanted in zip(gradients_of(backbone), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def gradients_of(network):
    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(network(IMAGES, training=True)[:, 0] ** 2)
        found = tape.gradient(loss, [each.value for each in network.trainable_variables])
        # Those of positions are of rows alone.
        return [tf.convert_to_tensor(each) for each in found]

    return [np.asarray(each) for each in gradients()]


def test_the_table_of_the_docs_is_what_is_tested():
    text = (Path(__file__).parents[2] / "docs" / "backbones.md").read_text()
    table = text.split("| keras-hub | ")[1].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    families = {name: row for row in rows for name in row[0].split(", ")}
    assert families.keys() - {"SigLIP2"} == {*TOWERS, *ALONE}
    assert {name for name, row in families.items() if row[4] != "yes"} == {*NOT_IN_ONNX}
    assert {f"{name}Backbone" for name, row in families.items() if row[5] == "yes"} == ARGUMENTS.keys()


def test_what_cannot_be_a_backbone_is_one_line(tmp_path):
    from keras_hub import models

    models.BertBackbone(64, 1, 2, 16, 32, max_sequence_length=8).save_to_preset(tmp_path / "bert")
    preset_of("DINOV2", tmp_path / "dino")
    preset_of("ResNet", tmp_path / "resnet")
    preset_of("SwinTransformer", tmp_path / "swin")
    for spec, words in {
        f"keras_hub(preset='{tmp_path}/bert')": "not an image backbone.* Received: BertBackbone with inputs",
        f"keras_hub(preset='{tmp_path}/dino', image_size=36)": "a multiple of .* Received: images of 36 x 36",
        f"keras_hub(preset='{tmp_path}/resnet', features='class')": "returns a feature map .* Remove features",
        f"keras_hub(preset='{tmp_path}/resnet', drop_path=0.1)": "ResNetBackbone does not support drop_path",
        f"keras_hub(preset='{tmp_path}/swin', features='class')": "has no token of the whole image, which 'class'",
    }.items():
        with pytest.raises(ValueError, match=words):
            create("backbone", spec)
    assert keras.backend.backend() == "tensorflow"
