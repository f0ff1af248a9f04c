"""tfdml: deep metric learning for TensorFlow and Keras 3."""

import importlib

from tfdml import startup

__version__ = "0.1.0"

# Command lines read their flags first, see `startup`.
if startup.begin():
    startup.import_keras_quietly()

    import keras

    from tfdml import backbones, layers, losses, registry

    __all__ = ["backbones", "layers", "losses", "registry"]

    # Losses, layers and backbones run on any Keras backend; training and what follows it are TensorFlow's.
    if keras.backend.backend() == "tensorflow":
        from tfdml import callbacks, evaluation, methods, optimizers
        from tfdml.methods import AttentionEnsemble, DivideAndConquer, EmbeddingModel, MultiHead, MultiTail, Single

        __all__ += ["AttentionEnsemble", "DivideAndConquer", "EmbeddingModel", "MultiHead", "MultiTail", "Single"]
        __all__ += ["callbacks", "data", "evaluation", "methods", "optimizers"]


def __getattr__(name):
    # Not above: the pipelines that it imports import the registry from here.
    if name == "data":
        return importlib.import_module("tfdml.data")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
