"""tfdml: deep metric learning for Keras 3, on TensorFlow, JAX or PyTorch."""

import importlib
import sys
from types import ModuleType

from tfdml.console import startup
from tfdml.console.startup import __version__

# The public names.
__all__ = ["__version__"]
# Keras backends on which models train.
BACKENDS = ("tensorflow", "jax", "torch")
# Packages that may contain a name that someone looks for in this package.
_guided = []

# Commands parse their flags before these imports; see `startup`.
if startup.begin():
    with startup.without_collections():
        startup.import_keras_quietly()

        import keras

        from pipelines.preprocessing import Preprocessing
        from tfdml import backbones, functional, heads, layers, losses, registry, texts
        from tfdml.registry import arguments

        __all__ += ["Preprocessing", "backbones", "functional", "heads", "layers", "losses", "registry", "texts"]

        # Losses, layers and backbones support all Keras backends. Models train on three of them.
        if keras.backend.backend() in BACKENDS:
            from tfdml import callbacks, evaluation, methods, optimizers
            from tfdml.methods import (
                AttentionEnsemble,
                DivideAndConquer,
                EmbeddingModel,
                Features,
                Joined,
                MultiHead,
                Multilevel,
                MultiTail,
                Single,
                TwoStreams,
                TwoTowers,
                memories,
            )

            __all__ += ["AttentionEnsemble", "DivideAndConquer", "EmbeddingModel", "MultiHead", "MultiTail"]
            __all__ += ["Features", "Joined", "Multilevel", "Single", "TwoStreams", "TwoTowers", "memories"]
            __all__ += ["ImageEmbedder", "Index", "callbacks", "data", "evaluation", "load", "methods", "optimizers"]
            __all__ += ["from_preset", "reporting", "save_preset", "serving", "upload_preset"]

        _guided = [module for name, module in globals().items() if name in __all__ and isinstance(module, ModuleType)]
        arguments.guide(*_guided)


# These are imported on first access, because their modules import the registry from this package.
_LATER = {
    "ImageEmbedder": "tfdml.run.loading",
    "Index": "tfdml.serving.index.index",
    "load": "tfdml.run.loading",
}
_LATER |= dict.fromkeys(("from_preset", "save_preset", "upload_preset"), "tfdml.serving.presets")


def __getattr__(name):
    if name in ("data", "reporting", "serving"):
        return importlib.import_module(f"tfdml.{name}")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    # Imported here, because NumPy would slow down the --help of commands.
    from tfdml.registry import arguments

    found = sys.modules.get("keras")
    needs = f".{arguments.meant(name, sys.modules[__name__], *_guided)}"
    if found is not None and found.backend.backend() not in BACKENDS:
        needs = f" on Keras' {found.backend.backend()} backend. Models need tensorflow, jax or torch"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{needs}")


def __dir__():
    return sorted(__all__)
