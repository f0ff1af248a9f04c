"""Drop path in the networks of keras-hub that have it."""

import contextlib
import sys

from tfdml.layers.norms import DropPath

# Networks to the argument that is the rate.
ARGUMENTS = {
    "DINOV2Backbone": "drop_path_rate",
    "DINOV3Backbone": "drop_path_rate",
    "MiTBackbone": "max_drop_path_rate",
    "MobileNetV5Backbone": "drop_path_rate",
    "SwinTransformerBackbone": "drop_path",
}
# Layers of keras-hub that refuse batches of any size, and would add noise instead of leaving branches out.
REPLACED = {
    "keras_hub.src.models.dinov2.dinov2_layers": "DINOV2DropPath",
    "keras_hub.src.models.dinov3.dinov3_layers": "DINOV3DropPath",
}


def with_drop_path(network, rate):
    """Returns a network of keras-hub with the same weights and another rate of drop path."""
    kind = type(network).__name__
    if kind not in ARGUMENTS:
        raise ValueError(f"{kind} has no drop path: leave out drop_path. It is in {', '.join(sorted(ARGUMENTS))}.")
    with working_drop_path():
        changed = type(network).from_config({**network.get_config(), ARGUMENTS[kind]: rate})
    changed.set_weights(network.get_weights())
    return changed


@contextlib.contextmanager
def working_drop_path():
    """A context in which networks of keras-hub are made with `DropPath` where their own does not work."""
    loaded = [(sys.modules[module], name) for module, name in REPLACED.items() if module in sys.modules]
    before = [(module, name, vars(module)[name]) for module, name in loaded if name in vars(module)]
    try:
        for module, name, _ in before:
            setattr(module, name, _drop_path)
        yield
    finally:
        for module, name, own in before:
            setattr(module, name, own)


def _drop_path(rate=0.0, **kwargs):
    # DINOv3 computes its rates as tensors.
    return DropPath(float(rate), **kwargs)
