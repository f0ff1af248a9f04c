"""Vision transformers of timm and DINOv2, written here by the names in their files, beside those converted."""

import json

import keras
import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.backbones.weights.published_files import safetensors
from tests.commands import assert_one_error, run
from tfdml.backbones.published_weights import read_state_dict
from tfdml.backbones.transformer_weights import convert_transformer
from tfdml.registry import create

DIM, HEADS, PATCH, BLOCKS = 128, 2, 4, 2
IMAGES = np.random.default_rng(0).normal(size=(2, 16, 16, 3)).astype(np.float32)


def weights(*, scaled, registers=0, gated=False, of_timm=True, hidden=256):
    """A state dict with random weights; with registers, timm has no position of the first token."""
    shapes = {
        "cls_token": (1, 1, DIM),
        "pos_embed": (1, 16 + (not registers or not of_timm), DIM),
        "patch_embed.proj.weight": (DIM, 3, PATCH, PATCH),
        "patch_embed.proj.bias": (DIM,),
    }
    if registers:
        shapes["reg_token" if of_timm else "register_tokens"] = (1, registers, DIM)
    if not of_timm:
        shapes["mask_token"] = (1, DIM)
    first, last = ("fc1", "fc2") if of_timm or not gated else ("w12", "w3")
    for block in range(BLOCKS):
        of_block = {
            "attn.qkv": (3 * DIM, DIM),
            "attn.proj": (DIM, DIM),
            f"mlp.{first}": (hidden * (1 + gated), DIM),
            f"mlp.{last}": (DIM, hidden),
            "norm1": (DIM,),
            "norm2": (DIM,),
        }
        for name, shape in of_block.items():
            shapes |= {f"blocks.{block}.{name}.weight": shape, f"blocks.{block}.{name}.bias": shape[:1]}
        if scaled:
            shapes |= {f"blocks.{block}.ls{number}.gamma": (DIM,) for number in (1, 2)}
    shapes |= {"norm.weight": (DIM,), "norm.bias": (DIM,), "head.weight": (5, DIM)}
    random = np.random.default_rng(1)
    return {name: random.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


def tokens(state, images):
    """Returns the tokens of a transformer: of the whole image, registers, patches."""
    state = {name: torch.tensor(values) for name, values in state.items()}

    def linear(name, values):
        return functional.linear(values, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(name, values):
        return functional.layer_norm(values, (DIM,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-6)

    features = torch.tensor(images).permute(0, 3, 1, 2)
    features = functional.conv2d(features, state["patch_embed.proj.weight"], state["patch_embed.proj.bias"], PATCH)
    features = features.flatten(2).transpose(1, 2)
    first, positions = state["cls_token"], state["pos_embed"]
    if positions.shape[1] > features.shape[1]:
        first, positions = first + positions[:, :1], positions[:, 1:]
    registers = state.get("reg_token", state.get("register_tokens", torch.zeros(1, 0, DIM)))
    before = torch.cat([first, registers], 1).expand(len(images), -1, -1)
    features = torch.cat([before, features + positions], 1)
    for block in range(BLOCKS):
        prefix = f"blocks.{block}"
        query, key, value = (
            each.unflatten(2, (HEADS, DIM // HEADS)).transpose(1, 2)
            for each in linear(f"{prefix}.attn.qkv", norm(f"{prefix}.norm1", features)).chunk(3, 2)
        )
        mixed = ((query @ key.transpose(2, 3)) / (DIM // HEADS) ** 0.5).softmax(-1) @ value
        change = linear(f"{prefix}.attn.proj", mixed.transpose(1, 2).flatten(2))
        features = features + change * state.get(f"{prefix}.ls1.gamma", 1.0)
        meta = f"{prefix}.mlp.w12.weight" in state
        change = linear(f"{prefix}.mlp.{'w12' if meta else 'fc1'}", norm(f"{prefix}.norm2", features))
        last = f"{prefix}.mlp.{'w3' if meta else 'fc2'}"
        if change.shape[2] == 2 * state[f"{last}.weight"].shape[1]:
            gate, change = change.chunk(2, 2)
            change = functional.silu(gate) * change
        else:
            change = functional.gelu(change)
        features = features + linear(last, change) * state.get(f"{prefix}.ls2.gamma", 1.0)
    return norm("norm", features).numpy()


CASES = {
    "timm_vit": ("timm_vit", {"scaled": False}),
    "timm_dinov2": ("timm_dinov2", {"scaled": True}),
    "timm_dinov2_registers_gated": ("timm_dinov2", {"scaled": True, "registers": 4, "gated": True, "hidden": 344}),
    "meta_dinov2": ("meta_dinov2", {"scaled": True, "of_timm": False}),
    "meta_dinov2_registers_gated": (
        "meta_dinov2",
        {"scaled": True, "registers": 4, "gated": True, "of_timm": False, "hidden": 344},
    ),
}


@pytest.mark.parametrize("source, about", CASES.values(), ids=CASES)
def test_tokens_agree(source, about):
    state, lines = weights(**about), []
    network = convert_transformer(source, state, show=lines.append)
    images = {"images": IMAGES} if isinstance(network.input, dict) else IMAGES
    expected = tokens(state, IMAGES)
    assert np.ptp(expected) > 1 and network.output.shape[1] == expected.shape[1] == 17 + about.get("registers", 0)
    np.testing.assert_allclose(network(images), expected, atol=1e-4)
    assert "not used: head.weight (5, 128)" in lines


def test_the_command_writes_what_a_backbone_is_made_of(tmp_path):
    state = weights(scaled=True, registers=4)
    (tmp_path / "model.safetensors").write_bytes(safetensors({name: ("F32", each) for name, each in state.items()}))
    flags = [f"--input={tmp_path}/model.safetensors", f"--output={tmp_path}/dino"]
    assert_one_error(
        run("tfdml.convert_weights", "--source=timm_vit", *flags),
        "does not match --source=timm_vit",
        "matches timm_dinov2, meta_dinov2",
    )
    config = {"pretrained_cfg": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.25]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = run("tfdml.convert_weights", "--source=timm_dinov2", *flags)
    assert done.returncode == 0, done.stderr
    assert f"Use --backbone=\"keras_hub(preset='{tmp_path}/dino')\"" in done.stdout
    backbone = create("backbone", f"keras_hub(preset='{tmp_path}/dino', features='class')")
    np.testing.assert_allclose(backbone.mean, [127.5, 102, 76.5], rtol=1e-5)
    np.testing.assert_allclose(backbone.std, [51, 51, 63.75], rtol=1e-5)
    np.testing.assert_allclose(backbone(IMAGES), tokens(state, IMAGES)[:, 0], atol=1e-4)
    assert_one_error(run("tfdml.convert_weights", "--source=timm_dinov2", *flags), "--output must be a folder")
    (tmp_path / "config.json").write_text('{"pretrained_cfg": {"mean": [1, 2], "std": [1, 0, 1]}}')
    flags[-1] = f"--output={tmp_path}/again"
    assert_one_error(run("tfdml.convert_weights", "--source=timm_dinov2", *flags), "config.json does not specify how")


def test_files_that_are_of_another_network_are_named(tmp_path):
    state = weights(scaled=False)
    for change, words in {
        "norm.weight": "Missing: norm.weight. Unexpected: none",
        "blocks.1.attn.qkv.bias": "Missing: blocks.1.attn.qkv.bias",
    }.items():
        with pytest.raises(ValueError, match=words):
            convert_transformer("timm_vit", {name: each for name, each in state.items() if name != change}, str)
    with pytest.raises(ValueError, match="Unexpected: norm_pre.weight"):
        convert_transformer("timm_vit", {**state, "norm_pre.weight": state["norm.weight"]}, str)
    with pytest.raises(ValueError, match=r"norm.weight of the file does not fit vit_encoder/ln/gamma"):
        convert_transformer("timm_vit", {**state, "norm.weight": state["norm.weight"][:64]}, str)
    torch.save({name: torch.tensor(each) for name, each in state.items()}, tmp_path / "vit.pth")
    assert read_state_dict(tmp_path / "vit.pth").keys() == state.keys()
    assert keras.backend.backend() == "tensorflow"
