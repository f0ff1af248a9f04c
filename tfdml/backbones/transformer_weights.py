"""Converts vision transformers from timm and DINOv2 files to keras-hub presets; shapes determine the network."""

import dataclasses
import math
import re
from pathlib import Path

import numpy as np

from tfdml.backbones.borrowed import import_extra
from tfdml.backbones.published_weights import check_names, read_state_dict
from tfdml.files.checked import json_of, read_bytes, reason_of

HALF = ((0.5,) * 3, (0.5,) * 3)
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# Width of an attention head, and the number of heads for token widths with wider heads.
HEAD, HEADS = 64, {1280: 16, 1408: 16}
# Classifiers, and parameters that only DINOv2's training needs.
LEFT_OUT = r"(head|pre_logits)\..*|mask_token"
# Meta's names and the corresponding timm names.
RENAMED = {r"\.w12\.": ".fc1.", r"\.w3\.": ".fc2.", r"^register_tokens$": "reg_token"}
# keras-hub's names and the corresponding timm names.
OWN = {
    r".*class_token|.*cls_token": "cls_token",
    r".*register_tokens": "reg_token",
    r".*position_embeddings?(/embeddings)?": "pos_embed",
    r".*/(patch_embedding|projection)/(\w+)": r"patch_embed.proj.\2",
    r"vit_encoder/ln/(\w+)|layernorm/(\w+)": r"norm.\1\2",
    r"(\d+)/(ln_|norm)(\d)/(\w+)": r"blocks.\1.norm\3.\4",
    r"(\d+)/(mha|attention/attention)/(query|key|value)/(\w+)": r"blocks.\1.attn.qkv.\4",
    r"(\d+)/(mha|attention/attention)/attention_output/(\w+)": r"blocks.\1.attn.proj.\3",
    r"(\d+)/mlp/(dense_1|fc1|weights_in)/(\w+)": r"blocks.\1.mlp.fc1.\3",
    r"(\d+)/mlp/(dense_2|fc2|weights_out)/(\w+)": r"blocks.\1.mlp.fc2.\3",
    r"(\d+)/layer_scale(\d)/lambda1": r"blocks.\1.ls\2.gamma",
}
# The last matrix of a block.
LAST = r"blocks\.\d+\.mlp\.fc2\.weight"
PARTS = ("query", "key", "value")


@dataclasses.dataclass(frozen=True)
class TransformerSource:
    """A kind of published files, with the keras-hub class and the address of one of the files.

    `pixels` are the mean and standard deviation of pixels from 0 to 1, unless a `config.json` next to the file has
    other values.
    """

    kind: str
    url: str
    pixels: tuple


TIMM = "https://huggingface.co/timm"
TRANSFORMERS = {
    "timm_vit": TransformerSource("ViTBackbone", f"{TIMM}/vit_base_patch16_224.augreg2_in21k_ft_in1k", HALF),
    "timm_dinov2": TransformerSource("DINOV2Backbone", f"{TIMM}/vit_small_patch14_dinov2.lvd142m", IMAGENET),
    "meta_dinov2": TransformerSource(
        "DINOV2Backbone", "https://dl.fbaipublicfiles.com/dinov2/dinov2_vits14/dinov2_vits14_pretrain.pth", IMAGENET
    ),
}


def write_preset(source, published, output, show=print):
    """Converts a file to a folder that `keras_hub(preset=...)` reads and returns the number of parameters.

    The source is a key of `TRANSFORMERS`. `output` is the `Path` of a folder that does not exist yet. `show` is called
    with a line for each parameter.
    """
    package, (mean, std) = import_extra("keras_hub"), _pixels(source, Path(published))
    network = convert_transformer(source, read_state_dict(published), show)
    side = network.inputs[0].shape[1]
    show(f"images of {side} x {side} pixels, from 0 to 1, minus {mean}, divided by {std}")
    scale, offset = [1 / 255 / each for each in std], [-m / s for m, s in zip(mean, std, strict=True)]
    converter = package.layers.ImageConverter((side, side), scale, offset, interpolation="bicubic", antialias=True)
    unfinished = output.with_name(f".writing-{output.name}")
    network.save_to_preset(unfinished)
    converter.save_to_preset(unfinished)
    unfinished.rename(output)
    return len(network.weights)


def convert_transformer(source, tensors, show=print):
    """Creates a keras-hub transformer with published weights, like `convert` for other backbones."""
    wanted = TRANSFORMERS[source]
    kind, arguments, tensors = architecture_of(tensors)
    if kind != wanted.kind:
        fits = ", ".join(name for name, each in TRANSFORMERS.items() if each.kind == kind)
        raise ValueError(
            f"The file does not match --source={source}. Expected a file such as {wanted.url}. Received: a file that "
            f"matches {fits}."
        )
    network = getattr(import_extra("keras_hub").models, kind)(**arguments)
    places = {variable.path: _place(variable.path, kind) for variable in network.variables}
    expected = {name for name, _ in places.values()}
    check_names(f"{source}, such as {wanted.url}", dict(sorted(tensors.items())), sorted(expected), LEFT_OUT)
    for variable in network.variables:
        name, part = places[variable.path]
        values, shape = tensors[name], _published_shape(variable, part is not None)
        if values.shape != shape:
            raise ValueError(
                f"{name} of the file does not fit {variable.path}. Expected shape {shape}. Received: {values.shape}."
            )
        values = values if part is None else np.split(values, 3)[part]
        values = values.transpose(2, 3, 1, 0) if values.ndim == 4 else values
        # Only the matrices of dense layers are transposed. The others contain tokens.
        values = values.T if variable.name == "kernel" and values.ndim == 2 else values
        variable.assign(values.reshape(variable.shape))
        show(f"{variable.path} {tuple(variable.shape)} <- {name}")
    for name in sorted(tensors.keys() - expected):
        show(f"not used: {name} {tensors[name].shape}")
    return network


def architecture_of(tensors):
    """Returns the keras-hub class of a state dict, the arguments of the class, and the tensors with timm's names."""
    renamed = {_renamed(name): values for name, values in tensors.items()}
    try:
        dim, channels, patch, wide = renamed["patch_embed.proj.weight"].shape
        one, positions, of_positions = renamed["pos_embed"].shape
        out, hidden = last = renamed["blocks.0.mlp.fc2.weight"].shape
        gated = renamed["blocks.0.mlp.fc1.weight"].shape[0] == 2 * hidden
    except (KeyError, ValueError, IndexError) as error:
        raise ValueError(
            f"The file does not contain a vision transformer from timm or DINOv2: {reason_of(error)}."
        ) from None
    heads = HEADS.get(dim, dim // HEAD)
    # With registers, timm has no position embedding of the first token, because it is already added to the token.
    first = positions - 1 if "reg_token" not in renamed or _is_square(positions - 1) else positions
    expected = (3, patch, 1, dim, dim, dim // heads * heads if heads else 1)
    if (channels, wide, one, of_positions, out, dim) != expected or not patch or not hidden or not _is_square(first):
        raise ValueError(
            f"The file contains another kind of vision transformer. Expected tokens with a multiple of {HEAD} "
            "dimensions, square patches of 3 channels, and positions for a square of patches and the first token. "
            f"Received: {dim} dimensions, patches {(patch, wide, channels)}, positions "
            f"{(one, positions, of_positions)}."
        )
    if first == positions:
        zeros = np.zeros((1, 1, dim), np.float32)
        renamed["pos_embed"] = np.concatenate([zeros, renamed["pos_embed"]], axis=1)
    side = patch * math.isqrt(first)
    blocks = sum(bool(re.fullmatch(LAST, name)) and values.shape == last for name, values in renamed.items())
    common = {"image_shape": (side, side, 3), "patch_size": patch, "num_layers": blocks, "num_heads": heads}
    if "blocks.0.ls1.gamma" not in renamed:
        renamed["pos_embed"] = renamed["pos_embed"][0]
        return "ViTBackbone", {**common, "hidden_dim": dim, "mlp_dim": hidden}, renamed
    registers = renamed["reg_token"].size // dim if "reg_token" in renamed else 0
    own = {
        "hidden_dim": dim,
        # keras-hub uses 2/3 of this value for gated layers.
        "intermediate_dim": -(-3 * hidden // 2) if gated else hidden,
        "use_swiglu_ffn": gated,
        "num_register_tokens": registers,
        "use_mask_token": False,
        "position_embedding_shape": (side, side, 3),
        # DINOv2 was trained with antialiasing if it has registers.
        "antialias_in_interpolation": registers > 0,
    }
    return "DINOV2Backbone", {**common, **own}, renamed


def _is_square(number):
    return number > 0 and math.isqrt(number) ** 2 == number


def _renamed(name):
    for before, after in RENAMED.items():
        name = re.sub(before, after, name)
    return name


def _place(path, kind):
    """Returns the name of a keras-hub variable in the file, and its index in `PARTS` or None."""
    block = re.match(r".*?encoder/(?:transformer_block|layers)_(\d+)/", path)
    short = path if block is None else f"{int(block[1]) - (kind == 'ViTBackbone')}/{path[block.end() :]}"
    (name,) = (re.sub(f"^(?:{own})$", timm, short) for own, timm in OWN.items() if re.fullmatch(own, short))
    for own, timm in {"kernel": "weight", "gamma": "weight", "beta": "bias"}.items():
        name = name if ".ls" in name else re.sub(f"{own}$", timm, name)
    parts = [number for number, part in enumerate(PARTS) if f"/{part}/" in short]
    return name, parts[0] if parts else None


def _published_shape(variable, is_part):
    shape = tuple(variable.shape)
    if variable.name == "kernel" and len(shape) == 4:
        return (shape[3], shape[2], *shape[:2])
    if is_part:
        return (3 * math.prod(shape[-2:]), *shape[:-2])
    if variable.name == "kernel":
        # The last kernel of attention has two dimensions for the heads and their width.
        return (shape[-1], math.prod(shape[:-1]))
    return shape


def _pixels(source, path):
    """Returns mean and standard deviation of pixels from 0 to 1, from the `config.json` next to timm's files."""
    config = path.parent / "config.json"
    if not config.is_file():
        return TRANSFORMERS[source].pixels
    try:
        pretrained = json_of(read_bytes(config))["pretrained_cfg"]
        mean, std = (tuple(float(each) for each in pretrained[name]) for name in ("mean", "std"))
        if len(mean) != 3 or len(std) != 3 or min(std) <= 0 or not all(map(math.isfinite, mean + std)):
            raise ValueError(f"mean and std must be three numbers each, but are {mean} and {std}")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(
            f"{config} does not specify how {path.name} scales pixels: {reason_of(error)}. Expected timm's file, which "
            "has mean and std in pretrained_cfg. If it belongs to something else, move it to another folder."
        ) from None
    return mean, std
