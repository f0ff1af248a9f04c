"""The Keras backend, and what a model needs if the backend is not TensorFlow."""

import contextlib
import importlib
import importlib.util
import os
import sys
from types import ModuleType

# Whether TensorFlow is installed. A constant, because graphs of tf.data cannot look for a package.
HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
TITLES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch", "openvino": "OpenVINO"}


def backend_name() -> str:
    """Returns the name of the Keras backend. It does not import Keras, which evaluating embeddings does not need."""
    keras = sys.modules.get("keras")
    return os.environ.get("KERAS_BACKEND") or "tensorflow" if keras is None else keras.backend.backend()


def uses_tensorflow() -> bool:
    """Returns whether TensorFlow is installed and is the backend. Otherwise, nothing may import it.

    On another backend, TensorFlow would reserve the memory of the GPU, even if it is only used for data.
    """
    return HAS_TENSORFLOW and backend_name() == "tensorflow"


def tensorflow_if_used() -> ModuleType | None:
    """Returns the module `tensorflow`, or `None` if it is not the backend."""
    return importlib.import_module("tensorflow") if uses_tensorflow() else None


def refuse_unless_tensorflow(feature: str, instead: str = "Remove it") -> None:
    """Raises a ValueError if the backend is not TensorFlow.

    Args:
        feature: Name of a feature that exists on TensorFlow alone, which is the subject of the message.
        instead: What to do on another backend. Defaults to `"Remove it"`.
    """
    if not uses_tensorflow():
        name = backend_name()
        raise ValueError(
            f"{feature} works only on TensorFlow. Received: the Keras backend {TITLES.get(name, name)}. {instead}, or "
            "set KERAS_BACKEND=tensorflow before Python starts."
        )


def strategy_of(model):
    """Returns the `tf.distribute.Strategy` of a Keras model, or None on another backend."""
    return model.distribute_strategy if uses_tensorflow() else None


def scope_of(model):
    """Returns the context in which variables for a model are created: the scope of its strategy, if it has one."""
    strategy = strategy_of(model)
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def is_tensorflow_dataset(data) -> bool:
    """Returns whether data is a `tf.data.Dataset`, which Keras accepts on every backend."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(data, tensorflow.data.Dataset)


def has_gpu() -> bool:
    """Returns whether Keras computes on a GPU."""
    if tensorflow := tensorflow_if_used():
        return bool(tensorflow.config.list_physical_devices("GPU"))
    if backend_name() == "torch":
        return importlib.import_module("torch").cuda.is_available()
    return importlib.import_module("jax").default_backend() == "gpu"
