"""Shapes in a file of a vision transformer say which network it is; tests/oracles has tests of its weights."""

import numpy as np
import pytest

from tfdml.backbones.transformer_weights import architecture_of

SHAPES = {
    "patch_embed.proj.weight": (128, 3, 4, 4),
    "pos_embed": (1, 17, 128),
    "blocks.0.mlp.fc1.weight": (256, 128),
    "blocks.0.mlp.fc2.weight": (128, 256),
    "blocks.1.mlp.fc2.weight": (128, 256),
}
SCALED = {"blocks.0.ls1.gamma": (128,)}


def of(**changed):
    shapes = {**SHAPES, **{name.replace("__", "."): shape for name, shape in changed.items()}}
    return architecture_of({name: np.zeros(shape, np.float32) for name, shape in shapes.items() if shape})


def test_shapes_say_which_network_it_is():
    kind, arguments, tensors = of()
    common = {"image_shape": (16, 16, 3), "patch_size": 4, "num_layers": 2, "num_heads": 2, "hidden_dim": 128}
    assert kind == "ViTBackbone" and arguments == {**common, "mlp_dim": 256} and tensors["pos_embed"].shape == (17, 128)
    kind, arguments, tensors = of(**SCALED, register_tokens=(1, 4, 128))
    assert kind == "DINOV2Backbone" and arguments["num_register_tokens"] == 4 and "reg_token" in tensors
    assert {**arguments, **common} == arguments and arguments["intermediate_dim"] == 256
    # timm's, whose registers have no position: the first token's is zero.
    _, again, tensors = of(**SCALED, reg_token=(1, 4, 128), pos_embed=(1, 16, 128))
    assert again == arguments and tensors["pos_embed"].shape == (1, 17, 128)


@pytest.mark.parametrize("heads, dim", [(3, 192), (16, 1280), (16, 1408), (24, 1536)])
def test_heads_follow_from_the_width(heads, dim):
    widths = {"patch_embed__proj__weight": (dim, 3, 1, 1), "pos_embed": (1, 2, dim)}
    assert of(**widths, blocks__0__mlp__fc2__weight=(dim, 8))[1]["num_heads"] == heads


@pytest.mark.parametrize(
    "changed, words",
    [
        (
            {"pos_embed": None},
            "vision transformer from timm or DINOv2: it does not contain 'pos_embed'",
        ),
        ({"pos_embed": (17, 128)}, "does not contain a vision transformer from timm or DINOv2"),
        ({"pos_embed": (1, 16, 128)}, "positions .1, 16, 128."),
        ({"pos_embed": (1, 17, 64)}, "positions .1, 17, 64."),
        ({"patch_embed__proj__weight": (100, 3, 4, 4)}, "Received: 100 dimensions"),
        ({"patch_embed__proj__weight": (128, 3, 4, 2)}, r"patches \(4, 2, 3\)"),
        ({"patch_embed__proj__weight": (128, 3, 0, 0)}, r"patches \(0, 0, 3\)"),
        ({"patch_embed__proj__weight": (0, 3, 4, 4)}, "Received: 0 dimensions"),
    ],
)
def test_other_networks_are_refused(changed, words):
    with pytest.raises(ValueError, match=words):
        of(**changed)
